"""`dpbandits cover`: replace a box, a ball or a simplex of actions by a finite set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpbandits.actions import Actions
from dpbandits.cli._parser import DefaultsInHelp, number, whole_number
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.design import KINDS, Cover, cover
from dpbandits.errors import InvalidValue


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "cover",
        help=summary,
        description="Write points of a box (corners on the unit sphere), the unit ball or the simplex such "
        "that every point of the set is within the radius of one of them. Playing only these points costs at "
        "most radius × ‖θ*‖ of regret per round. `dpbandits simulate --actions-file` reads the file and adds "
        "that loss to the regret.",
        formatter_class=DefaultsInHelp,
    )
    parser.set_defaults(run=run)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument(
        "--dimension", type=whole_number, required=True, metavar="D", help="dimension of the points"
    )
    parser.add_argument("--radius", type=number, required=True, metavar="R", help="covering radius")
    parser.add_argument(
        "--count-limit",
        type=whole_number,
        default=1_000_000,
        metavar="N",
        help="refuse covers with more points",
    )
    parser.add_argument("--out", metavar="FILE", help="write the points to a .npz or .csv file")
    parser.add_argument("--json", metavar="PATH", help="write the figures; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Compute the cover, write it, and print its radius and the regret that it adds."""
    check_writable(options.json)
    out = None if options.out is None else _checked(Path(options.out))
    found = cover(
        options.kind, dimension=options.dimension, radius=options.radius, count_limit=options.count_limit
    )
    if out is not None:
        Actions(found.points, loss=found.loss).save(out)
    write_document(_document(found, options), options.json)
    if options.json != "-":
        written = "" if out is None else f" in {out}"
        print(f"{len(found.points):,} points of the {found.kind} in {options.dimension} dimensions{written}")
        print(
            f"covering radius {found.radius:.6g}: regret per round grows by at most {found.loss:.6g} × ‖θ*‖"
        )
    return 0


def _checked(path: Path) -> Path:
    """Check the output path before the work begins."""
    if path.suffix.lower() not in (".csv", ".npz"):
        raise InvalidValue("out", path, "a file that ends in .npz or .csv")
    if not path.parent.is_dir():
        raise InvalidValue("out", path, "a path in a folder that exists")
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
