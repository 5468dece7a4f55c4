"""How a column is encoded: `Number`, `Ordered` or `Category`, as the user writes it.

features={"price": Number(log=True), "size": Ordered(["S", "M", "L"]), "colour": Category(baseline="red")}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpbandits.errors import InvalidValue

Level = str | bool | int | float
"""A value of a category."""
_LARGEST = 2**63


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number. Its range in the table is mapped to [−1, 1].

    Attributes:
        log: Whether the logarithm of the number is used. All values must then be above 0.
        squared: Whether a second column has the square, so that the best value may lie inside the range.

    Example:
        >>> import dpbandits as dp
        >>> table = {"name": ["small", "medium", "large"], "gigabytes": [1, 10, 100]}
        >>> print(dp.Options.from_table(table, features={"gigabytes": dp.Number(log=True)}))
        3 options: 'small', 'medium', 'large'
        gigabytes: number, in logs; 1 … 100 becomes −1 … 1
        columns (2): intercept, log(gigabytes)
        each row is divided by 1.41421, the largest norm
    """

    log: bool = False
    squared: bool = False

    def __post_init__(self) -> None:
        for name in ("log", "squared"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidValue(f"Number.{name}", repr(getattr(self, name)), "True or False")


@dataclass(frozen=True)
class Ordered:
    """Levels with an order, lowest first.

    Attributes:
        levels: The levels, for example ("small", "medium", "large").
        steps: With False, every step up has the same effect, and there is one column. With True, each step
            has its own effect, and there is one column per step.

    Raises:
        InvalidValue: If there are fewer than two levels, or a level appears twice.

    Example:
        >>> import dpbandits as dp
        >>> table = {"name": ["a", "b", "c"], "size": ["S", "L", "M"]}
        >>> options = dp.Options.from_table(table, features={"size": dp.Ordered(["S", "M", "L"])})
        >>> options.encoding.columns
        ('intercept', 'size')
    """

    levels: tuple[Level, ...]
    steps: bool = False

    def __init__(self, levels: Sequence[Level], *, steps: bool = False) -> None:
        object.__setattr__(self, "levels", checked_levels("Ordered.levels", levels))
        if not isinstance(steps, bool):
            raise InvalidValue("Ordered.steps", repr(steps), "True or False")
        object.__setattr__(self, "steps", steps)


@dataclass(frozen=True, kw_only=True)
class Category:
    """Levels without an order. Each level other than the baseline has its own column.

    Attributes:
        baseline: The level to which the others are compared; None for the first level in the table.
        levels: The accepted levels; None for those in the table.

    Raises:
        InvalidValue: If `levels` has fewer than two levels or a level twice, or lacks the baseline.

    Example:
        >>> import dpbandits as dp
        >>> table = {"name": ["basic", "plus", "max"], "price": [10, 15, 29], "net": ["red", "blue", "red"]}
        >>> kinds = {"price": None, "net": dp.Category(baseline="red")}
        >>> print(dp.Options.from_table(table, features=kinds).encoding.columns)
        ('intercept', 'price', 'net=blue')
    """

    baseline: Level | None = None
    levels: tuple[Level, ...] | None = None

    def __post_init__(self) -> None:
        if self.levels is None:
            return
        levels = checked_levels("Category.levels", self.levels)
        object.__setattr__(self, "levels", levels)
        if self.baseline is not None and self.baseline not in levels:
            raise InvalidValue("Category.baseline", repr(self.baseline), f"one of {listed(levels)}")


Kind = Number | Ordered | Category


def checked_levels(field: str, levels: object) -> tuple[Level, ...]:
    """Return the levels as a tuple if there are at least two, and their texts differ."""
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise InvalidValue(field, shown(levels), "a list of levels")
    for level in levels:
        if not is_level(level):
            raise InvalidValue(field, shown(level), "levels that are text, numbers or booleans")
    names = [str(level) for level in levels]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidValue(field, f"{levels[place]!r} twice", "distinct levels")
    if len(levels) < 2:
        raise InvalidValue(field, f"{len(levels)} levels", "at least two")
    return tuple(levels)


def is_level(value: object) -> bool:
    """Return whether a value can be a level: text, a boolean, or a number that JSON can hold exactly."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < _LARGEST)


def shown(value: object, longest: int = 60) -> str:
    """Return a value on one line, shortened if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def listed(values: Sequence[object], most: int = 8) -> str:
    """Return a few values as a list on one line."""
    text = ", ".join(shown(value) for value in values[:most])
    return text if len(values) <= most else f"{text}, … ({len(values)} in all)"


def checked_kind(column: str, kind: object) -> Kind:
    """Return the kind of a column. `Number` counts as `Number()`, and `Category` as `Category()`."""
    if kind is Number:
        return Number()
    if kind is Category:
        return Category()
    if not isinstance(kind, Kind):
        raise InvalidValue(
            f"features[{column!r}]", shown(kind), "Number(...), Ordered([...]), Category(...) or None"
        )
    return kind
