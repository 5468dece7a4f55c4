"""The section [options] of a study file: a table of options with names, and how its columns are encoded.

    [options]
    table = "options.csv"                             # one option per row
    label = "name"                                    # the column with the names
    features = ["price", "gigabytes", "contract", "network"]
    current = "plan 01"                               # the option in use today
    log = ["gigabytes"]                               # use the logarithm
    squared = ["price"]                               # add a column with the square
    ordered = { contract = ["none", "1 year"] }       # levels in order, each step with the same effect
    steps = ["contract"]                              # each step of an ordered column has its own effect
    baseline = { network = "red" }                    # the level that the others are compared to
    interactions = [["price", "network"]]             # or "all"
    kernel = "rbf"                                    # or "matern": mean rewards are a smooth function
    length_scale = 0.5                                # of the kernel; ranges are mapped to [−1, 1]
    rank = 6                                          # columns of the kernel, by default as needed

Only `table` is required. Without `features`, all columns but the label are used. A kernel includes squares,
steps and interactions, so these keys are refused together with `kernel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from dpbandits.errors import InvalidValue
from dpbandits.options import Category, Kernel, Kind, Number, Options, Ordered, read_columns
from dpbandits.service.config._toml_file import TomlFile


def options_of(file: TomlFile) -> Options | None:
    """Return the options of a study file; None if it has no section [options].

    Args:
        file: A study file.

    Raises:
        InvalidValue: A key or the table cannot be used; the error names the line of the key.
    """
    if not file.has("options"):
        return None
    return file.build("options", read_options, at="table", table=file.file("options", "table"))


def read_options(
    table: Path,
    *,
    label: str = "name",
    features: Sequence[str] | None = None,
    current: str | None = None,
    log: Sequence[str] = (),
    squared: Sequence[str] = (),
    ordered: Mapping[str, Sequence[Any]] | None = None,
    steps: Sequence[str] = (),
    baseline: Mapping[str, Any] | None = None,
    interactions: Sequence[Any] | str = (),
    kernel: str | None = None,
    length_scale: float | None = None,
    rank: int | None = None,
) -> Options:
    """Return the options of a table, with kinds as the section [options] gives them.

    Args:
        table: A CSV file with one option per row.
        label: The column with the names.
        features: The columns to use; by default all but the label.
        current: The option in use today.
        log: Columns that are replaced by their logarithms.
        squared: Columns of numbers that also get a column with the square.
        ordered: The levels of ordered columns, lowest first.
        steps: Ordered columns in which each step has its own effect.
        baseline: The level to which the others are compared, by column.
        interactions: Pairs of columns, or "all".
        kernel: `rbf` or `matern`, if mean rewards are a smooth function of the features. None uses the
            features themselves.
        length_scale: The length scale of the kernel, 0.5 by default.
        rank: The number of columns of the kernel, by default as many as needed.

    Returns:
        The encoded options.

    Raises:
        InvalidValue: A value cannot be used. The error names the key, or the column and the row.
    """
    columns = read_columns(table, text=_text("label", label))
    given = {"log": log, "squared": squared, "steps": steps}
    lists = {key: _names(key, value) for key, value in given.items()}
    tables = {"ordered": _table("ordered", ordered), "baseline": _table("baseline", baseline)}
    used = [name for name in columns if name != label] if features is None else _names("features", features)
    for name in used:
        if name not in columns:
            raise InvalidValue("features", repr(name), f"a column of the table: {', '.join(columns)}")
    for key, named in {**lists, **tables}.items():
        for name in named:
            if name not in used:
                raise InvalidValue(key, repr(name), f"a column that is used: {', '.join(used)}")
    kinds = {name: _kind(name, lists, tables) for name in used}
    if len(kinds) != len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise InvalidValue("features", f"{twice!r} twice", "each column once")
    return Options.from_table(
        columns,
        label=label,
        features=kinds,
        interactions=interactions,
        kernel=_kernel(kernel, length_scale, rank),
        current=current,
    )


OPTIONS_KEYS = tuple(signature(read_options).parameters)
"""The keys of the section [options]."""


def _kernel(shape: str | None, length_scale: float | None, rank: int | None) -> Kernel | None:
    if shape is None:
        for key, value in (("length_scale", length_scale), ("rank", rank)):
            if value is not None:
                raise InvalidValue(key, value, "a `kernel` as well")
        return None
    if length_scale is None:
        return Kernel(shape=shape, rank=rank)
    return Kernel(shape=shape, length_scale=length_scale, rank=rank)


def _kind(name: str, lists: dict[str, list[str]], tables: dict[str, dict[str, Any]]) -> Kind | None:
    """Return the kind of a column; None if it is inferred."""
    numbers, ordered, baseline = lists["log"] + lists["squared"], tables["ordered"], tables["baseline"]
    places = {"log or squared": numbers, "ordered": ordered, "baseline": baseline}
    given = [key for key, found in places.items() if name in found]
    if len(given) > 1:
        raise InvalidValue(given[1], repr(name), f"one kind per column, but it is also in {given[0]}")
    stepwise = name in lists["steps"]
    if stepwise and name not in ordered:
        raise InvalidValue("steps", repr(name), "a column that has levels in `ordered`")
    if name in numbers:
        return Number(log=name in lists["log"], squared=name in lists["squared"])
    if name in ordered:
        try:
            return Ordered(ordered[name], steps=stepwise)
        except InvalidValue as error:
            raise InvalidValue(f"ordered[{name}]", error.value, error.expected) from None
    return Category(baseline=baseline[name]) if name in baseline else None


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValue(key, repr(value), "the name of a column")
    return value


def _names(key: str, value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidValue(key, repr(value), "a list of columns")
    return [_text(key, name) for name in value]


def _table(key: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        example = {"ordered": '{ size = ["S", "M"] }', "baseline": '{ colour = "red" }'}[key]
        raise InvalidValue(key, repr(value), f"a table such as {example}")
    return dict(value)
