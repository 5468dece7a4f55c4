"""A reader of tables: a CSV file, a data frame, a mapping of columns or a list of rows becomes columns.

Data frames are recognised by their methods, so neither pandas nor Polars is imported here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpbandits.errors import InvalidValue
from dpbandits.options._kinds import listed, shown

Columns = dict[str, list[Any]]
ACCEPTED = "a data frame, a .csv file, a mapping of columns or a list of dicts"


def read_columns(table: object, *, name: str = "table", text: str | None = None) -> Columns:
    """Return the columns of a table as lists of plain Python values. Missing values become None.

    Args:
        table: A pandas or Polars data frame, an Arrow table, the path of a CSV file, a mapping from column
            names to columns, or a list of mappings with one row each.
        name: What errors call the table.
        text: A column of a CSV file that is kept as text even if it looks like numbers, such as 007.

    Returns:
        The columns in order. All have the same length, which is at least 1.

    Raises:
        InvalidValue: The table is of another type, is empty, has two columns of the same name, or its
            columns differ in length.
    """
    columns = {
        column: [_plain(value) for value in values] for column, values in _raw(table, name, text).items()
    }
    if not columns or not any(columns.values()):
        raise InvalidValue(name, "no rows", "at least one row")
    first, rows = next((column, len(values)) for column, values in columns.items())
    for column, values in columns.items():
        if len(values) != rows:
            raise InvalidValue(
                f"{name}, column {column}", f"{len(values)} values", f"{rows}, as in column {first}"
            )
    return columns


def _raw(table: Any, name: str, text: str | None) -> Mapping[str, Iterable[Any]]:
    if isinstance(table, str | Path):
        return _csv(Path(table), name, text)
    if isinstance(table, Mapping):
        for column, values in table.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise InvalidValue(f"{name}, column {column}", shown(values), "a list of values")
        return {str(column): values for column, values in table.items()}
    if hasattr(table, "collect") and not hasattr(table, "to_dict"):
        raise InvalidValue(name, "a lazy frame", "a data frame: call collect() first")
    if hasattr(table, "column_names") and hasattr(table, "to_pylist"):  # an Arrow table
        names = _distinct(table.column_names, name)
        return {column: table.column(column).to_pylist() for column in names}
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return _frame(table, name)
    if isinstance(table, Sequence) and not isinstance(table, str | bytes):
        return _rows(table, name)
    raise InvalidValue(name, type(table).__name__, ACCEPTED)


def _frame(table: Any, name: str) -> Columns:
    """Read a data frame: pandas' columns have `tolist`, those of Polars have `to_list`."""
    found = Columns()
    for column, key in zip(_distinct(table.columns, name), table.columns, strict=True):
        values = table[key]
        as_list = getattr(values, "to_list", None) or getattr(values, "tolist", None)
        if as_list is None:
            raise InvalidValue(name, type(table).__name__, ACCEPTED)
        found[column] = as_list()
    return found


def _rows(table: Sequence[Any], name: str) -> Columns:
    found = Columns()
    for number, row in enumerate(table, 1):
        if not isinstance(row, Mapping):
            raise InvalidValue(f"{name}, row {number}", shown(row), "a mapping from column names to values")
        if number == 1:
            found = {str(column): [] for column in row}
        names = [str(column) for column in row]
        if set(names) != set(found):
            odd = min(set(names) ^ set(found))
            state = "no value" if odd in found else "a value"
            expected = f"the columns of row 1: {listed(list(found))}"
            raise InvalidValue(f"{name}, row {number}, column {odd}", state, expected)
        for column, value in row.items():
            found[str(column)].append(value)
    return found


def _csv(path: Path, name: str, text: str | None) -> Columns:
    if path.suffix.lower() != ".csv" or not path.is_file():
        raise InvalidValue(name, path, "an existing file that ends in .csv")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [line for line in csv.reader(file, strict=True) if any(cell.strip() for cell in line)]
    except (csv.Error, UnicodeError) as error:
        raise InvalidValue(name, path, f"a readable CSV file ({error})") from None
    if not lines:
        raise InvalidValue(name, path, "a header line and at least one row")
    header = _distinct([cell.strip() for cell in lines[0]], name)
    for number, line in enumerate(lines[1:], 1):
        if len(line) != len(header):
            raise InvalidValue(f"{name}, row {number}", f"{len(line)} cells", f"{len(header)}, as the header")
    return {
        column: _parsed([line[place] for line in lines[1:]], numeric=column != text)
        for place, column in enumerate(header)
    }


def _parsed(cells: Sequence[str], *, numeric: bool) -> list[Any]:
    """Return numbers if every cell that is not empty is a number; else text. Empty cells become None."""
    texts = [cell.strip() or None for cell in cells]
    # Python reads 10_1 as the number 101, but in a file it is text.
    numeric = numeric and not any("_" in text for text in texts if text is not None)
    for kind in (int, float) if numeric else ():
        try:
            return [None if text is None else kind(text) for text in texts]
        except ValueError:
            continue
    return list(texts)


def _distinct(columns: Iterable[object], name: str) -> list[str]:
    found = list[str]()
    for column in map(str, columns):
        if column in found:
            raise InvalidValue(name, f"two columns named {shown(column)}", "distinct column names")
        found.append(column)
    return found


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python value, and every kind of missing value as None."""
    if isinstance(value, str):
        return str.__str__(value)  # NumPy's strings are a subclass, which JSON does not know
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, Decimal | Fraction | int):  # also a larger int, which JSON does not hold exactly
        try:
            value = float(value)
        except OverflowError:
            return math.inf
    try:
        return None if value is None or value != value else value
    except TypeError:  # pandas.NA has no truth value
        return None
    except ValueError:  # an array has none either, but it is not missing
        return value
