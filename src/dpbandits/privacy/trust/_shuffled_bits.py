"""`ShuffledBits`: the paper's Algorithms 2 and 4, and its calibration in both presets.

Each coordinate in [−reach, reach] is rounded at random to one of 0 … levels, and Bin(noise_bits,
noise_probability) is added. The result is sent in unary, as levels + noise_bits bits. The third party
permutes the bits of each coordinate; the permuted bits and their sum carry the same information. The paper
takes reach = Δ₂ = B√s for every coordinate. reach = B is enough, because each coordinate lies in [−B, B].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import probability, whole
from dpbandits.errors import InvalidValue, OutsideTheorem
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._lattice import MOST_LEVELS, Lattice
from dpbandits.privacy._limits import MOST_NOISE_BITS, MOST_SUM
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.trust._shared_noise import SharedNoise, noisy_reports


@dataclass(frozen=True, kw_only=True)
class ShuffledBits(SharedNoise, Mechanism):
    """R encodes to bits, S permutes the bits of each coordinate, and A decodes their sum.

    Attributes:
        reach: Each coordinate is encoded on a grid over [−reach, reach], which contains [−bound, bound].
        levels: The number of levels of the grid.
        noise_bits: The number of random bits that each client adds per coordinate.
        noise_probability: The probability that a random bit is 1.
        least_reports: The fewest reports in a release.
        silent_share: The share of the reporting clients that may add no random bits.
    """

    coordinates: int
    cohort: int
    bound: float
    reach: float
    levels: int
    noise_bits: int
    noise_probability: float = 0.5
    least_reports: int
    silent_share: float = 0.0
    kind: str = "shuffled-bits"

    noise = "binomial"
    trust = "shuffle"
    unit = "bits"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, MOST_LEVELS, levels=self.levels)
        whole(1, MOST_NOISE_BITS, noise_bits=self.noise_bits)
        probability(noise_probability=self.noise_probability)
        whole(0, MOST_SUM - 1, largest_sum=self.cohort * self.width)
        self._check_reports()
        if self.lattice.reach < self.bound:
            raise InvalidValue("reach", self.reach, f"at least the bound {self.bound}")

    @cached_property
    def lattice(self) -> Lattice:
        """The grid over [−reach, reach]."""
        return Lattice(reach=self.reach, levels=self.levels)

    @property
    def unit_of_message(self) -> float:
        """One level, the value of each bit."""
        return self.lattice.step

    @property
    def width(self) -> int:
        """The number of bits of one coordinate in one report."""
        return self.levels + self.noise_bits

    @cached_property
    def message(self) -> Message:
        """`width` bits per coordinate."""
        return Message(kind="bits", shape=(self.coordinates, self.width), low=0, high=1)

    @property
    def sum_bits(self) -> int:
        """Enough bits to count all ones of a cohort."""
        return (self.cohort * self.width).bit_length()

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """Return one column, the number of ones per coordinate: A only needs the sum of the columns."""
        return sums[:, None]

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        ones = self.lattice.encode(clipped, noise)
        ones += noise.binomial(self.noise_bits, self.noise_probability, clipped.shape)
        return (np.arange(self.width) < ones[..., None]).astype(np.uint8)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:
        """Return the bits of all clients in a random order, with one row per coordinate."""
        by_coordinate = payloads.transpose(1, 0, 2).reshape(self.coordinates, -1)
        return noise.permute_rows(by_coordinate)

    def batch_shape(self, reports: int) -> tuple[int, ...]:
        """Return the shape of a batch with all bits of a coordinate in one row."""
        return (self.message.shape[0], reports * self.width)

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return self._decode(batch.sum(axis=1, dtype=np.int64), reports)

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return np.asarray(self.lattice.encode(clipped, noise).sum(axis=0))

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        # The sum of n independent Bin(b, p) variables is one Bin(n·b, p) variable.
        added = noise.binomial(reports * self.noise_bits, self.noise_probability, (self.coordinates,))
        return self._decode(total + added, reports)

    def _decode(self, ones: IntArray, reports: int) -> FloatArray:
        expected_noise = reports * self.noise_bits * self.noise_probability
        return self.lattice.decode_mean(ones - expected_noise, reports)

    def error_deviation(self, reports: int) -> float:
        """Return a bound from Hoeffding's lemma: each of n(1 + b) coins is ½-sub-Gaussian for any input."""
        return self.lattice.step / reports * math.sqrt(reports * (1 + self.noise_bits)) / 2

    @property
    def message_size(self) -> int:
        """`width` bits per coordinate."""
        return self.coordinates * self.width

    @property
    def event(self) -> accounting.Event:
        """The cost of the sum with the noise of `noisy_reports` clients. Further noise is post-processing."""
        bits = self.noisy_reports * self.noise_bits
        low, high = (float(self.lattice.position(np.array(end))) for end in (-self.bound, self.bound))
        return _binomial_event(bits, self.noise_probability, self.coordinates, low, high)


@lru_cache(maxsize=256)
def _binomial_event(bits: int, chance: float, coordinates: int, low: float, high: float) -> accounting.Event:
    ends = accounting.Ends.rounded(low, high)
    noise = accounting.Binomial(bits=bits, chance=chance)
    return accounting.IntegerSum(noise=noise, coordinates=coordinates, ends=ends)


def shuffled_bits(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int
) -> Mechanism:
    """Return the mechanism of preset tight, with as few bits as possible."""
    shares = max(1, noisy_reports(least, request.silent_share))
    chosen = _encoding(request.epsilon, request.delta, coordinates, shares)
    return ShuffledBits(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        reach=bound,
        levels=chosen[0],
        noise_bits=chosen[1],
        least_reports=least,
        silent_share=request.silent_share,
    )


@lru_cache(maxsize=4096)
def _encoding(epsilon: float, delta: float, coordinates: int, shares: int) -> tuple[int, int]:
    chosen = accounting.choose_encoding(epsilon, delta, coordinates, shares)
    return chosen.levels, chosen.bits


def algorithm_2(
    request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, least: int
) -> ShuffledBits:
    """Return the mechanism of the paper's Algorithm 2 (ε̂, g, b, p as printed), with g rounded up.

    Raises:
        OutsideTheorem: If ε ≥ 15 or δ ≥ 0.5, for which the paper's theorem does not hold.
    """
    epsilon, delta = _inside(request, 15, "the paper's shuffle theorem")
    scaled_epsilon = epsilon / (18 * math.sqrt(math.log(2 / delta)))  # ε̂
    log_term = math.log(4 * coordinates / delta)
    first = scaled_epsilon * math.sqrt(cohort) / (6 * math.sqrt(5 * log_term))
    levels = math.ceil(max(first, math.sqrt(coordinates), 10))
    ones = 90 * levels**2 * log_term / (scaled_epsilon**2 * cohort)
    return _with_ones(request, coordinates, cohort, bound, least, levels, ones)


def algorithm_4(request: PrivacyRequest, *, cohort: int, bound: float, least: int) -> ShuffledBits:
    """Return the mechanism of the paper's scalar shuffle sum (g, b, p as printed), with g rounded up.

    The paper's lemma gives ε̂(2/g + 1) with ε = 2ε̂, which is at most ε if g ≥ 2. The printed condition
    g ≥ 2B√n permits this choice.

    Raises:
        OutsideTheorem: If ε ≥ 30 or δ ≥ 0.5, for which the paper's theorem does not hold.
    """
    epsilon, delta = _inside(request, 30, "the paper's scalar shuffle theorem")
    levels = max(2, math.ceil(2 * bound * math.sqrt(cohort) * (1 - 1e-12)))
    ones = 90 * levels**2 * math.log(2 / delta) / ((epsilon / 2) ** 2 * cohort)
    return _with_ones(request, 1, cohort, bound, least, levels, ones)


def _inside(request: PrivacyRequest, largest_epsilon: int, theorem: str) -> tuple[float, float]:
    """Return ε and δ of a request, if they satisfy the conditions of the theorem."""
    epsilon, delta = request.epsilon, request.delta
    if epsilon >= largest_epsilon:
        raise OutsideTheorem(f"epsilon: got {epsilon:g}, expected < {largest_epsilon} ({theorem})")
    if delta >= 0.5:
        raise OutsideTheorem(f"delta: got {delta:g}, expected < 0.5 ({theorem})")
    return epsilon, delta


def _with_ones(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int, levels: int, ones: float
) -> ShuffledBits:
    """Return the mechanism in which a client adds `ones` ones on average: b = ⌈2·ones⌉ and p = ones/b."""
    noise_bits = math.ceil(2 * ones)
    return ShuffledBits(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        reach=bound * math.sqrt(coordinates),
        levels=levels,
        noise_bits=noise_bits,
        noise_probability=ones / noise_bits,
        least_reports=least,
        silent_share=request.silent_share,
    )
