"""The accepted ranges of the numbers in a mechanism or a plan, and the functions that check them.

A value out of range raises an error when the mechanism or the plan is built. Within the ranges no computation
at a client overflows, underflows or divides by zero, for any data. Therefore neither the decision to report
nor an error message depends on a client's data.

    bound, reach        2⁻⁶⁰ … 2⁶⁰
    offsets, mixing     −2⁶⁰ … 2⁶⁰
    averages            clipped to −2⁶⁰ … 2⁶⁰ before anything is computed from them

noise/_ranges.py has the ranges of the scale of noise, and _lattice.py the range of the levels of a grid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._arrays import FloatArray
from dpbandits._checks import between, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.noise import MOST_COORDINATES

LARGEST = 2.0**60
SMALLEST = 2.0**-60
MOST_NUMBERS = MOST_COORDINATES
"""The largest number of values in one report."""
MOST_CLIENTS = 2**40
MOST_NOISE_BITS = 2**40
MOST_SUM = 2**62
"""Every sum of a cohort's integers is below this in absolute value, so it fits into an int64."""


def checked_bound(bound: float) -> float:
    """Check a clipping bound.

    Args:
        bound: The bound.

    Returns:
        The bound.

    Raises:
        InvalidValue: If it is not between 2⁻⁶⁰ and 2⁶⁰.
    """
    return between(SMALLEST, LARGEST, bound=bound)


def checked_coordinates(coordinates: int) -> int:
    """Check the number of values in one report: between 1 and 2¹¹."""
    return whole(1, MOST_NUMBERS, coordinates=coordinates)


def checked_cohort(cohort: int) -> int:
    """Check the number of clients in a cohort: between 1 and 2⁴⁰."""
    return whole(1, MOST_CLIENTS, cohort=cohort)


def checked_entries(**named: ArrayLike) -> FloatArray:
    """Check that all entries of an array are between −2⁶⁰ and 2⁶⁰.

    Example: `checked_entries(offsets=[0.5, -1])` returns the array [0.5, −1].

    Args:
        **named: One array. Its name is the field in the error.

    Returns:
        The array as float64.

    Raises:
        InvalidValue: If an entry is NaN or out of range, or if the value is not an array of numbers.
    """
    ((field, given),) = named.items()
    expected = f"numbers >= {-LARGEST:g} and <= {LARGEST:g}"
    try:
        entries = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(field, "a value that is not an array of numbers", expected) from None
    if not (np.abs(entries) <= LARGEST).all():
        raise InvalidValue(field, "a number out of range", expected)
    return entries


def tamed(data: ArrayLike) -> FloatArray:
    """Return a client's data as float64 clipped to [−2⁶⁰, 2⁶⁰], with 0 in place of NaN.

    Args:
        data: Numbers of any type, including infinite ones and integers too large for a float.

    Returns:
        An array of the same shape.
    """
    try:
        numbers = np.asarray(data, dtype=np.float64)
    except OverflowError:  # an integer too large for a float
        numbers = np.vectorize(_as_float, otypes=[np.float64])(np.asarray(data, dtype=object))
    return np.clip(np.nan_to_num(numbers, nan=0.0), -LARGEST, LARGEST)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return LARGEST if value > 0 else -LARGEST
