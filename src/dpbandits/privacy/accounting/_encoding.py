"""The encoding of the shuffle model: how many levels and noise bits each report has.

A value in [−B, B] becomes one of 0 … g (`levels`) by randomised rounding, and each of n reports adds b fair
bits per coordinate. A rounding has variance at most ¼, and a fair bit has variance exactly ¼. So the decoded
sum has, per coordinate, a standard deviation of at most (2B/g)·√(n/4 + nb/4). The Gaussian of the same (ε, δ)
has ρ·2B·√s, where ρ is its noise ratio and s the number of coordinates. Their quotient is the

    error ratio = √(n(b + 1)) / (2·g·ρ·√s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpbandits._checks import whole
from dpbandits.privacy.accounting._calibrate import least_binomial_bits
from dpbandits.privacy.accounting._gaussian import gaussian_noise_ratio
from dpbandits.privacy.accounting._integer_sum import IntegerSum
from dpbandits.privacy.accounting._noise_pmf import Binomial

# The largest accepted ratio, for the error and for rounding: at most 5 % worse than the Gaussian.
LARGEST_ERROR_RATIO = 1.05


@dataclass(frozen=True, kw_only=True)
class BitEncoding:
    """An encoding of the reports of a cohort.

    Attributes:
        levels: Values are encoded on 0 … `levels`.
        bits: The number of fair noise bits per coordinate in each report.
        reports: The number of reports.
        coordinates: The number of coordinates of a report.
    """

    levels: int
    bits: int
    reports: int
    coordinates: int

    def __post_init__(self) -> None:
        whole(1, levels=self.levels)
        whole(1, bits=self.bits)
        whole(1, reports=self.reports)
        whole(1, coordinates=self.coordinates)

    @property
    def release(self) -> IntegerSum:
        """The event of the sum that the server sees."""
        noise = Binomial(bits=self.reports * self.bits)
        return IntegerSum(noise=noise, coordinates=self.coordinates, shift=self.levels)


def choose_encoding(epsilon: float, delta: float, coordinates: int, reports: int) -> BitEncoding:
    """Choose the fewest levels, and then the fewest bits, with both ratios at most 1.05.

    The two ratios are the error ratio against the Gaussian and the rounding ratio √(1 + 1/b), which bounds
    the deviation with rounding relative to that of the noise alone. Levels are tried in increasing order. Let
    x = 4g²sρ²/n, the Gaussian's variance in fair bits per report. The error ratio is √((b + 1)/x), so at most
    b = ⌊1.05²·x⌋ − 1 bits are allowed. The rounding ratio needs at least 1/(1.05² − 1) bits, that is 10. One
    evaluation of δ decides whether the largest allowed number of bits is enough. If it is, the code searches
    for the least number.

    Args:
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        coordinates: The number of coordinates of a report.
        reports: The number of reports.

    Returns:
        The encoding.

    Raises:
        InvalidValue: If an argument is out of range.
    """
    coordinates, reports = whole(1, coordinates=coordinates), whole(1, reports=reports)
    gaussian = 4 * coordinates * gaussian_noise_ratio(epsilon, delta) ** 2 / reports
    limit = LARGEST_ERROR_RATIO**2
    fewest = math.ceil(1 / (limit - 1))
    # Fewer levels than this allow fewer bits than rounding needs.
    levels = max(1, math.floor(math.sqrt(fewest / gaussian / limit)))
    while True:
        allowed = math.floor(limit * gaussian * levels**2 * (1 - 1e-12)) - 1
        # Integer noise needs about the variance of the Gaussian. If fewer bits than that are allowed, no
        # evaluation is needed.
        if allowed >= max(fewest, 0.99 * gaussian * levels**2):
            most = BitEncoding(levels=levels, bits=allowed, reports=reports, coordinates=coordinates)
            if most.release.delta(epsilon) <= delta:
                return _fewest_bits(most, epsilon, delta, fewest)
        # Steps of 0.2 % for many levels: the result is at most that much finer than necessary.
        levels = max(levels + 1, math.floor(1.002 * levels))


def _fewest_bits(most: BitEncoding, epsilon: float, delta: float, fewest: int) -> BitEncoding:
    """Return the encoding with the least number of bits per report that meets δ."""
    needed = least_binomial_bits(epsilon, delta, most.coordinates, most.levels)
    bits = max(fewest, min(most.bits, -(-needed // most.reports)))
    while True:
        chosen = replace(most, bits=bits)
        if bits == most.bits or chosen.release.delta(epsilon) <= delta:
            return chosen
        bits += 1
