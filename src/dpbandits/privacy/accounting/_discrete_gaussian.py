"""The discrete Gaussian, alone or as a sum of equal independent shares.

A sum of discrete Gaussians is not a discrete Gaussian. If the shares are wide it is one up to a factor
that is accounted for. Otherwise it is convolved: directly, where every term is positive and no digit is
lost, not by Fourier transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import positive, whole
from dpbandits.privacy.accounting._noise_pmf import UNIT_ROUNDOFF, LogWeights, support_size

# Where shares are cut off: see `_sum_of_shares`.
_BEYOND = 25.0
_LARGEST_CUT = 345.0
# The error of log-probabilities at which a sum of shares is taken for one law.
_NEARLY_ONE = 1e-12


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """The sum of `shares` independent laws P(z) ∝ exp(−z²/(2·scale²))."""

    scale: float
    shares: int = 1

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        whole(1, 10**8, shares=self.shares)

    @property
    def centre(self) -> float:
        """The mean."""
        return 0.0

    @property
    def variance(self) -> float:
        """At most this (Canonne, Kamath and Steinke 2020), and all but equal for scale ≥ 1."""
        return self.shares * self.scale * self.scale

    @property
    def share_error(self) -> float:
        """By how much the sum's log-probabilities differ from those of one law of its variance, at most.

        3·κ a share that is added (docs/accounting-proofs.md, section 12), up to a constant.
        """
        return 3 * (self.shares - 1) * unevenness(self.scale / math.sqrt(2))

    @property
    def nearly_one(self) -> bool:
        """Whether the sum of shares may be taken for one discrete Gaussian."""
        return self.share_error <= _NEARLY_ONE

    @property
    def symmetric(self) -> bool:
        """Always."""
        return True

    def reach(self, log_tail: float) -> float:
        """P(|Z| ≥ r) ≤ 2·exp(−r²/(2·variance)).

        A share is sub-Gaussian, E e^{λZ} ≤ e^{λ²·scale²/2} (Canonne, Kamath and Steinke 2020).
        """
        return math.sqrt(2 * self.variance * log_tail)

    def log_weights(self, low: int, high: int) -> LogWeights:
        """−z²/(2·variance), a few roundings; a convolution when there are several small shares."""
        support_size(low, high)
        if not self.nearly_one:
            return self._sum_of_shares(low, high)
        points = np.arange(low, high + 1, dtype=np.float64)
        values = -((points / math.sqrt(self.variance)) ** 2) / 2
        error = -float(values.min()) * 8 * UNIT_ROUNDOFF + self.share_error
        return LogWeights(values=values, error=error)

    def _sum_of_shares(self, low: int, high: int) -> LogWeights:
        """The shares' sum by doubling.

        What is accounted is the law in which each partial sum of m shares is cut to
        |z| ≤ √(2m·scale²·L): again log-concave, and by `reach` each cut moves at most 2e^{−L} of mass.
        There are fewer than 2·shares cuts, so the law meant is at most 4·shares·e^{−L} away in total
        variation. L is larger by _BEYOND than what `reach` would need for the outcomes asked for.

        Errors: the terms being positive, a convolution of K terms has relative error
        ≤ e₁ + e₂ + (K + 1)u.
        """
        asked = max(abs(low), abs(high)) ** 2 / (2 * self.variance)
        cut = min(asked + _BEYOND + math.log(4 * self.shares), _LARGEST_CUT)
        total, total_shares, total_error = np.ones(1), 0, 0.0
        power, power_shares = _one_share(self.scale, cut), 1
        power_error = (8 + 4 * cut) * UNIT_ROUNDOFF
        while True:
            if self.shares & power_shares:
                total_shares += power_shares
                total_error += power_error + (len(power) + 1) * UNIT_ROUNDOFF
                total = _centre(np.convolve(total, power), self._radius(total_shares, cut))
            power_shares *= 2
            if power_shares > self.shares:
                break
            power_error = 2 * power_error + (len(power) + 1) * UNIT_ROUNDOFF
            power = _centre(np.convolve(power, power), self._radius(power_shares, cut))
        swapped = 4 * self.shares * math.exp(-cut)
        return LogWeights(values=_logs(total, low, high), error=total_error, swapped=swapped)

    def _radius(self, shares: int, cut: float) -> int:
        return math.ceil(math.sqrt(2 * shares * cut) * self.scale)


def unevenness(deviation: float) -> float:
    """By which share a sum of a normal density over the lattice depends on where it is centred, at most.

    Poisson's summation formula gives 2·Σ_j exp(−2π²·deviation²·j²); its terms fall faster than geometrically.
    """
    scaled = math.pi * deviation
    return 2.1 * math.exp(-2 * scaled * scaled)


def _centre(masses: FloatArray, radius: int) -> FloatArray:
    """The masses at −radius … radius of masses that are centred at zero."""
    middle = len(masses) // 2
    return masses[max(middle - radius, 0) : middle + radius + 1]


def _one_share(scale: float, cut: float) -> FloatArray:
    radius = math.ceil(scale * math.sqrt(2 * cut))
    masses = np.exp(-((np.arange(-radius, radius + 1) / scale) ** 2) / 2)
    return np.asarray(masses / masses.sum(), dtype=np.float64)


def _logs(masses: FloatArray, low: int, high: int) -> FloatArray:
    """Logarithms on low … high of masses that are centred at zero."""
    radius = len(masses) // 2
    values = np.full(high - low + 1, -np.inf)
    first, last = max(low, -radius), min(high, radius)
    if first <= last:
        with np.errstate(divide="ignore"):
            values[first - low : last - low + 1] = np.log(masses[first + radius : last + radius + 1])
    return values
