"""The ranges of every number in a mechanism and a plan. A value outside them is refused when it is built.

Inside them no computation at a client overflows, underflows or divides by zero, whatever the client's data
are. So whether a client reports, and what can be read from an error, does not depend on its data.

    bound, reach        2⁻⁶⁰ … 2⁶⁰
    offsets, mixing     −2⁶⁰ … 2⁶⁰
    a client's averages are forced into −2⁶⁰ … 2⁶⁰ before anything is computed from them

The scale of noise has the ranges of `_ranges.py`, the levels of a grid those of `_lattice.py`.
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
"""Numbers in one report."""
MOST_CLIENTS = 2**40
MOST_NOISE_BITS = 2**40
MOST_SUM = 2**62
"""No sum of a cohort's whole numbers reaches this, so that 64-bit integers hold it with its sign."""


def checked_bound(bound: float) -> float:
    """A clipping bound between 2⁻⁶⁰ and 2⁶⁰."""
    return between(SMALLEST, LARGEST, bound=bound)


def checked_coordinates(coordinates: int) -> int:
    """Up to 2¹¹ numbers in a report."""
    return whole(1, MOST_NUMBERS, coordinates=coordinates)


def checked_cohort(cohort: int) -> int:
    """Up to 2⁴⁰ clients."""
    return whole(1, MOST_CLIENTS, cohort=cohort)


def checked_entries(**named: ArrayLike) -> FloatArray:
    """An array of numbers between −2⁶⁰ and 2⁶⁰, without NaN."""
    ((field, given),) = named.items()
    expected = f"numbers >= {-LARGEST:g} and <= {LARGEST:g}"
    try:
        entries = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(field, "something else", expected) from None
    if not (np.abs(entries) <= LARGEST).all():
        raise InvalidValue(field, "a number out of range", expected)
    return entries


def tamed(data: ArrayLike) -> FloatArray:
    """Data of any kind of number as floats between −2⁶⁰ and 2⁶⁰; NaN counts as 0."""
    try:
        numbers = np.asarray(data, dtype=np.float64)
    except OverflowError:  # a whole number beyond all floats
        numbers = np.array([_as_float(value) for value in np.asarray(data, dtype=object).ravel()])
        numbers = numbers.reshape(np.asarray(data, dtype=object).shape)
    return np.clip(np.nan_to_num(numbers, nan=0.0), -LARGEST, LARGEST)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return LARGEST if value > 0 else -LARGEST
