"""`Feature`: one column of the user's table with everything that is needed to encode it, as a plain value.

A feature has one or more terms, which are the columns of numbers that the learner sees:

    number      z, and z² if squared, where z = (g − centre)/half maps the range of g to [−1, 1]; g is the
                number or its logarithm
    ordered     z of the place of the level, counted from 0; or, for each step, 1 if the level is above the
                step, else 0
    category    for each level other than the baseline, 1 if the value is this level, else 0

Each term is a polynomial in the user's own units, see `polynomials`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, positive
from dpbandits.errors import InvalidValue
from dpbandits.options._kinds import (
    Category,
    Kind,
    Level,
    Number,
    Ordered,
    checked_levels,
    is_level,
    listed,
    shown,
)

KINDS = ("number", "ordered", "category")
_SMALLEST, _LARGEST = 1e-9, 1e100  # a narrower or wider range cannot be scaled without rounding errors
Polynomial = dict[str, float]
"""The coefficient of each term in the user's units; the constant has the name ""."""


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature. `fit_feature` makes it from a column.

    Attributes:
        name: The name of the column.
        kind: "number", "ordered" or "category".
        centre: The middle of the range of g.
        half: Half the width of the range of g.
        log: Whether g is the logarithm of the number.
        squared: Whether z² is a term.
        levels: The levels; lowest first if ordered, and the baseline first if not.
        steps: Whether each step of an ordered feature has its own term.

    Raises:
        InvalidValue: If an attribute is not accepted.
    """

    name: str
    kind: str
    centre: float = 0.0
    half: float = 1.0
    log: bool = False
    squared: bool = False
    levels: tuple[Level, ...] = ()
    steps: bool = False

    def __post_init__(self) -> None:
        one_of(KINDS, kind=self.kind)
        positive(half=self.half)
        if not math.isfinite(self.centre):
            raise InvalidValue("centre", self.centre, "a finite number")
        if self.kind != "number":
            checked_levels(f"{self.name}, levels", self.levels)

    @property
    def base(self) -> str:
        """The name of g in the user's units."""
        return f"log({self.name})" if self.log else self.name

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms."""
        if self.kind == "number":
            return (self.base, f"{self.base}²") if self.squared else (self.base,)
        if self.kind == "category":
            return tuple(f"{self.name}={level}" for level in self.levels[1:])
        return tuple(f"{self.name}>={level}" for level in self.levels[1:]) if self.steps else (self.name,)

    @property
    def linear_terms(self) -> tuple[int, ...]:
        """The places of the terms that interactions use: all but a square."""
        return (0,) if self.kind == "number" else tuple(range(len(self.terms)))

    def polynomials(self) -> list[Polynomial]:
        """Return each term as a polynomial in the user's units."""
        if self.kind == "category" or self.steps:
            return [{name: 1.0} for name in self.terms]
        found: list[Polynomial] = [{self.base: 1 / self.half, "": -self.centre / self.half}]
        if self.squared:
            found.append(
                {
                    f"{self.base}²": 1 / self.half**2,
                    self.base: -2 * self.centre / self.half**2,
                    "": (self.centre / self.half) ** 2,
                }
            )
        return found

    def encode(self, values: Sequence[Any], rows: Sequence[str]) -> FloatArray:
        """Return one row of terms per value.

        Args:
            values: The column of the user's table.
            rows: What errors call each row.

        Returns:
            A matrix with one column per term.

        Raises:
            InvalidValue: A value is missing, not a number, not positive if logarithms are used, or not one of
                the levels. The error names the column, the row and the value.
        """
        z = self.coordinate(values, rows)
        if self.kind == "category":
            return np.asarray(z[:, None] == np.arange(1, len(self.levels)), dtype=np.float64)
        if self.steps:
            return np.asarray(z[:, None] >= np.arange(1, len(self.levels)), dtype=np.float64)
        return np.column_stack([z, z**2]) if self.squared else z[:, None]

    def coordinate(self, values: Sequence[Any], rows: Sequence[str]) -> FloatArray:
        """Return z of each value; for categories and steps, the place of its level, counted from 0.

        Args:
            values: The column of the user's table.
            rows: What errors call each row.

        Raises:
            InvalidValue: As in `encode`.
        """
        if self.kind == "number":
            return (numbers(self.name, values, rows, log=self.log) - self.centre) / self.half
        found = [self._place(value, row) for value, row in zip(values, rows, strict=True)]
        places = np.array(found, dtype=np.float64)
        return places if self.kind == "category" or self.steps else (places - self.centre) / self.half

    def _place(self, value: Any, row: str) -> int:
        if value is None:
            raise InvalidValue(f"{self.name}, {row}", "a missing value", f"one of {listed(self.levels)}")
        # True == 1 in Python, but the levels True and 1 differ.
        for place, level in enumerate(self.levels):
            if is_level(value) and value == level and isinstance(value, bool) == isinstance(level, bool):
                return place
        raise InvalidValue(f"{self.name}, {row}", shown(value), f"one of {listed(self.levels)}")

    def describe(self) -> str:
        """Return one line that says how the feature is encoded."""
        if self.kind == "number":
            low, high = self.centre - self.half, self.centre + self.half
            if self.log:
                low, high = math.exp(low), math.exp(high)
            parts = ["number", *(["in logs"] if self.log else []), *(["squared too"] if self.squared else [])]
            return f"{self.name}: {', '.join(parts)}; {low:.6g} … {high:.6g} becomes −1 … 1"
        if self.kind == "category":
            others = ", ".join(map(str, self.levels[1:]))
            return f"{self.name}: category; baseline {self.levels[0]}, a column each for {others}"
        order = " < ".join(map(str, self.levels))
        how = "a column per step" if self.steps else "equal steps from −1 to 1"
        return f"{self.name}: ordered; {order}; {how}"


def is_number(value: object) -> bool:
    """Return whether a value is a number and not a boolean."""
    return not isinstance(value, bool) and isinstance(value, Real)


def numbers(column: str, values: Sequence[Any], rows: Sequence[str], *, log: bool) -> FloatArray:
    """Return a column as finite floats, or their logarithms."""
    expected = "a finite number > 0, since its logarithm is used" if log else "a finite number"
    found = np.empty(len(values))
    for place, (value, row) in enumerate(zip(values, rows, strict=True)):
        if value is None:
            raise InvalidValue(f"{column}, {row}", "a missing value", expected)
        try:
            number = float(value) if is_number(value) else math.nan
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or (log and number <= 0):
            raise InvalidValue(f"{column}, {row}", shown(value), expected)
        found[place] = math.log(number) if log else number
    return found


def inferred(column: str, values: Sequence[Any], rows: Sequence[str]) -> Kind:
    """Return the kind of a column: `Number` if the first value is a number, else `Category`."""
    for value, row in zip(values, rows, strict=True):
        if value is None:
            raise InvalidValue(f"{column}, {row}", "a missing value", "a number or a category")
        if not is_level(value) and not is_number(value):
            raise InvalidValue(f"{column}, {row}", shown(value), "a number, text or a boolean")
    return Number() if is_number(values[0]) else Category()


def fit_feature(column: str, kind: Kind, values: Sequence[Any], rows: Sequence[str]) -> Feature:
    """Return the feature of a column: its range, or its levels.

    Args:
        column: The name of the column.
        kind: How it is encoded.
        values: The values, one per row.
        rows: What errors call each row.

    Raises:
        InvalidValue: A value is not accepted, or the column is constant.
    """
    if isinstance(kind, Number):
        found = numbers(column, values, rows, log=kind.log)
        _check_varies(column, values)
        if kind.squared and len(set(found.tolist())) < 3:
            listing = listed(sorted(set(values)))
            raise InvalidValue(column, f"the two values {listing}", "three values or more for squared=True")
        centre, half = _range(column, found)
        return Feature(
            name=column, kind="number", centre=centre, half=half, log=kind.log, squared=kind.squared
        )
    if isinstance(kind, Ordered):
        middle = 0.0 if kind.steps else (len(kind.levels) - 1) / 2
        feature = Feature(
            name=column,
            kind="ordered",
            centre=middle,
            half=1.0 if kind.steps else middle,
            levels=kind.levels,
            steps=kind.steps,
        )
    else:
        feature = _category(column, kind, values, rows)
    feature.encode(values, rows)  # raises an error if a value is not accepted
    _check_varies(column, values)
    _check_used(feature, values)
    return feature


def _range(column: str, found: FloatArray) -> tuple[float, float]:
    """Return the middle of the range and half its width; raise an error if floats cannot scale the range."""
    low, high = float(found.min()), float(found.max())
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    if not _SMALLEST * max(abs(low), abs(high)) < half or not 1 / _LARGEST < half < _LARGEST:
        expected = "a range wider than a billionth of its ends, and between 1e-100 and 1e100"
        raise InvalidValue(column, f"{low!r} … {high!r}", expected)
    return centre, half


def _category(column: str, kind: Category, values: Sequence[Any], rows: Sequence[str]) -> Feature:
    for value, row in zip(values, rows, strict=True):
        if not is_level(value):
            state = "a missing value" if value is None else shown(value)
            raise InvalidValue(f"{column}, {row}", state, "a category: text, a number or a boolean")
    _check_varies(column, values)
    present = list(dict.fromkeys(values))
    levels = list(kind.levels or present)
    first = next((one for one in present if one in levels), levels[0])
    baseline = first if kind.baseline is None else kind.baseline
    if baseline not in levels:
        raise InvalidValue(f"{column}, baseline", shown(baseline), f"one of {listed(levels)}")
    levels.remove(baseline)
    return Feature(name=column, kind="category", levels=(baseline, *levels))


def _check_varies(column: str, values: Sequence[Any]) -> None:
    if len(set(values)) == 1:
        raise InvalidValue(column, f"{shown(values[0])} in every row", "a column with two values or more")


def _check_used(feature: Feature, values: Sequence[Any]) -> None:
    """Raise an error if a level is in no row, so that nothing can be learnt about it."""
    if feature.kind == "ordered" and not feature.steps:  # with equal steps, other levels determine its effect
        return
    for level in feature.levels:
        if level not in values:
            raise InvalidValue(f"{feature.name}, level {shown(level)}", "no row", "a row with this level")
