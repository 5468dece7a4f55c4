"""Integer noise distributions: where their mass lies, and log-weights with error bounds.

Every distribution here is log-concave; the proof of the worst pair of inputs needs that. A distribution
provides

- `reach(log_tail)`: a distance r with P(|Z − centre| ≥ r) ≤ 2·e^{−log_tail}, by the theorem named in its
  docstring;
- `log_weights(low, high)`: log P(Z = z) up to a constant for z = low … high, −∞ for impossible values, and a
  bound on the absolute error of each entry.

u = 2⁻⁵³ is the unit roundoff.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import positive, probability, whole
from dpbandits.errors import InvalidValue

UNIT_ROUNDOFF = 2.0**-53
LARGEST_SUPPORT = 1 << 23


@dataclass(frozen=True, kw_only=True)
class LogWeights:
    """Log-weights on consecutive integers.

    Attributes:
        values: The logarithms, up to a constant.
        error: A bound on the absolute error of each entry.
        swapped: A bound on the total-variation distance between the distribution with these weights and the
            exact one.
    """

    values: FloatArray
    error: float
    swapped: float = 0.0


class Noise(Protocol):
    """A log-concave distribution on the integers."""

    @property
    def centre(self) -> float:
        """The mean."""

    @property
    def variance(self) -> float:
        """The variance."""

    @property
    def symmetric(self) -> bool:
        """Whether the distribution is symmetric about its mean."""

    def reach(self, log_tail: float) -> float:
        """Return a distance from the centre beyond which lies at most 2·e^{−log_tail} of the mass.

        Args:
            log_tail: The negative logarithm of the tail.
        """

    def log_weights(self, low: int, high: int) -> LogWeights:
        """Return the log-weights on low … high.

        Args:
            low: The first integer.
            high: The last integer.

        Returns:
            The log-weights, and a bound on their error.

        Raises:
            InvalidValue: If there are more than `LARGEST_SUPPORT` integers.
        """


def running_sum(steps: FloatArray) -> tuple[FloatArray, float]:
    """Return 0 and the partial sums of terms of one sign, and their error relative to the last sum.

    The terms are summed in blocks of about √m. An entry is the sum of at most √m rows of at most √m terms
    each, so the error is at most (2√m + 2)·u times the sum of magnitudes, instead of m·u.
    """
    # A square matrix that holds all terms: sums within rows, plus sums of whole rows before.
    size = math.isqrt(max(len(steps) - 1, 0)) + 1
    blocks = np.zeros((size, size))
    blocks.ravel()[: len(steps)] = steps
    inside = np.cumsum(blocks, axis=1)
    before = np.concatenate(([0.0], np.cumsum(inside[:-1, -1])))
    sums = (inside + before[:, None]).ravel()[: len(steps)]
    return np.concatenate(([0.0], sums)), (2 * size + 2) * UNIT_ROUNDOFF


def support_size(low: int, high: int) -> int:
    """Return the number of outcomes low … high, or raise an error if there are too many."""
    if high - low >= LARGEST_SUPPORT:
        expected = f"at most {LARGEST_SUPPORT:,} outcomes; encode with fewer levels"
        raise InvalidValue("noise", f"{high - low + 1:,} outcomes", expected)
    return high - low + 1


@dataclass(frozen=True, kw_only=True)
class Binomial:
    """The number of ones among independent bits.

    Attributes:
        bits: The number of bits.
        chance: The probability that a bit is one.

    Example:
        >>> from dpbandits.privacy.accounting import Binomial
        >>> noise = Binomial(bits=1000)
        >>> noise.centre, noise.variance
        (500.0, 250.0)
    """

    bits: int
    chance: float = 0.5

    def __post_init__(self) -> None:
        whole(1, 1 << 50, bits=self.bits)
        probability(chance=self.chance)

    @property
    def centre(self) -> float:
        """The mean."""
        return self.bits * self.chance

    @property
    def variance(self) -> float:
        """The variance."""
        return self.bits * self.chance * (1 - self.chance)

    @property
    def symmetric(self) -> bool:
        """Whether the bits are fair."""
        return self.chance == 0.5

    def reach(self, log_tail: float) -> float:
        """Return r by Hoeffding (1963): P(|Z − Np| ≥ r) ≤ 2·exp(−2r²/N)."""
        return math.sqrt(self.bits * log_tail / 2)

    def log_weights(self, low: int, high: int) -> LogWeights:
        """Sum the logarithms of the ratios of neighbouring weights, outwards from the mode.

        With c = z + 1 and M = N + 1, P(z+1)/P(z) = (M − c)p/(c(1−p)). Up to the mode this is 1 + a with a =
        (Mp − c)/(c(1−p)) ≥ 0. Beyond the mode the inverse is 1 + a with a = (c − Mp)/((M − c)p) ≥ 0. For a ≥
        0, log1p does not magnify the relative error of a. For fair bits the numerator is exact: the relative
        error is ≤ 6u per term, and the terms have one sign, so the total is at most 6u·|log-weight|. For
        other bits, the error u·Mp of the numerator adds at most u/(1−p) per term, because c ≤ Mp on one side
        and c ≥ Mp on the other.
        """
        values = np.full(support_size(low, high), -np.inf)
        mode = min(math.floor((self.bits + 1) * self.chance), self.bits)
        # Weights are relative to the mode, so the sums must start there even if it is outside low … high.
        first, last = min(max(low, 0), mode), max(min(high, self.bits), mode)
        support_size(first, last)
        top = (self.bits + 1) * self.chance
        below = np.arange(mode, first, -1, dtype=np.float64)
        above = np.arange(mode + 1, last + 1, dtype=np.float64)
        rise = np.log1p(np.maximum(top - below, 0) / (below * (1 - self.chance)))
        fall = np.log1p(np.maximum(above - top, 0) / ((self.bits + 1 - above) * self.chance))
        down, down_error = running_sum(-rise)
        up, up_error = running_sum(-fall)
        weights = np.concatenate((down[::-1], up[1:]))
        start, stop = max(low, first), min(high, last) + 1
        if start < stop:
            values[start - low : stop - low] = weights[start - first : stop - first]
        error = (6 * UNIT_ROUNDOFF + max(down_error, up_error)) * -float(weights.min())
        if not self.symmetric:
            error += 4 * UNIT_ROUNDOFF / (1 - self.chance) * len(weights)
        return LogWeights(values=values, error=error)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """P(Z = z) proportional to exp(−|z|/scale).

    Attributes:
        scale: The scale; the standard deviation is about √2 times that.
    """

    scale: float
    centre, symmetric = 0.0, True

    def __post_init__(self) -> None:
        positive(scale=self.scale)

    @property
    def variance(self) -> float:
        """2q/(1−q)² with q = e^{−1/scale}."""
        return 0.5 / math.sinh(0.5 / self.scale) ** 2 if self.scale > 1e-3 else 0.0

    def reach(self, log_tail: float) -> float:
        """Return r by P(|Z| ≥ r) = 2q^r/(1+q) ≤ 2·e^{−r/scale} for whole r."""
        return math.ceil(self.scale * log_tail)

    def log_weights(self, low: int, high: int) -> LogWeights:
        """Return −|z|/scale, with one rounding."""
        support_size(low, high)
        values = -np.abs(np.arange(low, high + 1, dtype=np.float64)) / self.scale
        return LogWeights(values=values, error=-float(values.min()) * UNIT_ROUNDOFF)
