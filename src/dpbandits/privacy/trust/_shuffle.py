"""The shuffle trust model: each client adds a share of the noise, and the server learns only the sum.

`ShuffledBits` is the paper's Algorithm 2. Each coordinate in [−reach, reach] is rounded at random to one of
0 … levels, and Bin(noise_bits, noise_probability) is added. The result is sent in unary, as
levels + noise_bits bits. The third party permutes the bits of each coordinate; the permuted bits and their
sum carry the same information. The paper takes reach = Δ₂ = B√s for every coordinate. reach = B is enough,
because each coordinate lies in [−B, B].

In `SummedShares` the third party adds the clients' integers modulo a power of two, and reveals the sum.
A report has one signed integer per coordinate. If a discrete Gaussian or Skellam share is larger than
`largest_share` in absolute value, the client sends the centre of the grid instead of the report. The
accountant adds the probability of this to δ. Without such a limit one client could send any number, and so
determine the sum. Pólya shares have no limit, because a limit would make δ > 0 (docs/privacy.md).

In both mechanisms the noise suffices if only `minimum_reports` clients report and `silent_share` of them add
no noise.
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
# The share of δ that is reserved for replaced reports. The noise is calibrated to the rest of δ.
_REPLACED = 0.01
# In per-action cohorts the noise is calibrated to the least number of reports, rounded down to this many
# leading binary digits. So eight calibrations serve all sizes between two powers of two, and the noise has at
# most an eighth more variance than needed.
_DIGITS = 4


def noisy_reports(minimum_reports: int, silent_share: float) -> int:
    """Return how many of the fewest reports in a release are certain to contain noise.

    Example: `noisy_reports(100, 0.2)` is 80.

    Args:
        minimum_reports: The fewest reports in a release.
        silent_share: The share of the reporting clients that may add no noise.

    Returns:
        minimum_reports·(1 − silent_share), rounded down.
    """
    return math.floor(minimum_reports * (1 - silent_share) + 1e-9)


def _check_reports(cohort: int, least: int, silent_share: float) -> None:
    whole(1, cohort, minimum_reports=least)
    between(0, 0.99, silent_share=silent_share)
    if noisy_reports(least, silent_share) < 1:
        raise InvalidValue("silent_share", silent_share, "a share that leaves at least one report with noise")


@dataclass(frozen=True, kw_only=True)
class ShuffledBits(Mechanism):
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
        """The number of clients whose random bits are accounted for."""
        return noisy_reports(self.least_reports, self.silent_share)

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
        """Return a bound from Hoeffding's lemma: each of n(1 + b) coins is ½-sub-Gaussian for any input."""
        return self.lattice.step / reports * math.sqrt(reports * (1 + self.noise_bits)) / 2

    @property
    def message_size(self) -> int:
        """`width` bits per coordinate."""
        return self.coordinates * self.width

    @property
    def event(self) -> accounting.Event:
        """The cost of the sum with the noise of `noisy_reports` clients. More noise is post-processing."""
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
    """Return a bound that the sum of `shares` shares of noise exceeds with probability at most 10⁻¹².

    Callers pass powers of two, so that cohorts of similar size share a cached result.
    """
    tail = 1e-12 / (2 * coordinates)
    return math.ceil(float(law.radius(np.ones((1, 1)), np.zeros(1), tail, shares)[0]))


@dataclass(frozen=True, kw_only=True)
class SummedShares(NoisyLattice):
    """R encodes and adds a share of noise, S reveals the sum modulo 2^`modulus_bits`, and A decodes it.

    Attributes:
        levels: The number of levels of the grid.
        noise: "discrete-gaussian", "skellam" or "polya".
        scale: The scale of one client's share of the noise, in levels.
        least_reports: The fewest reports in a release.
        silent_share: The share of the reporting clients that may add no noise.
        largest_share: The largest noise, in levels, that a client sends in a coordinate; None for Pólya.
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
        """The assumptions. Sums can also be computed by two parties, neither of which sees any report."""
        return f"{super().rests_on}; or each report is split among two parties that do not collude"

    def __post_init__(self) -> None:
        checked_cohort(self.cohort)
        _check_reports(self.cohort, self.least_reports, self.silent_share)
        if self.noise != "polya":
            whole(1, _MOST_SHARE, largest_share=self.largest_share)  # type: ignore[arg-type]
        elif self.largest_share is not None:
            raise InvalidValue("largest_share", self.largest_share, "none with polya: δ would not be 0")
        super().__post_init__()

    @property
    def minimum_reports(self) -> int:
        """What the noise is calibrated to."""
        return self.least_reports

    @property
    def noisy_reports(self) -> int:
        """The number of clients whose shares are accounted for."""
        return noisy_reports(self.least_reports, self.silent_share)

    @property
    def noise_shares(self) -> int:
        """The least number of shares in the sum: `noisy_reports`."""
        return self.noisy_reports

    @cached_property
    def largest_noise(self) -> int:
        """The largest absolute value of the noise in the sum.

        It is a bound for any accepted reports. Pólya shares are unbounded: for honest clients the bound holds
        except with probability below 10⁻¹².
        """
        if self.largest_share is not None:
            return self.cohort * self.largest_share
        return _largest_noise(self.law, self.coordinates, 1 << self.cohort.bit_length())

    @cached_property
    def modulus_bits(self) -> int:
        """Enough bits for the sum. A sum that wraps around would harm the estimate, but not privacy."""
        return (self.cohort * self.levels + 2 * self.largest_noise + 1).bit_length()

    @cached_property
    def message(self) -> Message:
        """Encoded values with noise of at most `largest_share`; for Pólya noise, all residues."""
        if self.largest_share is not None:
            return sent_message(self.levels, self.coordinates, self.shape, self.law, self.largest_share)
        half = 1 << whole(1, 62, modulus_bits=self.modulus_bits) - 1
        return Message(kind="integers", shape=(self.coordinates,), low=-half, high=half - 1)

    @property
    def distance(self) -> float:
        """Upper bound on the probability that any report of a cohort is replaced. The accountant needs it."""
        if self.largest_share is None:
            return 0.0
        chance = chance_replaced(self.law, self.coordinates, self.shape, self.largest_share)
        return min(self.cohort * chance * (1 + 1e-9), _NEARLY_ONE)

    @property
    def event(self) -> accounting.Event:
        """The cost of the noisy sum, plus the probability that a report is replaced."""
        exact = super().event
        if self.largest_share is None:
            return exact
        return accounting.Approximated(event=exact, distance=self.distance)

    @property
    def sum_bits(self) -> int:
        """`modulus_bits`: sums are revealed modulo this power of two."""
        return self.modulus_bits

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """Return the sums: they are what S reveals."""
        return sums

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        sent = self.lattice.encode(clipped, noise) + self.law.draw(len(clipped), self.coordinates, noise)
        if self.largest_share is not None:
            return self.message.or_centre(sent)
        half = 1 << self.modulus_bits - 1  # take the residue that is nearest to zero
        return ((sent + half) & (2 * half - 1)) - half

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """Return only the sum modulo 2^`modulus_bits`."""
        # int64 wraps modulo 2^64, which is a multiple of the modulus, so an overflow does no harm.
        total: IntArray = payloads.sum(axis=0, dtype=np.int64) & ((1 << self.modulus_bits) - 1)
        return total

    def batch_shape(self, reports: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the shape of the sums: one per coordinate."""
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
        """One number modulo 2^`modulus_bits` per coordinate."""
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
    """Return the least limit for which replaced reports add at most a hundredth of δ.

    They add (1 + e^ε)·cohort·(the probability that one report is replaced).
    """
    # The cohort is rounded up to a power of two, so that cohorts of similar size get the same limit and share
    # cached results. The factor 1 − 10⁻⁶ covers floating-point rounding.
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
    """Return the mechanism of the paper's Algorithm 2 (ε̂, g, b, p as printed), with g rounded up.

    Raises:
        OutsideTheorem: If ε ≥ 15 or δ ≥ 0.5, for which the paper's theorem does not hold.
    """
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
    # Noise that suffices for fewer reports also suffices for more of them.
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
    """Return the mechanism of the paper's scalar shuffle sum (g, b, p as printed), with g rounded up.

    The paper's lemma gives ε̂(2/g + 1) with ε = 2ε̂, which is at most ε if g ≥ 2. The printed condition
    g ≥ 2B√n permits this choice.

    Raises:
        OutsideTheorem: If ε ≥ 30 or δ ≥ 0.5, for which the paper's theorem does not hold.
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
    rests_on="the shuffler reveals only the sum of all reports and does not collude with the server",
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
