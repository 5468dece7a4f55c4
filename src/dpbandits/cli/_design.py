"""`dpbandits design`: choose which rows of a file to measure, and how often, to learn about all of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.actions import read_matrix
from dpbandits.cli._parser import DefaultsInHelp, number, whole_number
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.design import Design, near_g_optimal
from dpbandits.errors import InvalidValue

_SHOWN = 20  # rows in the table; the JSON has all


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "design",
        help=summary,
        description="Choose a few rows of FILE, and weights for them, such that a linear function that is "
        "measured there in these proportions is known well at all rows: no row's variance exceeds "
        "tolerance × rank, if an observation has variance 1. Rows may be any finite numbers. NPY files are "
        "mapped, not loaded.",
        formatter_class=DefaultsInHelp,
    )
    parser.set_defaults(run=run)
    parser.add_argument("file", metavar="FILE", help="a .csv, .npz or .npy file with one candidate per row")
    parser.add_argument(
        "--tolerance",
        type=number,
        default=2.0,
        metavar="G",
        help="above 1; a smaller tolerance needs more rows",
    )
    parser.add_argument(
        "--max-support", type=whole_number, metavar="S", help="upper bound on the number of rows"
    )
    parser.add_argument(
        "--seed",
        type=whole_number,
        default=0,
        metavar="S",
        help="seed of the sampling in files with many rows",
    )
    parser.add_argument("--json", metavar="PATH", help="write every number; - for standard output")


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
    certificate = design.certificate
    return {
        "file": file,
        "rows": shape[0],
        "columns": shape[1],
        "rank": design.rank,
        "support": design.support.tolist(),
        "weights": design.weights.tolist(),
        "certificate": {
            "holds": certificate.holds,
            "g": certificate.g,
            "g_is_exact": certificate.g_is_exact,
            "g_limit": certificate.g_limit,
            "tolerance": certificate.tolerance,
            "support_size": certificate.support_size,
            "support_limit": certificate.support_limit,
            "passes": certificate.passes,
        },
    }


def _show(design: Design, shape: tuple[int, ...]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 100)
    certificate = design.certificate
    relation = "=" if certificate.g_is_exact else "≤"
    ratio = f", {certificate.g / design.rank:.4g} × rank" if design.rank else ""
    console.print(f"{shape[0]:,} rows of {shape[1]:,} numbers, rank {design.rank}", highlight=False)
    console.print(
        f"certified: g {relation} {certificate.g:.6g}{ratio} (limit {certificate.g_limit:.6g}), "
        f"{certificate.support_size} rows (limit {certificate.support_limit})",
        highlight=False,
    )
    table = Table("row", "weight")
    heaviest = np.argsort(-design.weights, kind="stable")[:_SHOWN]
    for place in heaviest:
        table.add_row(str(design.support[place]), f"{design.weights[place]:.6g}")
    console.print(table)
    if design.support.size > _SHOWN:
        print(f"and {design.support.size - _SHOWN} rows of smaller weight; --json has all")
