"""The shuffle model: noisy bits, permuted by a third party, of which the server sees the sum alone.

A coordinate y in [−reach, reach] is mapped to w = (y + reach)/(2·reach)·levels, rounded at random to an
integer without bias, and Bin(noise_bits, noise_probability) ones are added: a message of
levels + noise_bits bits. The permuted bits of all clients and their sum carry the same information.

The paper's Algorithm 2 takes reach = Δ₂ = B√s for every coordinate (`algorithm_2` below).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits.checks import positive, probability, whole
from dpbandits.errors import InvalidValue, OutsideTheorem
from dpbandits.privacy.mechanism import Mechanism, Payload, register
from dpbandits.privacy.noise import BitArray, FloatArray, IntArray, NoiseSource


@register
@dataclass(frozen=True, kw_only=True)
class ShuffledBits(Mechanism):
    """R encodes to bits, S permutes each coordinate's bits, A sums and shifts back."""

    support: int
    cohort: int
    bound: float
    reach: float
    levels: int
    noise_bits: int
    noise_probability: float
    kind: str = "shuffled-bits"

    trust = "shuffle"
    unit = "bits"
    accountant = "vector-sum theorem of Cheu et al. (2021)"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, levels=self.levels)
        whole(1, noise_bits=self.noise_bits)
        probability(noise_probability=self.noise_probability)
        if positive(reach=self.reach) < self.bound:
            raise InvalidValue("reach", self.reach, f"at least the bound {self.bound}")

    @property
    def width(self) -> int:
        """The bits of one coordinate of one client."""
        return self.levels + self.noise_bits

    def _round(self, clipped: FloatArray, noise: NoiseSource) -> IntArray:
        scaled = (clipped + self.reach) * (self.levels / (2 * self.reach))
        floor = np.minimum(np.floor(scaled), self.levels - 1)  # the upper end is levels − 1 plus a sure coin
        return floor.astype(np.int64) + noise.bernoulli(scaled - floor)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        ones = self._round(clipped, noise)
        ones += noise.binomial(self.noise_bits, self.noise_probability, clipped.shape)
        return (np.arange(self.width) < ones[..., None]).astype(np.uint8)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:
        """All bits of one coordinate, of all clients, in a random order."""
        by_coordinate: BitArray = payloads.transpose(1, 0, 2).reshape(self.support, -1)
        return noise.permute_rows(by_coordinate)

    def analyze(self, batch: Payload, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        """Sum the bits, take off what the noise adds on average, and undo the encoding."""
        return self._decode(batch.sum(axis=1, dtype=np.int64))

    def _simulate(self, clipped: FloatArray, noise: NoiseSource) -> FloatArray:
        # The sum of n independent Bin(b, p) variables is one Bin(n·b, p) variable.
        trials = len(clipped) * self.noise_bits
        total = noise.binomial(trials, self.noise_probability, (self.support,))
        return self._decode(self._round(clipped, noise).sum(axis=0) + total)

    def _decode(self, ones: IntArray) -> FloatArray:
        expected_noise = self.noise_bits * self.cohort * self.noise_probability
        per_one = 2 * self.reach / (self.levels * self.cohort)
        return np.asarray((ones - expected_noise) * per_one - self.reach, dtype=np.float64)

    @property
    def error_proxy(self) -> float:
        """By Hoeffding each of the n(1 + b) coins is ½-sub-Gaussian, whatever the input."""
        coins = self.cohort * (1 + self.noise_bits)
        return 2 * self.reach / (self.levels * self.cohort) * math.sqrt(coins) / 2

    @property
    def message_size(self) -> int:
        """So many bits for each action."""
        return self.support * self.width

    def delta(self, epsilon: float) -> float:
        """The δ for which Algorithm 2's formula gives this noise at ε.

        n·b·p = 90·g²·ln(4s/δ)/ε̂² with ε̂ = ε/(18√ln(2/δ)) is a quadratic in ln(1/δ).
        """
        check_algorithm_2(epsilon)
        ones = self.cohort * self.noise_bits * self.noise_probability
        product = ones * epsilon**2 / (90 * 18**2 * self.levels**2)  # = ln(4s/δ)·ln(2/δ)
        first, second = math.log(4 * self.support), math.log(2)
        log_inverse = (math.sqrt((first - second) ** 2 + 4 * product) - first - second) / 2
        return min(1.0, math.exp(-log_inverse))


def check_algorithm_2(epsilon: float, delta: float | None = None) -> None:
    """The theorem behind Algorithm 2 is stated for ε < 15 and δ < 1/2 only."""
    if epsilon >= 15:
        raise OutsideTheorem(f"epsilon: got {epsilon:g}, expected < 15 (the paper's shuffle theorem)")
    if delta is not None and delta >= 0.5:
        raise OutsideTheorem(f"delta: got {delta:g}, expected < 0.5 (the paper's shuffle theorem)")


def algorithm_2(*, epsilon: float, delta: float, support: int, cohort: int, bound: float) -> ShuffledBits:
    """The paper's Algorithm 2 (ε̂, g, b, p as printed), with g rounded up to an integer."""
    check_algorithm_2(positive(epsilon=epsilon), probability(delta=delta))
    scaled_epsilon = epsilon / (18 * math.sqrt(math.log(2 / delta)))  # ε̂
    log_term = math.log(4 * support / delta)
    least = scaled_epsilon * math.sqrt(cohort) / (6 * math.sqrt(5 * log_term))
    levels = math.ceil(max(least, math.sqrt(support), 10))
    ones = 90 * levels**2 * log_term / (scaled_epsilon**2 * cohort)
    noise_bits = math.ceil(2 * ones)
    return ShuffledBits(
        support=support,
        cohort=cohort,
        bound=bound,
        reach=bound * math.sqrt(support),
        levels=levels,
        noise_bits=noise_bits,
        noise_probability=ones / noise_bits,
    )
