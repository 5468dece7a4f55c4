"""The accepted parameters of noise sources: the same in a simulation and in production.

The upper limits keep every result inside 64-bit integers, except with a probability below exp(−10⁵). The
exact samplers use the numerator and the denominator of 1/scale. The lower limit of a scale keeps both inside
64-bit integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray
from dpbandits._checks import between, whole
from dpbandits.errors import InvalidValue

MOST = 2**40
LEAST_SCALE = 2.0**-10
MOST_PARTS = 2**22
MOST_PARTS_TIMES_SCALE = 2.0**44
MOST_COORDINATES = 2**11
ROUNDING = 2.0**-32


def checked_scale(scale: float, parts: int = 1) -> float:
    """Return a scale if it is accepted.

    Args:
        scale: The scale, between 2⁻¹⁰ and the smaller of 2⁴⁰ and 2⁴⁴/parts.
        parts: The number of parties that share the noise.

    Returns:
        The scale.

    Raises:
        InvalidValue: If the scale is out of range.
    """
    return between(LEAST_SCALE, min(MOST, MOST_PARTS_TIMES_SCALE / parts), scale=scale)


def checked_mean(mean: float) -> float:
    """Return a Poisson mean between 0 and 2⁴⁰."""
    return between(0, MOST, mean=mean)


def checked_probability(probability: float) -> float:
    """Return a probability; 0 and 1 are accepted."""
    return between(0, 1, probability=probability)


def checked_trials(trials: int) -> int:
    """Return a number of coins, up to 2⁴⁰."""
    return whole(0, MOST, trials=trials)


def checked_integers(bound: int) -> int:
    """Check the number of values of a uniform integer: between 1 and 2⁶²."""
    return whole(1, 2**62, bound=bound)


def checked_parts(parts: int) -> int:
    """Return a number of parties that share the noise, up to 2²²."""
    return whole(1, MOST_PARTS, parts=parts)


def checked_count(count: int, parts: int) -> int:
    """Return a number of parts to sum, up to 2²² times the number of parties."""
    return whole(1, MOST_PARTS * parts, count=count)


def checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a tuple of lengths."""
    if not isinstance(shape, tuple):
        raise InvalidValue("shape", shape, "a tuple of whole numbers")
    return tuple(whole(0, shape=length) for length in shape)


def checked_cube(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the number of rows and the number of coordinates, up to 2¹¹ of the latter."""
    if len(checked_shape(shape)) != 2:
        raise InvalidValue("shape", shape, "(rows, coordinates)")
    return shape[0], whole(1, MOST_COORDINATES, coordinates=shape[1])


def checked_probabilities(probabilities: FloatArray) -> FloatArray:
    """Return probabilities, clipped to [0, 1] if rounding errors pushed some slightly outside.

    They may be computed from rewards, so the error message does not repeat them.
    """
    given = np.asarray(probabilities, dtype=np.float64)
    low, high = given.min(initial=0), given.max(initial=1)  # NaN if any entry is NaN
    if not (low >= -ROUNDING and high <= 1 + ROUNDING):
        raise InvalidValue("probabilities", "one outside [0, 1]", "numbers >= 0 and <= 1, no NaN")
    return given if low == 0 and high == 1 else np.clip(given, 0, 1)


def checked_rows(bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a matrix of bytes."""
    if bits.ndim != 2 or bits.dtype != np.uint8:
        raise InvalidValue("bits", f"{bits.ndim} dimensions of {bits.dtype}", "2 dimensions of uint8")
    return bits
