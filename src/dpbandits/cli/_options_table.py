"""The arguments of `dpbandits plan` for a table of options, and their section [options] of a study file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbandits.cli._parser import add_value, number, whole_number
from dpbandits.errors import InvalidValue
from dpbandits.options import Options, read_columns
from dpbandits.service.config import OPTIONS_KEYS, read_options


@dataclass(frozen=True, kw_only=True)
class OptionsTable:
    """A table of options, with the keys of the section [options] that encode it.

    Attributes:
        table: The CSV file.
        keys: The other keys that were given, as in a study file.
        options: The encoded options.
    """

    table: Path
    keys: dict[str, Any]
    options: Options

    def section(self, folder: Path) -> list[str]:
        """Return the lines of the section [options] of a study file that lies in this folder."""
        kept = os.path.relpath(self.table.resolve(), folder.resolve())
        values = {"table": kept, **self.keys}
        return ["[options]", *(f"{key} = {_toml(value)}" for key, value in values.items())]


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add `--options`, and the arguments that say how its columns are encoded."""
    group = parser.add_argument_group("options: a table with names, in place of --actions-file")
    table = "CSV file with one option per row; the arguments below are as in [options] of a study file"
    add_value(group, "--options", Path, "FILE.csv", table, dest="options_table")
    add_value(group, "--label", str, "COLUMN", "column with the names", "name")
    columns: dict[str, Any] = {"nargs": "+", "metavar": "COLUMN"}
    group.add_argument("--features", **columns, help="columns to use (default: all but the label)")
    add_value(group, "--current", str, "NAME", "option in use today")
    group.add_argument("--log", **columns, help="columns that are replaced by their logarithms")
    group.add_argument("--squared", **columns, help="columns of numbers whose squares are added")
    levels = "levels of a column, lowest first; for example size=small,large"
    group.add_argument("--ordered", nargs="+", metavar="COLUMN=LEVELS", help=levels)
    group.add_argument("--steps", **columns, help="ordered columns in which each step has its own effect")
    level = "level to which the others are compared; for example colour=red"
    group.add_argument("--baseline", nargs="+", metavar="COLUMN=LEVEL", help=level)
    pairs = "products of columns, for example price*colour; or all"
    group.add_argument("--interactions", nargs="+", metavar="A*B", help=pairs)
    shape = "rbf or matern: mean rewards are a smooth function of the features, with this kernel"
    add_value(group, "--kernel", str, "SHAPE", shape)
    scale = "length scale of the kernel; ranges are mapped to [-1, 1] (default: 0.5)"
    add_value(group, "--length-scale", number, "L", scale)
    add_value(
        group, "--rank", whole_number, "R", "number of columns of the kernel (default: as many as needed)"
    )


def options_table(options: argparse.Namespace) -> OptionsTable | None:
    """Return the table that the arguments describe; None without `--options`.

    Raises:
        InvalidValue: The table cannot be encoded, or an argument needs `--options`.
    """
    optional = [key for key in OPTIONS_KEYS if key not in ("table", "label")]
    given = {key: value for key in optional if (value := getattr(options, key)) is not None}
    table: Path | None = options.options_table
    if table is None:
        if given:
            key, value = next(iter(given.items()))
            raise InvalidValue(key, value, "--options as well, which names the table")
        return None
    if options.actions_file is not None or options.data is not None:
        raise InvalidValue("options", table, "no --actions-file and no --data with it")
    columns = read_columns(table, name="options", text=options.label)
    for key in ("ordered", "baseline"):
        if key in given:
            named = dict(_named(key, one) for one in given[key])
            given[key] = {name: _levels(key, columns.get(name, ()), text) for name, text in named.items()}
    if "interactions" in given:
        pairs = given["interactions"]
        given["interactions"] = "all" if pairs == ["all"] else [pair.split("*") for pair in pairs]
    keys = {"label": options.label, **given}
    return OptionsTable(table=table, keys=keys, options=read_options(table, **keys))


def show_left_out(table: OptionsTable | None) -> None:
    """Print to standard error what the columns of a kernel leave out. `misfit` has to cover it."""
    if table is not None and table.options.left_out:
        columns, left = len(table.options.encoding.columns), table.options.left_out
        line = (
            f"kernel: mean rewards deviate from a linear function of the {columns} columns by at most "
            f"{left:.2g} times their norm in the space of the kernel"
        )
        print(line, file=sys.stderr)


def _named(key: str, text: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not name or not rest:
        raise InvalidValue(key, repr(text), "COLUMN=LEVEL")
    return name, rest


def _levels(key: str, column: Any, text: str) -> Any:
    """Return levels as the column has them: 1 and not "1" in a column of numbers."""
    known = {str(value): value for value in column}
    if key == "baseline":
        return known.get(text, text)
    return [known.get(level.strip(), level.strip()) for level in text.split(",")]


def _toml(value: Any) -> str:
    """Return a value as TOML; texts, numbers, booleans and lists are written as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
