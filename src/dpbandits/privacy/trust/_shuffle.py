"""The shuffle model: each client adds a little noise, and the server sees no more than the sum.

`ShuffledBits` is the paper's Algorithm 2. A coordinate in [−reach, reach] is rounded at random to one of
0 … levels, and Bin(noise_bits, noise_probability) ones are added: a message of levels + noise_bits bits. The
third party permutes each coordinate's bits; the permuted bits and their sum carry the same information.
The paper takes reach = Δ₂ = B√s for every coordinate; reach = B is enough, as each lies in [−B, B].

`SummedShares` has the third party add the clients' integers up, modulo a power of two, and reveal the sum.

A report is a whole number with its sign for each coordinate. Discrete Gaussian and Skellam shares above
`largest_share` in size are not sent: the client then reports the centre of the grid. The account adds the
chance of that to δ. Without such a limit one client could send any number, and so decide the sum. Pólya
shares have none: a limit would leave δ > 0 (docs/privacy.md).

In both, noise suffices if only `minimum_reports` clients answer, `silent_share` of them without noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import between, probability, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy._lattice import MOST_LEVELS, Lattice
from dpbandits.privacy._limits import MOST_NOISE_BITS, MOST_SUM, checked_cohort
from dpbandits.privacy._mechanism import Mechanism, Message, Payload, register
from dpbandits.privacy._noisy_lattice import NoisyLattice, chance_replaced, sent_message
from dpbandits.privacy.accounting import Approximated, Binomial, Ends, Event, IntegerSum
from dpbandits.privacy.noise import NoiseLaw, NoiseSource

_SUMS_ONLY = "the shuffler reveals nothing but the sum of all reports and does not collude with the server"
_MOST_SHARE = 2**50
_NEARLY_ONE = 1 - 2.0**-53


def noisy_reports(minimum_reports: int, silent_share: float) -> int:
    """How many of the fewest clients that may answer add noise for certain."""
    return math.floor(minimum_reports * (1 - silent_share) + 1e-9)


def _check_reports(cohort: int, least: int, silent_share: float) -> None:
    whole(1, cohort, minimum_reports=least)
    between(0, 0.99, silent_share=silent_share)
    if noisy_reports(least, silent_share) < 1:
        raise InvalidValue("silent_share", silent_share, "one that leaves at least one noisy report")


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
    noise_probability: float = 0.5
    least_reports: int
    silent_share: float = 0.0
    kind: str = "shuffled-bits"

    noise = "binomial"
    trust = "shuffle"
    unit = "bits"
    parties = _SUMS_ONLY

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(1, MOST_LEVELS, levels=self.levels)
        whole(1, MOST_NOISE_BITS, noise_bits=self.noise_bits)
        probability(noise_probability=self.noise_probability)
        whole(0, MOST_SUM - 1, largest_sum=self.cohort * self.width)
        _check_reports(self.cohort, self.least_reports, self.silent_share)
        if self.lattice.reach < self.bound:
            raise InvalidValue("reach", self.reach, f"at least the bound {self.bound}")

    @cached_property
    def lattice(self) -> Lattice:
        """The grid over [−reach, reach]."""
        return Lattice(reach=self.reach, levels=self.levels)

    @property
    def minimum_reports(self) -> int:
        """What the noise is calibrated to."""
        return self.least_reports

    @property
    def noisy_reports(self) -> int:
        """Those whose bits are accounted for."""
        return noisy_reports(self.least_reports, self.silent_share)

    @property
    def unit_of_message(self) -> float:
        """One level for each bit."""
        return self.lattice.step

    @property
    def width(self) -> int:
        """The bits of one coordinate of one client."""
        return self.levels + self.noise_bits

    @cached_property
    def message(self) -> Message:
        """`width` bits for each action."""
        return Message(kind="bits", shape=(self.support, self.width), low=0, high=1)

    @property
    def sum_bits(self) -> int:
        """No more ones than bits."""
        return (self.cohort * self.width).bit_length()

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """One column, the number of ones per coordinate: A only adds the columns up."""
        return sums[:, None]

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        ones = self.lattice.encode(clipped, noise)
        ones += noise.binomial(self.noise_bits, self.noise_probability, clipped.shape)
        return (np.arange(self.width) < ones[..., None]).astype(np.uint8)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:
        """All bits of one coordinate, of all clients, in a random order."""
        by_coordinate = payloads.transpose(1, 0, 2).reshape(self.support, -1)
        return noise.permute_rows(by_coordinate)

    def batch_shape(self, reports: int) -> tuple[int, ...]:
        """All bits of a coordinate in one row."""
        return (self.message.shape[0], reports * self.width)

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return self._decode(batch.sum(axis=1, dtype=np.int64), reports)

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        total: IntArray = self.lattice.encode(clipped, noise).sum(axis=0)
        return total

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        # The sum of n independent Bin(b, p) variables is one Bin(n·b, p) variable.
        added = noise.binomial(reports * self.noise_bits, self.noise_probability, (self.support,))
        return self._decode(total + added, reports)

    def _decode(self, ones: IntArray, reports: int) -> FloatArray:
        expected_noise = reports * self.noise_bits * self.noise_probability
        return self.lattice.decode_mean(ones - expected_noise, reports)

    def error_deviation(self, reports: int) -> float:
        """By Hoeffding each of the n(1 + b) coins is ½-sub-Gaussian, whatever the input."""
        return self.lattice.step / reports * math.sqrt(reports * (1 + self.noise_bits)) / 2

    @property
    def message_size(self) -> int:
        """So many bits for each action."""
        return self.support * self.width

    @property
    def event(self) -> Event:
        """The sum's bits of the least number of noisy reports; the rest is post-processing."""
        bits = self.noisy_reports * self.noise_bits
        low, high = (float(self.lattice.position(np.array(end))) for end in (-self.bound, self.bound))
        return _binomial_event(bits, self.noise_probability, self.support, low, high)


@lru_cache(maxsize=256)
def _binomial_event(bits: int, chance: float, coordinates: int, low: float, high: float) -> Event:
    ends = Ends.rounded(low, high)
    return IntegerSum(noise=Binomial(bits=bits, chance=chance), coordinates=coordinates, ends=ends)


@lru_cache(maxsize=1024)
def _largest_noise(law: NoiseLaw, coordinates: int, shares: int) -> int:
    """Of so many shares; asked for powers of two only, as many cohorts have nearly the same size."""
    tail = 1e-12 / (2 * coordinates)
    return math.ceil(float(law.radius(np.ones((1, 1)), np.zeros(1), tail, shares)[0]))


@register
@dataclass(frozen=True, kw_only=True)
class SummedShares(NoisyLattice):
    """R encodes and adds a share of noise, S reveals the sum modulo 2^`modulus_bits`, A decodes.

    `largest_share` is the largest noise, in levels, that a client sends on a coordinate; None for Pólya.
    """

    support: int
    cohort: int
    bound: float
    levels: int
    noise: str
    scale: float
    least_reports: int
    silent_share: float = 0.0
    largest_share: int | None = None
    shape: str = "box"
    kind: str = "summed-shares"

    trust = "shuffle"
    unit = "bits"
    parties = f"{_SUMS_ONLY}; or each report is split among two parties that do not collude"
    laws = ("discrete-gaussian", "skellam", "polya")

    def __post_init__(self) -> None:
        checked_cohort(self.cohort)
        _check_reports(self.cohort, self.least_reports, self.silent_share)
        if self.noise != "polya":
            whole(1, _MOST_SHARE, largest_share=self.largest_share)  # type: ignore[arg-type]
        elif self.largest_share is not None:
            raise InvalidValue("largest_share", self.largest_share, "none for polya: δ would not be 0")
        super().__post_init__()

    @property
    def minimum_reports(self) -> int:
        """What the noise is calibrated to."""
        return self.least_reports

    @property
    def noisy_reports(self) -> int:
        """Those whose shares are accounted for."""
        return noisy_reports(self.least_reports, self.silent_share)

    @property
    def noise_shares(self) -> int:
        """Shares in the sum when as few as possible answer, and some of them add none."""
        return self.noisy_reports

    @cached_property
    def largest_noise(self) -> int:
        """The sum is at least minus this, and at most this above the encoded values.

        This holds for all admitted reports. Of Pólya shares it holds for honest clients, but for a chance
        below 10⁻¹².
        """
        if self.largest_share is not None:
            return self.cohort * self.largest_share
        return _largest_noise(self.law, self.support, 1 << self.cohort.bit_length())

    @cached_property
    def modulus_bits(self) -> int:
        """Wide enough for the sum; a sum that wraps around harms the estimate, never privacy."""
        return (self.cohort * self.levels + 2 * self.largest_noise + 1).bit_length()

    @cached_property
    def message(self) -> Message:
        """Encoded values with no more noise than `largest_share`; without one, all residues."""
        if self.largest_share is not None:
            return sent_message(self.levels, self.support, self.shape, self.law, self.largest_share)
        half = 1 << whole(1, 62, modulus_bits=self.modulus_bits) - 1
        return Message(kind="integers", shape=(self.support,), low=-half, high=half - 1)

    @property
    def distance(self) -> float:
        """The chance, at most, that any report of a cohort is replaced: what the account must allow for."""
        if self.largest_share is None:
            return 0.0
        chance = chance_replaced(self.law, self.support, self.shape, self.largest_share)
        return min(self.cohort * chance * (1 + 1e-9), _NEARLY_ONE)

    @property
    def event(self) -> Event:
        """The noisy sum's, for a mechanism that differs from it where a report is replaced."""
        exact = super().event
        return exact if self.largest_share is None else Approximated(event=exact, distance=self.distance)

    @property
    def sum_bits(self) -> int:
        """Sums are revealed modulo this power of two."""
        return self.modulus_bits

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """The sums themselves are what S reveals."""
        return sums

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        sent = self.lattice.encode(clipped, noise) + self.law.draw(len(clipped), self.support, noise)
        if self.largest_share is not None:
            return self.message.or_centre(sent)
        half = 1 << self.modulus_bits - 1  # the residue nearest to zero
        return ((sent + half) & (2 * half - 1)) - half

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """The sum modulo the power of two, and nothing else."""
        # Two's complement wraps modulo 2^64, of which the modulus is a divisor.
        total: IntArray = payloads.sum(axis=0, dtype=np.int64) & ((1 << self.modulus_bits) - 1)
        return total

    def batch_shape(self, reports: int) -> tuple[int, ...]:  # noqa: ARG002
        """One sum per coordinate."""
        return self.message.shape

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        low = -self.largest_noise
        total = (batch - low) % (1 << self.modulus_bits) + low
        return self.lattice.decode_mean(total, reports)

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        return self.lattice.decode_mean(total + self.law.draw_total(reports, self.support, noise), reports)

    @property
    def message_size(self) -> int:
        """One number modulo 2^`modulus_bits` for each action."""
        return self.support * self.modulus_bits
