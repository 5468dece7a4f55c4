"""`dpbandits design`: choose which rows of a file to measure, and how often, to learn about all of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.actions import read_matrix
from dpbandits.cli._parser import add_value, number, whole_number
from dpbandits.cli._terminal import console
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.design import Design, near_g_optimal
from dpbandits.errors import InvalidValue

DESCRIPTION = (
    "Choose a few rows of FILE and a weight for each. If a linear function is measured at these rows, in "
    "proportion to the weights, its value can be estimated at every row of FILE: after n measurements of "
    "variance 1, the variance is at most tolerance × rank / n. Rows may contain any finite numbers. NPY "
    "files are mapped into memory, not loaded."
)
_SHOWN = 20  # rows in the table; the JSON lists all


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("file", metavar="FILE", help="a .csv, .npz or .npy file with one candidate per row")
    add_value(
        parser,
        "--tolerance",
        number,
        "G",
        "bound on the variance in units of the rank, above 1; a smaller one needs more rows",
        2.0,
    )
    add_value(parser, "--max-support", whole_number, "S", "upper bound on the number of chosen rows")
    add_value(parser, "--seed", whole_number, "S", "seed of the sampling in files with many rows", 0)
    add_value(parser, "--json", str, "PATH", "write every number; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Compute the design, and print or write it."""
    check_writable(options.json)
    rows = _read(Path(options.file))
    design = near_g_optimal(
        rows,
        tolerance=options.tolerance,
        max_support=options.max_support,
        rng=np.random.default_rng(whole(0, seed=options.seed)),
    )
    write_document(_document(design, rows.shape, options.file), options.json)
    if options.json != "-":
        _show(design, rows.shape)
    return 0


def _read(path: Path) -> FloatArray:
    if path.suffix.lower() not in (".csv", ".npz", ".npy"):
        raise InvalidValue("FILE", path, "a file that ends in .csv, .npz or .npy")
    if not path.is_file():
        raise InvalidValue("FILE", path, "an existing .csv, .npz or .npy file")
    if path.suffix.lower() != ".npy":
        return read_matrix(path)
    try:
        mapped: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidValue("FILE", path, f"a readable NPY file of numbers ({error})") from None
    return mapped


def _document(design: Design, shape: tuple[int, ...], file: str) -> dict[str, Any]:
    names = ("holds", "g", "g_is_exact", "g_limit", "tolerance", "support_size", "support_limit", "passes")
    return {
        "file": file,
        "rows": shape[0],
        "columns": shape[1],
        "rank": design.rank,
        "support": design.support.tolist(),
        "weights": design.weights.tolist(),
        "certificate": {name: getattr(design.certificate, name) for name in names},
    }


def _show(design: Design, shape: tuple[int, ...]) -> None:
    show = console(100).print
    certificate = design.certificate
    relation = "=" if certificate.g_is_exact else "≤"
    ratio = f", {certificate.g / design.rank:.4g} × rank" if design.rank else ""
    show(f"{shape[0]:,} rows of {shape[1]:,} numbers, rank {design.rank}")
    show(
        f"certified: g {relation} {certificate.g:.6g}{ratio} (limit {certificate.g_limit:.6g}), "
        f"{certificate.support_size} rows (limit {certificate.support_limit})"
    )
    table = Table("row", "weight")
    for place in np.argsort(-design.weights, kind="stable")[:_SHOWN]:
        table.add_row(str(design.support[place]), f"{design.weights[place]:.6g}")
    show(table)
    if design.support.size > _SHOWN:
        print(f"and {design.support.size - _SHOWN} more rows, none with a larger weight; --json lists all")
