"""Validators for arguments.

Each validator takes one value as a keyword argument, whose name is the name of the field. It returns the
value, or raises `InvalidValue`. The message names the field, the value and the accepted values:

    >>> from dpbandits._checks import positive
    >>> positive(epsilon=-1)
    Traceback (most recent call last):
    dpbandits.errors.InvalidValue: epsilon: got -1, expected a finite number > 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeVar

from dpbandits.errors import InvalidValue

if TYPE_CHECKING:  # commands that check no array start without NumPy
    from _typeshed import DataclassInstance
    from numpy.typing import ArrayLike

    from dpbandits._arrays import FloatArray

Value = TypeVar("Value")
_LEAST_HALF_WIDTH = 2.0**-1000  # dividing by a smaller half width may overflow


def _only(named: dict[str, Value]) -> tuple[str, Value]:
    """Return the name and the value of the only keyword argument."""
    ((field, value),) = named.items()
    return field, value


def _is(kind: type, value: object) -> bool:
    """Return whether the value is a number of that kind, and not a bool.

    Type annotations protect only callers that are type-checked. Values from files and command lines are not.
    """
    if type(value) is int or (type(value) is float and kind is Real):  # isinstance is slow for these
        return True
    return isinstance(value, kind) and not isinstance(value, bool)


def _finite(value: float) -> bool:
    """Return whether the number is finite as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an int larger than every float
        return False


def _number(test: Callable[[float], bool], expected: str, named: dict[str, float]) -> float:
    """Return the value as a float if it is a finite number that passes the test."""
    field, value = _only(named)
    if not _is(Real, value) or not _finite(value) or not test(value):
        raise InvalidValue(field, value, expected)
    return float(value)


def positive(**named: float) -> float:
    """Return a finite number above zero."""
    return _number(lambda value: value > 0, "a finite number > 0", named)


def non_negative(**named: float) -> float:
    """Return a finite number that is zero or above."""
    return _number(lambda value: value >= 0, "a finite number >= 0", named)


def probability(**named: float) -> float:
    """Return a number strictly between zero and one."""
    return _number(lambda value: 0 < value < 1, "a number strictly between 0 and 1", named)


def at_least_zero_below_one(**named: float) -> float:
    """Return a probability that may be zero but not one."""
    return _number(lambda value: 0 <= value < 1, "a number >= 0 and < 1", named)


def between(minimum: float, maximum: float, **named: float) -> float:
    """Return a number in the closed interval [minimum, maximum]."""
    field, value = _only(named)
    if not _is(Real, value) or not minimum <= value <= maximum:
        raise InvalidValue(field, value, f"a number >= {minimum:g} and <= {maximum:g}")
    return float(value)


def whole(minimum: int, maximum: int | None = None, **named: int) -> int:
    """Return a whole number, at least `minimum` and, if given, at most `maximum`."""
    field, value = _only(named)
    if not _is(Integral, value) or value < minimum or (maximum is not None and value > maximum):
        upper = "" if maximum is None else f" and <= {maximum:,}"
        raise InvalidValue(field, value, f"a whole number >= {minimum:,}{upper}")
    return int(value)


def whole_numbers(minimum: int, maximum: int, **named: Sequence[int]) -> None:
    """Check a list of whole numbers, each at least `minimum` and at most `maximum`."""
    field, values = _only(named)
    quick = all(type(value) is int for value in values)
    if not quick or (values and (min(values) < minimum or max(values) > maximum)):
        for value in values:  # names the first wrong one
            whole(minimum, maximum, **{field: value})


def one_of(choices: Collection[str], **named: object) -> str:
    """Return a string that is one of `choices`."""
    field, value = _only(named)
    # A list from a file cannot be looked up. A registry loads plugins when a name is looked up.
    if not isinstance(value, str) or value not in choices:
        raise InvalidValue(field, repr(value), "one of " + ", ".join(choices))
    return value


def two_ends(**named: object) -> tuple[float, float]:
    """Return the two finite numbers of a list or a tuple, of which the first is smaller."""
    field, given = _only(named)
    ends = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else ()
    if len(ends) == 2 and all(_is(Real, end) and _finite(end) for end in ends):
        low, high = float(ends[0]), float(ends[1])
        if low < high and high / 2 - low / 2 > _LEAST_HALF_WIDTH:
            return low, high
    raise InvalidValue(field, repr(given), "a pair of finite numbers (low, high) with low < high")


def convert_to_floats(value: DataclassInstance) -> None:
    """Convert the numbers in the float fields of a frozen dataclass, so that 1 and 1.0 have the same JSON.

    Call it after the checks, for example at the end of `__post_init__`.
    """
    for name in _float_fields(type(value)):
        number = getattr(value, name)
        if number is not None and type(number) is not float:
            object.__setattr__(value, name, float(number))


@cache
def _float_fields(kind: type[DataclassInstance]) -> tuple[str, ...]:
    # Annotations are strings, because every module imports them from __future__.
    return tuple(one.name for one in fields(kind) if one.type in ("float", "float | None"))


def finite_matrix(**named: ArrayLike) -> FloatArray:
    """Return a two-dimensional array of finite numbers with at least one row and one column."""
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
            f"{field}[{row}, {column}]", matrix[row, column], "a finite number (no NaN, no infinity)"
        )
    return matrix


def installed(package: str) -> bool:
    """Return whether a package is installed, without importing it."""
    try:
        return find_spec(package) is not None
    except ValueError:  # the module was blocked by setting sys.modules[package] = None
        return False
