"""Tabulated tails: bounds τ(z) on P(G > z·unit) that do not increase in z.

For a single sub-Gaussian variable nothing better than exp(−z²/2) is known. For sums of independent bounded
variables, of values that are drawn from a finite population without replacement, or of sub-Gaussian variables
of many people there are better bounds. docs/theory.md proves them (*Sums of bounded rewards*, *Sums over
people*) and has the notation of this file.

Bounds are tabulated at the lower ends of short intervals of z, so that a look-up never returns too little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy.tails._sub_gaussian_sums import BERRY_ESSEEN, tail_of_sum

_CELLS_PER_UNIT, _LARGEST_Z = 256, 10
_CELLS = _CELLS_PER_UNIT * _LARGEST_Z + 1
_LOWER_ENDS = np.arange(_CELLS) / _CELLS_PER_UNIT
# Of a variable with values in an interval of length 2: the largest E|X − EX|³ and |E(X − EX)³|.
_ABSOLUTE_THIRD, _THIRD = 32 / 27, 4 / math.sqrt(27)
_LEAST_Z, _MOST_Z = 0.5, 6.0  # where the normal approximation is tried
_PARTS = 32  # intervals on each side of the turn, see `_independent`
_KEYS_PER_OCTAVE = 16  # how finely Lyapunov's ratio is rounded up, so that few tables are computed
# The distribution of the error of rounding: the probabilities that it exceeds the ends of some intervals.
_LEVELS = np.array([1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 1e-4, 1e-5])


@dataclass(frozen=True, kw_only=True)
class Tail:
    """Tabulated bounds on the tails of errors in several directions.

    Attributes:
        units: The unit of z in each direction.
        values: The tables.
        rows: The index in `values` of the table of each direction.
    """

    units: FloatArray
    values: FloatArray
    rows: IntArray

    def __call__(self, z: FloatArray) -> FloatArray:
        """Return τ(z); the axes of `z` after the first one hold one value for each direction."""
        cells = np.clip(z * _CELLS_PER_UNIT, 0, _CELLS - 1).astype(np.intp)
        if len(self.values) > 1:
            cells += (self.rows * _CELLS).reshape(z.shape[1:])
        return np.asarray(self.values.ravel()[cells])


@dataclass(frozen=True, kw_only=True)
class SubGaussianTail:
    """The tail exp(−z²/2) of a sub-Gaussian variable.

    Attributes:
        units: The unit of z in each direction: the root of the variance proxy.
    """

    units: FloatArray

    def __call__(self, z: FloatArray) -> FloatArray:
        """Return exp(−z²/2), and 1 below 0."""
        return np.asarray(np.exp(-(np.maximum(z, 0.0) ** 2) / 2))


@cache
def _dominated() -> FloatArray:
    """Return the least E(Z − t)₊⁵/(z − t)⁵ over some t < z, for a standard normal Z (Pinelis 2006)."""
    from scipy.special import ndtr

    t = np.linspace(-3.0, 9.5, 1001)
    density = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    fifth = (t**4 + 9 * t**2 + 8) * density - (t**5 + 10 * t**3 + 15 * t) * ndtr(-t)
    margins = _LOWER_ENDS[:, None] - t
    quotients = np.where(margins > 0.05, fifth * (1 + 1e-6), np.inf) / np.maximum(margins, 0.05) ** 5
    found = np.minimum(quotients.min(axis=1), np.exp(-(_LOWER_ENDS**2) / 2))
    return np.asarray(np.minimum.accumulate(found))


def tail_of_bounded(
    coefficients: FloatArray, counts: FloatArray, rounding: FloatArray, *, replaced: bool = True
) -> Tail:
    """Return the tail of sums of bounded variables plus the error of rounding reports to a grid.

    Its unit is the root of the proxy of the variables.

    Args:
        coefficients: One row per direction: the factor of the mean of each kind of variable. The variables
            lie in [−1, 1].
        counts: The number of variables of each kind.
        rounding: The proxy of the error of rounding in each direction. Given the variables, this error is a
            sum of independent bounded variables.
        replaced: Whether the variables are independent. If not, there is one kind, and they are drawn from a
            finite population without replacement.
    """
    sizes = np.abs(coefficients)
    proxies = np.maximum((sizes**2) @ (1 / counts), np.finfo(float).tiny)
    lyapunov = np.sum((sizes / np.sqrt(proxies)[:, None]) ** 3 / counts**2, axis=1)
    ratios = rounding / proxies
    keys = [(_rounded_up(a), _rounded_up(b), replaced) for a, b in zip(lyapunov, ratios, strict=True)]
    kept = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    return Tail(
        units=np.sqrt(proxies),
        values=np.array([_with_rounding(*key) for key in kept]),
        rows=np.array([kept[key] for key in keys]),
    )


def tail_of_people(proxies: FloatArray, people: int) -> Tail:
    """Return the tail of sums over independent people of whom only variance proxies are known.

    Its unit is the root of the proxy.

    Args:
        proxies: The proxy of the whole sum in each direction. Every person has the same share of it.
        people: The number of people.

    Returns:
        The tail, which is nearly the normal one if there are many people.

    Example:
        >>> import numpy as np
        >>> from dpbandits.privacy.tails import tail_of_people
        >>> tail = tail_of_people(np.array([1.0]), 3000)
        >>> 0.0139 < tail(np.array([[2.2]])).item() < 0.02 < np.exp(-(2.2**2) / 2)
        np.True_
    """
    return Tail(
        units=np.sqrt(np.maximum(proxies, np.finfo(float).tiny)),
        values=_people(_rounded_up(1 / people))[None, :],
        rows=np.zeros(len(proxies), dtype=np.int64),
    )


@lru_cache(maxsize=64)
def _people(share: float) -> FloatArray:
    """Return the table of a sum over people, each of whom has this share of the proxy."""
    found = np.exp(-(_LOWER_ENDS**2) / 2)
    tried = (_LOWER_ENDS >= _LEAST_Z) & (_LOWER_ENDS <= _MOST_Z)
    found[tried] = tail_of_sum(1 / share, _LOWER_ENDS[tried])
    return np.asarray(np.minimum.accumulate(found))


def _rounded_up(ratio: float) -> float:
    if ratio < 1e-9:
        return 0.0 if ratio <= 0 else 1e-9
    return float(2.0 ** (math.ceil(math.log2(ratio) * _KEYS_PER_OCTAVE) / _KEYS_PER_OCTAVE))


@lru_cache(maxsize=256)
def _with_rounding(lyapunov: float, ratio: float, replaced: bool) -> FloatArray:
    """Return the table of variables plus rounding.

    `ratio` is the proxy of rounding divided by that of the variables.
    """
    alone = _independent(lyapunov) if replaced else _dominated()
    if ratio == 0:
        return alone
    ends = np.sqrt(-2 * np.log(_LEVELS[1:]) * ratio)
    found = np.full(_CELLS, _LEVELS[-1])
    for weight, end in zip(-np.diff(_LEVELS), ends, strict=True):
        cells = np.floor((_LOWER_ENDS - end) * _CELLS_PER_UNIT).astype(np.intp)
        found += weight * alone[np.maximum(cells, 0)]
    together = np.floor(_LOWER_ENDS / math.sqrt(1 + ratio) * _CELLS_PER_UNIT).astype(np.intp)
    return np.asarray(np.minimum(found, _dominated()[together]))


@lru_cache(maxsize=256)
def _independent(lyapunov: float) -> FloatArray:
    """Return the table of independent variables, by the normal approximation after exponential tilting.

    `missing` is 1 − V, the part of the proxy that the variance lacks after tilting by z. The bound is the
    largest over its intervals; in each of them every term is taken at the end where it is larger.
    """
    from scipy.special import ndtr

    found = _dominated().copy()
    tried = (_LOWER_ENDS >= _LEAST_Z) & (_LOWER_ENDS <= _MOST_Z) & (_THIRD * lyapunov * _LOWER_ENDS < 0.5)
    z, slope = _LOWER_ENDS[tried, None], max(_THIRD * lyapunov, 1e-12)
    turn = slope * z  # beyond it the variance was never equal to the proxy
    steps = np.linspace(0, 1, _PARTS + 1)
    missing = np.hstack([turn * steps, turn + (1 - turn) * steps[1:]])
    low, high = missing[:, :-1], missing[:, 1:]

    def reached(ends: FloatArray) -> FloatArray:
        return np.minimum(ends / slope, z)  # how far before z the variance may have begun to fall

    def least_sum(ends: FloatArray) -> FloatArray:
        part = reached(ends)  # of ∫ s·min(1 − V, slope·(z − s)) ds
        return np.minimum(ends, turn) * (z**2 / 2 - z * part / 2 + part**2 / 6)

    def distance(ends: FloatArray) -> FloatArray:
        fallen = np.minimum(ends, turn)
        return np.asarray((z - fallen * (z - reached(ends) / 2)) / np.sqrt(1 - fallen))

    # The distance first falls and then rises. Between two ends it may be less by a quadratic term.
    nearest = np.minimum(distance(low), distance(high)) - slope * z**2 / (2 * _PARTS**2)
    beyond = (z - turn * z / 2) / np.sqrt(np.maximum(1 - low, 1e-12))
    first = np.exp(-least_sum(low)) * ndtr(-np.where(low < turn, nearest, beyond))
    part = reached(low)
    chernoff = np.exp(-(z**2) / 2 - (low * part**2 / 2 - slope * part**3 / 3))
    error = BERRY_ESSEEN * _ABSOLUTE_THIRD * lyapunov / np.maximum(1 - high, 1e-12) ** 1.5
    bound = np.minimum(first + 2 * np.minimum(error, 1.0) * chernoff, chernoff).max(axis=1)
    found[tried] = np.minimum(found[tried], bound)
    return np.asarray(np.minimum.accumulate(found))
