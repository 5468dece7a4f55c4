"""The discrete Gaussian distribution, alone or as a sum of equal independent shares.

A sum of discrete Gaussians is not a discrete Gaussian. If the shares are wide, its probabilities are those of
a discrete Gaussian up to a factor, and the factor is accounted for. Otherwise the sum is computed by direct
convolution. Direct convolution adds positive terms only, so no digits are lost, unlike with a Fourier
transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import positive, whole
from dpbandits.privacy.accounting._noise_pmf import UNIT_ROUNDOFF, LogWeights, support_size

# Bounds on the cutoff exponent of partial sums: see `_sum_of_shares`.
_BEYOND = 25.0
_LARGEST_CUT = 345.0
# If the error of the log-probabilities is below this, a sum of shares is treated as one discrete Gaussian.
_NEARLY_ONE = 1e-12


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """The sum of `shares` independent variables with P(z) ∝ exp(−z²/(2·scale²)).

    Attributes:
        scale: The scale of one share; nearly its standard deviation.
        shares: The number of shares.
    """

    scale: float
    shares: int = 1
    centre, symmetric = 0.0, True

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        whole(1, 10**8, shares=self.shares)

    @property
    def variance(self) -> float:
        """An upper bound on the variance (Canonne, Kamath and Steinke 2020), nearly equal for scale ≥ 1."""
        return self.shares * self.scale * self.scale

    @property
    def share_error(self) -> float:
        """A bound on the difference, up to a constant, to the log-probabilities of one discrete Gaussian.

        Each added share contributes at most 3·κ (docs/accounting-proofs.md, section 12).
        """
        return 3 * (self.shares - 1) * unevenness(self.scale / math.sqrt(2))

    @property
    def nearly_one(self) -> bool:
        """Whether the sum of shares may be treated as one discrete Gaussian."""
        return self.share_error <= _NEARLY_ONE

    def reach(self, log_tail: float) -> float:
        """Return r with P(|Z| ≥ r) ≤ 2·exp(−r²/(2·variance)) = 2·e^{−log_tail}.

        A share is sub-Gaussian: E e^{λZ} ≤ e^{λ²·scale²/2} (Canonne, Kamath and Steinke 2020).
        """
        return math.sqrt(2 * self.variance * log_tail)

    def log_weights(self, low: int, high: int) -> LogWeights:
        """Return −z²/(2·variance), with a few roundings; for several narrow shares, a convolution."""
        support_size(low, high)
        if not self.nearly_one:
            return self._sum_of_shares(low, high)
        points = np.arange(low, high + 1, dtype=np.float64)
        values = -((points / math.sqrt(self.variance)) ** 2) / 2
        error = -float(values.min()) * 8 * UNIT_ROUNDOFF + self.share_error
        return LogWeights(values=values, error=error)

    def _sum_of_shares(self, low: int, high: int) -> LogWeights:
        """Convolve the shares by repeated doubling.

        The accounted distribution is the one in which each partial sum of m shares is cut to |z| ≤
        √(2m·scale²·L). It is log-concave again, and by `reach` each cut moves at most 2e^{−L} of probability.
        There are fewer than 2·shares cuts, so the total-variation distance from the exact distribution is at
        most 4·shares·e^{−L}. L exceeds what `reach` would need for the requested outcomes by _BEYOND.

        Errors: all terms are positive, so a convolution of K terms has relative error ≤ e₁ + e₂ + (K + 1)u.
        """
        asked = max(abs(low), abs(high)) ** 2 / (2 * self.variance)
        cut = min(asked + _BEYOND + math.log(4 * self.shares), _LARGEST_CUT)
        total, total_shares, total_error = np.ones(1), 0, 0.0
        power, power_shares = _one_share(self.scale, cut), 1
        # The exponents of one share are at most `cut`; a rounding of the exponent is a relative error of the
        # mass.
        power_error = (8 + 4 * cut) * UNIT_ROUNDOFF
        while True:
            # Binary exponentiation: `power` holds 1, 2, 4, … shares; `total` collects those in the binary
            # expansion of `shares`.
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
        """Return where the sum of that many shares is cut off."""
        return math.ceil(math.sqrt(2 * shares * cut) * self.scale)


def unevenness(deviation: float) -> float:
    """Return a bound κ on the relative change of a lattice sum of a normal density with its centre.

    Poisson's summation formula gives κ = 2·Σ_j exp(−2π²·deviation²·j²). Its terms fall faster than
    geometrically, so 2.1 times the first term is an upper bound.
    """
    scaled = math.pi * deviation
    return 2.1 * math.exp(-2 * scaled * scaled)


def _centre(masses: FloatArray, radius: int) -> FloatArray:
    """Return the masses at −radius … radius of an array that is centred at zero."""
    middle = len(masses) // 2
    return masses[max(middle - radius, 0) : middle + radius + 1]


def _one_share(scale: float, cut: float) -> FloatArray:
    """Return the probabilities of one share, cut off at scale·√(2·cut)."""
    radius = math.ceil(scale * math.sqrt(2 * cut))
    masses = np.exp(-((np.arange(-radius, radius + 1) / scale) ** 2) / 2)
    return np.asarray(masses / masses.sum(), dtype=np.float64)


def _logs(masses: FloatArray, low: int, high: int) -> FloatArray:
    """Return the logarithms on low … high of masses that are centred at zero."""
    radius = len(masses) // 2
    values = np.full(high - low + 1, -np.inf)
    first, last = max(low, -radius), min(high, radius)
    if first <= last:
        with np.errstate(divide="ignore"):
            values[first - low : last - low + 1] = np.log(masses[first + radius : last + radius + 1])
    return values
