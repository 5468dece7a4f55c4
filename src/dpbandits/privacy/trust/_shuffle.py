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
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import between, probability, whole
from dpbandits.errors import InvalidValue, OutsideTheorem
from dpbandits.privacy import accounting
from dpbandits.privacy._calibration import COARSE, calibrate, levels_and_scale, may_use_ball
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._lattice import MOST_LEVELS, Lattice
from dpbandits.privacy._limits import MOST_NOISE_BITS, MOST_SUM, checked_cohort
from dpbandits.privacy._mechanism import Mechanism, Message, Payload
from dpbandits.privacy._noisy_lattice import NoisyLattice, chance_replaced, least_largest, sent_message
from dpbandits.privacy._trust_model import TrustModel
from dpbandits.privacy.noise import LAWS, NoiseLaw, NoiseSource

_MOST_SHARE = 2**50
_NEARLY_ONE = 1 - 2.0**-53
# Reports that clients replace may add this share to δ; the noise is calibrated to what is left.
_REPLACED = 0.01
# Noise for one value per client suffices for the least number of reports cut to this many leading binary
# digits, so that eight calibrations serve all sizes between two powers of two. It has at most an eighth more
# variance than needed.
_DIGITS = 4


def noisy_reports(minimum_reports: int, silent_share: float) -> int:
    """How many of the fewest clients that may answer add noise for certain."""
    return math.floor(minimum_reports * (1 - silent_share) + 1e-9)


def _check_reports(cohort: int, least: int, silent_share: float) -> None:
    whole(1, cohort, minimum_reports=least)
    between(0, 0.99, silent_share=silent_share)
    if noisy_reports(least, silent_share) < 1:
        raise InvalidValue("silent_share", silent_share, "one that leaves at least one noisy report")


@dataclass(frozen=True, kw_only=True)
class ShuffledBits(Mechanism):
    """R encodes to bits, S permutes each coordinate's bits, A sums and shifts back."""

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
        return Message(kind="bits", shape=(self.coordinates, self.width), low=0, high=1)

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
        by_coordinate = payloads.transpose(1, 0, 2).reshape(self.coordinates, -1)
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
        added = noise.binomial(reports * self.noise_bits, self.noise_probability, (self.coordinates,))
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
        return self.coordinates * self.width

    @property
    def event(self) -> accounting.Event:
        """The sum's bits of the least number of noisy reports; the rest is post-processing."""
        bits = self.noisy_reports * self.noise_bits
        low, high = (float(self.lattice.position(np.array(end))) for end in (-self.bound, self.bound))
        return _binomial_event(bits, self.noise_probability, self.coordinates, low, high)


@lru_cache(maxsize=256)
def _binomial_event(bits: int, chance: float, coordinates: int, low: float, high: float) -> accounting.Event:
    ends = accounting.Ends.rounded(low, high)
    noise = accounting.Binomial(bits=bits, chance=chance)
    return accounting.IntegerSum(noise=noise, coordinates=coordinates, ends=ends)


@lru_cache(maxsize=1024)
def _largest_noise(law: NoiseLaw, coordinates: int, shares: int) -> int:
    """Of so many shares; asked for powers of two only, as many cohorts have nearly the same size."""
    tail = 1e-12 / (2 * coordinates)
    return math.ceil(float(law.radius(np.ones((1, 1)), np.zeros(1), tail, shares)[0]))


@dataclass(frozen=True, kw_only=True)
class SummedShares(NoisyLattice):
    """R encodes and adds a share of noise, S reveals the sum modulo 2^`modulus_bits`, A decodes.

    `largest_share` is the largest noise, in levels, that a client sends on a coordinate; None for Pólya.
    """

    coordinates: int
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
    laws = ("discrete-gaussian", "skellam", "polya")

    @property
    def rests_on(self) -> str:
        """Sums can also be added without a shuffler that sees any report."""
        return f"{super().rests_on}; or each report is split among two parties that do not collude"

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
        return _largest_noise(self.law, self.coordinates, 1 << self.cohort.bit_length())

    @cached_property
    def modulus_bits(self) -> int:
        """Wide enough for the sum; a sum that wraps around harms the estimate, never privacy."""
        return (self.cohort * self.levels + 2 * self.largest_noise + 1).bit_length()

    @cached_property
    def message(self) -> Message:
        """Encoded values with no more noise than `largest_share`; without one, all residues."""
        if self.largest_share is not None:
            return sent_message(self.levels, self.coordinates, self.shape, self.law, self.largest_share)
        half = 1 << whole(1, 62, modulus_bits=self.modulus_bits) - 1
        return Message(kind="integers", shape=(self.coordinates,), low=-half, high=half - 1)

    @property
    def distance(self) -> float:
        """The chance, at most, that any report of a cohort is replaced: what the account must allow for."""
        if self.largest_share is None:
            return 0.0
        chance = chance_replaced(self.law, self.coordinates, self.shape, self.largest_share)
        return min(self.cohort * chance * (1 + 1e-9), _NEARLY_ONE)

    @property
    def event(self) -> accounting.Event:
        """The noisy sum's, for a mechanism that differs from it where a report is replaced."""
        exact = super().event
        if self.largest_share is None:
            return exact
        return accounting.Approximated(event=exact, distance=self.distance)

    @property
    def sum_bits(self) -> int:
        """Sums are revealed modulo this power of two."""
        return self.modulus_bits

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """The sums themselves are what S reveals."""
        return sums

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        sent = self.lattice.encode(clipped, noise) + self.law.draw(len(clipped), self.coordinates, noise)
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
        return self.lattice.decode_mean(
            total + self.law.draw_total(reports, self.coordinates, noise), reports
        )

    @property
    def message_size(self) -> int:
        """One number modulo 2^`modulus_bits` for each action."""
        return self.coordinates * self.modulus_bits


def _calibrate(
    request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, shape: str, least: int
) -> Mechanism:
    if request.mechanism_noise != "binomial":
        return _summed(request, coordinates, cohort, bound, least, shape)
    if request.preset == "paper":
        return algorithm_2(request, coordinates=coordinates, cohort=cohort, bound=bound, least=least)
    return _bits(request, coordinates, cohort, bound, least)


def _summed(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int, shape: str
) -> Mechanism:
    shares = max(1, noisy_reports(least, request.silent_share))
    limited = request.mechanism_noise != "polya"
    exact = replace(request, delta=(1 - _REPLACED) * request.delta) if limited else request
    levels, scale = levels_and_scale(exact, coordinates, cohort, shape=shape, shares=shares, rounding=COARSE)
    return SummedShares(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        levels=levels,
        noise=request.mechanism_noise,
        scale=scale,
        least_reports=least,
        silent_share=request.silent_share,
        largest_share=_largest_share(request, coordinates, cohort, scale, shape) if limited else None,
        shape=shape,
    )


def _largest_share(request: PrivacyRequest, coordinates: int, cohort: int, scale: float, shape: str) -> int:
    """The least for which replaced reports add a hundredth of δ at most: (1 + e^ε)·cohort·chance."""
    # Cohorts of nearly the same size have the same; the last factor covers rounding.
    allowed = _REPLACED * request.delta / (1 + math.exp(min(request.epsilon, 600.0))) * (1 - 1e-6)
    law = LAWS[request.mechanism_noise](scale=scale)
    return least_largest(law, coordinates, shape, allowed / (1 << cohort.bit_length()))


def _bits(request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int) -> Mechanism:
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
    """The paper's Algorithm 2 (ε̂, g, b, p as printed), with g rounded up to an integer."""
    epsilon, delta = request.epsilon, request.delta
    if epsilon >= 15:
        raise OutsideTheorem(f"epsilon: got {epsilon:g}, expected < 15 (the paper's shuffle theorem)")
    if delta >= 0.5:
        raise OutsideTheorem(f"delta: got {delta:g}, expected < 0.5 (the paper's shuffle theorem)")
    scaled_epsilon = epsilon / (18 * math.sqrt(math.log(2 / delta)))  # ε̂
    log_term = math.log(4 * coordinates / delta)
    first = scaled_epsilon * math.sqrt(cohort) / (6 * math.sqrt(5 * log_term))
    levels = math.ceil(max(first, math.sqrt(coordinates), 10))
    ones = 90 * levels**2 * log_term / (scaled_epsilon**2 * cohort)
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


def _calibrate_one_value(request: PrivacyRequest, *, cohort: int, bound: float) -> Mechanism:
    least = request.minimum_reports(cohort)
    if request.preset == "paper" and request.mechanism_noise == "binomial":
        return algorithm_4(request, cohort=cohort, bound=bound, least=least)
    # With more reports than these there is more noise, which cannot hurt.
    return calibrate(
        request,
        coordinates=1,
        cohort=cohort,
        bound=bound,
        shape="ball" if may_use_ball(request) else "box",
        minimum_reports=_rounded_down(least),
    )


def _rounded_down(count: int) -> int:
    spare = max(0, count.bit_length() - _DIGITS)
    return count >> spare << spare


def algorithm_4(request: PrivacyRequest, *, cohort: int, bound: float, least: int) -> ShuffledBits:
    """The paper's scalar shuffle sum (g, b, p as printed), with g rounded up to an integer.

    Its lemma gives ε̂(2/g + 1) with ε = 2ε̂, which is at most ε from g = 2 on; the printed g ≥ 2B√n
    allows that.
    """
    epsilon, delta = request.epsilon, request.delta
    if epsilon >= 30:
        raise OutsideTheorem(f"epsilon: got {epsilon:g}, expected < 30 (the paper's scalar shuffle theorem)")
    if delta >= 0.5:
        raise OutsideTheorem(f"delta: got {delta:g}, expected < 0.5 (the paper's scalar shuffle theorem)")
    levels = max(2, math.ceil(2 * bound * math.sqrt(cohort) * (1 - 1e-12)))
    ones = 90 * levels**2 * math.log(2 / delta) / ((epsilon / 2) ** 2 * cohort)
    noise_bits = math.ceil(2 * ones)
    return ShuffledBits(
        coordinates=1,
        cohort=cohort,
        bound=bound,
        reach=bound,
        levels=levels,
        noise_bits=noise_bits,
        noise_probability=ones / noise_bits,
        least_reports=least,
        silent_share=request.silent_share,
    )


def _typical_error(request: PrivacyRequest, on_sum: float, clients: int) -> float:
    return on_sum / clients / math.sqrt((1 - request.silent_share) * request.minimum_share)


SHUFFLE = TrustModel(
    name="shuffle",
    rests_on="the shuffler reveals nothing but the sum of all reports and does not collude with the server",
    noise_by="cohort",
    view="batch",
    mechanisms=(ShuffledBits, SummedShares),
    calibrate=_calibrate,
    noises=("binomial", "skellam", "discrete-gaussian", "polya"),
    pure_noises=("polya",),
    defaults={
        ("tight", False): "binomial",
        ("tight", True): "polya",
        ("paper", False): "binomial",
    },
    gaussian_noise="discrete-gaussian",
    laplace_noise="polya",
    shuffler=True,
    calibrate_one_value=_calibrate_one_value,
    typical_error=_typical_error,
)
