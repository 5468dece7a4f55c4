"""Validators that take the name: `positive(epsilon=epsilon)` returns the value, or raises an error.

The error names the field, the value and the accepted range: `epsilon: got 0.0, expected a finite number > 0`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeVar

from dpbandits.errors import InvalidValue

if TYPE_CHECKING:  # commands that check no array start without NumPy
    from dpbandits._arrays import FloatArray

Value = TypeVar("Value")


def _only(named: dict[str, Value]) -> tuple[str, Value]:
    ((field, value),) = named.items()
    return field, value


def _is(kind: type, value: object) -> bool:
    """Annotations bind callers that are type-checked; files and command lines are not."""
    if type(value) is int or (type(value) is float and kind is Real):  # abstract classes are slow to ask
        return True
    return isinstance(value, kind) and not isinstance(value, bool)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _number(test: Callable[[float], bool], expected: str, named: dict[str, float]) -> float:
    field, value = _only(named)
    if not _is(Real, value) or not _finite(value) or not test(value):
        raise InvalidValue(field, value, expected)
    return float(value)


def positive(**named: float) -> float:
    """A finite number above zero."""
    return _number(lambda value: value > 0, "a finite number > 0", named)


def non_negative(**named: float) -> float:
    """A finite number, zero or above."""
    return _number(lambda value: value >= 0, "a finite number >= 0", named)


def probability(**named: float) -> float:
    """A number strictly between zero and one."""
    return _number(lambda value: 0 < value < 1, "a number strictly between 0 and 1", named)


def at_least_zero_below_one(**named: float) -> float:
    """A probability that may be zero."""
    return _number(lambda value: 0 <= value < 1, "a number >= 0 and < 1", named)


def between(minimum: float, maximum: float, **named: float) -> float:
    """A number in a closed interval."""
    field, value = _only(named)
    if not _is(Real, value) or not minimum <= value <= maximum:
        raise InvalidValue(field, value, f"a number >= {minimum:g} and <= {maximum:g}")
    return float(value)


def whole(minimum: int, maximum: int | None = None, **named: int) -> int:
    """A whole number, at least `minimum` and at most `maximum`."""
    field, value = _only(named)
    if not _is(Integral, value) or value < minimum or (maximum is not None and value > maximum):
        upper = "" if maximum is None else f" and <= {maximum:,}"
        raise InvalidValue(field, value, f"a whole number >= {minimum:,}{upper}")
    return int(value)


def one_of(choices: Collection[str], **named: str) -> str:
    """One of a few words."""
    field, value = _only(named)
    if value not in choices:
        raise InvalidValue(field, repr(value), "one of " + ", ".join(choices))
    return value


def finite_matrix(**named: FloatArray) -> FloatArray:
    """A two-dimensional array of finite numbers with at least one row and one column."""
    import numpy as np

    field, given = _only(named)
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValue(field, type(given).__name__, "a matrix of numbers") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidValue(field, f"shape {matrix.shape}", "a matrix with at least one row and column")
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidValue(
            f"{field}[{row}, {column}]",
            matrix[row, column],
            "a finite number (no NaN, no infinity)",
        )
    return matrix
