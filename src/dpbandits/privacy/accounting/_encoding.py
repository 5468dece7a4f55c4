"""How to encode for the shuffle model: levels and noise bits, so that little is lost to either.

A value in [−B, B] becomes one of 0 … g (`levels`) by randomised rounding, and each of n reports
adds b fair bits per coordinate. The decoded sum then has, per coordinate, a deviation of at most
(2B/g)·√(n/4 + nb/4): a rounding has variance ≤ ¼, a fair bit exactly ¼. The Gaussian of the same
(ε, δ) has ρ·2B·√s. Their quotient is the

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

LARGEST_ERROR_RATIO = 1.05


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """Values on 0 … `levels`, and `bits` fair noise bits a coordinate from each of `reports`."""

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
        """What the server sees, as the accountant takes it."""
        noise = Binomial(bits=self.reports * self.bits)
        return IntegerSum(noise=noise, coordinates=self.coordinates, shift=self.levels)

    @property
    def rounding_ratio(self) -> float:
        """The deviation with rounding over that of the noise alone, at most."""
        return math.sqrt(1 + 1 / self.bits)

    def error_ratio(self, epsilon: float, delta: float) -> float:
        """The decoded sum's deviation, at most, over that of the Gaussian of the same (ε, δ)."""
        gaussian = gaussian_noise_ratio(epsilon, delta) * math.sqrt(self.coordinates)
        return math.sqrt(self.reports * (self.bits + 1)) / (2 * self.levels * gaussian)


def choose_encoding(epsilon: float, delta: float, coordinates: int, reports: int) -> Encoding:
    """The fewest levels, and then bits, with error and rounding at most 1.05 times the Gaussian's.

    Levels are tried upwards. Let x = 4g²sρ²/n, the Gaussian's variance in fair bits a report. The
    error ratio is √((b + 1)/x), so at most b = ⌊1.05²·x⌋ − 1 bits will do; rounding asks for at
    least 1/(1.05² − 1), that is 10. One evaluation of δ tells whether the most bits allowed are
    enough; if so, the least number is looked for.
    """
    coordinates, reports = whole(1, coordinates=coordinates), whole(1, reports=reports)
    gaussian = 4 * coordinates * gaussian_noise_ratio(epsilon, delta) ** 2 / reports
    limit = LARGEST_ERROR_RATIO**2
    fewest = math.ceil(1 / (limit - 1))
    levels = max(1, math.floor(math.sqrt(fewest / gaussian / limit)))
    while True:
        allowed = math.floor(limit * gaussian * levels**2 * (1 - 1e-12)) - 1
        # A law on the integers needs about the Gaussian's variance: fewer bits than that need no
        # evaluation.
        if allowed >= max(fewest, 0.99 * gaussian * levels**2):
            most = Encoding(levels=levels, bits=allowed, reports=reports, coordinates=coordinates)
            if most.release.delta(epsilon) <= delta:
                return _fewest_bits(most, epsilon, delta, fewest)
        levels = max(levels + 1, math.floor(1.002 * levels))


def _fewest_bits(most: Encoding, epsilon: float, delta: float, fewest: int) -> Encoding:
    needed = least_binomial_bits(epsilon, delta, most.coordinates, most.levels)
    bits = max(fewest, min(most.bits, -(-needed // most.reports)))
    while True:
        chosen = replace(most, bits=bits)
        if bits == most.bits or chosen.release.delta(epsilon) <= delta:
            return chosen
        bits += 1
