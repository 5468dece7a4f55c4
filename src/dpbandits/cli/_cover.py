"""`dpbandits cover`: replace a box, a ball or a simplex of actions by a finite set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpbandits.actions import Actions
from dpbandits.cli._parser import add_value, number, whole_number
from dpbandits.cli._writing import check_folder, check_writable, write_document
from dpbandits.design import KINDS, Cover, cover
from dpbandits.errors import InvalidValue

DESCRIPTION = (
    "Compute points of a box (corners on the unit sphere), the unit ball or the simplex such that every "
    "point of the set is within the radius of one of them. Playing only these points costs at most radius × "
    "‖θ*‖ of regret per round. --out writes the points to a file. `dpbandits simulate --actions-file` reads "
    "that file, and states the loss in addition to the regret."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    add_value(parser, "--dimension", whole_number, "D", "dimension of the points", required=True)
    add_value(parser, "--radius", number, "R", "covering radius", required=True)
    add_value(parser, "--count-limit", whole_number, "N", "refuse covers with more points", 1_000_000)
    add_value(parser, "--out", str, "FILE", "write the points to a .npz or .csv file")
    add_value(parser, "--json", str, "PATH", "write the figures; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Compute the cover, write it, and print its radius and the regret that it adds."""
    check_writable(options.json)
    out = None if options.out is None else _checked(Path(options.out))
    dimension, radius, most = options.dimension, options.radius, options.count_limit
    found = cover(options.kind, dimension=dimension, radius=radius, count_limit=most)
    if out is not None:
        Actions(found.points, loss=found.loss).save(out)
    write_document(_document(found, options), options.json)
    if options.json != "-":
        written = "" if out is None else f" in {out}"
        print(f"{len(found.points):,} points of the {found.kind} in {dimension} dimensions{written}")
        loss = f"regret per round grows by at most {found.loss:.6g} × ‖θ*‖"
        print(f"covering radius {found.radius:.6g}: {loss}")
    return 0


def _checked(path: Path) -> Path:
    """Check the output path before the work begins."""
    if path.suffix.lower() not in (".csv", ".npz"):
        raise InvalidValue("out", path, "a file that ends in .npz or .csv")
    check_folder(out=path)
    return path


def _document(found: Cover, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "dimension": options.dimension,
        "count": len(found.points),
        "radius": found.radius,
        "radius_asked": options.radius,
        "loss_per_round_and_unit_norm": found.loss,
        "out": options.out,
    }
