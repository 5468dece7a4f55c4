"""Honest mechanisms pass, planted faults are detected. Each audit has a false-alarm rate of at most 10⁻⁶."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import FloatingPointNoise, InvalidValue
from dpbandits.privacy import (
    AuditResult,
    Mechanism,
    NoiseSource,
    PrivacyRequest,
    SecureNoise,
    SimulatedNoise,
    audit,
    calibrate,
)
from dpbandits.privacy._lattice import Lattice
from dpbandits.privacy.accounting import Binomial, GaussianEvent, IntegerSum
from dpbandits.privacy.auditing._evidence import AuditEvidence, lower_limit, upper_limit
from dpbandits.privacy.auditing._game import Reveals, reveal
from dpbandits.privacy.auditing._likelihood_ratios import IntegerRatio, Scorer
from dpbandits.privacy.trust import (
    CentralGaussian,
    CentralLattice,
    LocalGaussian,
    LocalLattice,
    NoPrivacy,
    ServerNoise,
    ShuffledBits,
    SummedShares,
)
from tests.privacy.noises import CLIENT_NOISES, NOISES, PURE_NOISES

ALL = [(trust, noise) for trust, noises in NOISES.items() for noise in noises]


def simulated(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def calibrated(
    trust: str,
    noise: str,
    epsilon: float,
    *,
    coordinates: int = 2,
    cohort: int = 8,
    bound: float = 1.0,
    shape: str = "box",
) -> tuple[Mechanism, float]:
    delta = 0.0 if noise in PURE_NOISES else 1e-3
    request = PrivacyRequest(trust=trust, epsilon=epsilon, delta=delta, noise=noise)
    return calibrate(request, coordinates=coordinates, cohort=cohort, bound=bound, shape=shape), delta


def caught(result: AuditResult) -> bool:
    """The claim is refuted, and the reported point is one that the claim excludes."""
    found = result.violation
    assert result.violated == (found is not None)
    assert found is None or found.delta_lower_bound > found.delta
    assert result.violated or result.epsilon_lower_bound <= result.claimed.epsilon
    return result.violated


# Honest noise


@pytest.mark.parametrize(("trust", "noise"), ALL)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_honest_noise_stands(trust: str, noise: str, epsilon: float) -> None:
    mechanism, delta = calibrated(trust, noise, epsilon, bound=2.5)
    result = audit(mechanism, simulated(), epsilon=epsilon, delta=delta, samples=2000)
    assert not caught(result)
    assert result.epsilon_lower_bound <= epsilon


@pytest.mark.parametrize(("trust", "noise"), [pair for pair in ALL if pair[1] != "gaussian"])
def test_the_real_noise_stands(trust: str, noise: str) -> None:
    mechanism, delta = calibrated(trust, noise, 3.0, coordinates=1, cohort=2)
    assert not caught(audit(mechanism, SecureNoise(), epsilon=3, delta=delta, samples=1000))


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_in_a_ball_honest_noise_stands_and_half_of_it_is_caught(trust: str, epsilon: float) -> None:
    mechanism, delta = calibrated(trust, "discrete-gaussian", epsilon, coordinates=4, shape="ball")
    assert not caught(audit(mechanism, simulated(), epsilon=epsilon, delta=delta, samples=2000))
    halved = HalvedNoise()
    assert caught(audit(mechanism, halved, epsilon=epsilon, delta=delta, samples=20_000))


def test_the_noise_of_the_ball_stands_and_half_of_it_is_caught() -> None:
    mechanism, delta = calibrated("central", "ball-norm", 2.0, coordinates=3, shape="ball", cohort=4)
    assert not caught(audit(mechanism, simulated(), epsilon=2, delta=delta, samples=3000))
    assert caught(audit(mechanism, HalvedNoise(), epsilon=2, delta=delta, samples=3000))


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize("shape", ["box", "ball"])
def test_a_fifth_less_noise_is_caught_in_a_ball_as_in_a_box(trust: str, shape: str) -> None:
    """Use the default number of plays, which does not refute the unchanged mechanism."""
    request = PrivacyRequest(trust=trust, epsilon=4, delta=1e-6, noise="discrete-gaussian")
    mechanism = calibrate(request, coordinates=4, cohort=8, bound=1, shape=shape)
    assert not caught(audit(mechanism, simulated(1), epsilon=4, delta=1e-6))
    less = replace(mechanism, scale=0.8 * mechanism.scale)  # type: ignore[type-var]
    result = audit(
        mechanism,
        simulated(1),
        epsilon=4,
        delta=1e-6,
        reveals=lambda _, averages, noise: reveal(less, averages, noise),
    )
    assert caught(result)
    # At ε = 0 the curve is the total-variation distance between the two worlds.
    assert result.violation is not None
    assert result.violation.epsilon == 0
    assert result.violation.excess > 0.005


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_clipping_to_a_box_where_a_ball_is_claimed_is_caught(trust: str) -> None:
    mechanism, delta = calibrated(trust, "discrete-gaussian", 1.0, coordinates=9, shape="ball")
    boxed = replace(mechanism, shape="box")  # type: ignore[type-var]
    result = audit(
        mechanism,
        simulated(),
        epsilon=1.0,
        delta=delta,
        samples=4000,
        reveals=lambda _, averages, noise: reveal(boxed, averages, noise),
    )
    assert caught(result)


def test_bits_as_the_paper_encodes_them_stand() -> None:
    mechanism = ShuffledBits(
        coordinates=3,
        cohort=6,
        bound=1.0,
        reach=math.sqrt(3),
        levels=5,
        noise_bits=20,
        noise_probability=0.3,
        least_reports=4,
    )
    result = audit(mechanism, simulated(), epsilon=1.0)
    assert not caught(result)
    assert result.claimed.delta == mechanism.event.delta(1.0)


@pytest.mark.parametrize(
    ("trust", "noise"),
    [("central", "k-norm"), ("local", "laplace"), ("local", "k-norm")],
)
def test_the_bound_is_not_vacuous(trust: str, noise: str) -> None:
    mechanism, delta = calibrated(trust, noise, 1.0, coordinates=1)
    result = audit(mechanism, simulated(), epsilon=1, delta=delta)
    assert 0.5 <= result.epsilon_lower_bound <= 1


def test_no_privacy_hides_nothing() -> None:
    mechanism = NoPrivacy(coordinates=2, cohort=3, bound=1.0)
    result = audit(mechanism, simulated(), epsilon=3, delta=0.1, samples=2000)
    assert caught(result)
    assert result.epsilon_lower_bound > 3


# Noise halved


class HalvedNoise:
    """Every standard deviation is half of the requested one."""

    simulated = True

    def __init__(self) -> None:
        self._honest = simulated()

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        return self._honest.bernoulli(probabilities)

    def below(self, bound: int, shape: tuple[int, ...]) -> IntArray:
        return self._honest.below(bound, shape)

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        fewer = trials // 4
        return self._honest.binomial(fewer, probability, shape) + round((trials - fewer) * probability)

    def poisson(self, mean: float, shape: tuple[int, ...]) -> IntArray:
        return self._honest.poisson(mean / 4, shape)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        return self._honest.discrete_gaussian(scale / 2, shape)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        return self._honest.discrete_laplace(scale / 2, shape)

    def polya(self, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        return self._honest.polya(parts, scale / 2, shape)

    def box_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        return self._honest.box_norm(scale / 2, shape)

    def ball_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        return self._honest.ball_norm(scale / 2, shape)

    def permute_rows(self, bits: np.ndarray) -> np.ndarray:
        return self._honest.permute_rows(bits)


# Lists and bands add no noise; tests/privacy/trust plants errors in their weights.
ADDED = [pair for pair in ALL if pair[1] not in ("gaussian", "list")]


@pytest.mark.parametrize(("trust", "noise"), ADDED)
def test_halved_noise_is_caught(trust: str, noise: str) -> None:
    mechanism, delta = calibrated(trust, noise, 2.0, coordinates=1, cohort=4)
    assert caught(audit(mechanism, HalvedNoise(), epsilon=2, delta=delta, samples=3000))


@pytest.mark.parametrize("trust", ["central", "local"])
def test_halved_floating_point_noise_is_caught(trust: str) -> None:
    mechanism, delta = calibrated(trust, "gaussian", 2.0)
    assert isinstance(mechanism, CentralGaussian | LocalGaussian)
    halved = replace(mechanism, noise_ratio=mechanism.noise_ratio / 2)

    def reveals(_claimed: Mechanism, averages: FloatArray, noise: NoiseSource) -> np.ndarray:
        return reveal(halved, averages, noise)

    assert caught(audit(mechanism, simulated(), epsilon=2, delta=delta, samples=3000, reveals=reveals))


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_halved_noise_is_caught_with_the_defaults(trust: str) -> None:
    noise = "discrete-gaussian" if trust == "local" else None
    mechanism = calibrate(PrivacyRequest(trust=trust, noise=noise), coordinates=4, cohort=8, bound=1)
    assert caught(audit(mechanism, HalvedNoise(), epsilon=1, delta=1e-6))


@pytest.mark.parametrize(("trust", "noise"), [("central", "discrete-gaussian"), ("shuffle", "binomial")])
def test_halved_noise_at_epsilon_10_is_caught_on_the_curve_only(trust: str, noise: str) -> None:
    request = PrivacyRequest(trust=trust, epsilon=10, delta=0.25, noise=noise)
    mechanism = calibrate(request, coordinates=4, cohort=8, bound=1)
    result = audit(mechanism, HalvedNoise(), epsilon=10, delta=0.25)
    assert caught(result)
    assert result.epsilon_lower_bound < 10
    assert result.violation is not None
    assert result.violation.epsilon < 10


# Noise left out


def without_noise_of_the_second_client(
    mechanism: Mechanism, averages: FloatArray, noise: NoiseSource
) -> np.ndarray:
    plays, reports, coordinates = averages.shape
    sent = mechanism.randomize(averages.reshape(-1, coordinates), noise)
    sent = sent.reshape(plays, reports, *sent.shape[1:])
    encoded = mechanism.lattice.encode(averages[:, 1], noise)
    bits = isinstance(mechanism, ShuffledBits)
    sent[:, 1] = np.arange(mechanism.width) < encoded[..., None] if bits else encoded
    return np.stack([mechanism.shuffle(one, noise) for one in sent])


@pytest.mark.parametrize("noise", CLIENT_NOISES)
def test_one_clients_noise_left_out_is_caught(noise: str) -> None:
    epsilon = 3.0 if noise in PURE_NOISES else 6.0
    mechanism, delta = calibrated("shuffle", noise, epsilon, coordinates=1, cohort=2)
    reveals: Reveals = without_noise_of_the_second_client
    assert caught(audit(mechanism, simulated(), epsilon=epsilon, delta=delta, samples=4000, reveals=reveals))


# Clipping removed


class UnclippedLattice(Lattice):
    def position(self, value: FloatArray) -> FloatArray:
        return (value + self.reach) * (self.levels / (2 * self.reach))

    def encode(self, clipped: FloatArray, noise: NoiseSource) -> IntArray:
        scaled = self.position(clipped)
        return np.floor(scaled).astype(np.int64) + noise.bernoulli(scaled - np.floor(scaled))


class Unclipped:
    """A mixin that comes before a mechanism."""

    def clip(self, averages: FloatArray) -> FloatArray:
        return averages

    @cached_property
    def lattice(self) -> Lattice:
        return UnclippedLattice(reach=getattr(self, "reach", self.bound), levels=self.levels)


@dataclass(frozen=True, kw_only=True)
class UnclippedCentralGaussian(Unclipped, CentralGaussian): ...


@dataclass(frozen=True, kw_only=True)
class UnclippedLocalGaussian(Unclipped, LocalGaussian): ...


@dataclass(frozen=True, kw_only=True)
class UnclippedCentral(Unclipped, CentralLattice): ...


@dataclass(frozen=True, kw_only=True)
class UnclippedLocal(Unclipped, LocalLattice): ...


@dataclass(frozen=True, kw_only=True)
class UnclippedBits(Unclipped, ShuffledBits): ...


@dataclass(frozen=True, kw_only=True)
class UnclippedShares(Unclipped, SummedShares): ...


@dataclass(frozen=True, kw_only=True)
class UnclippedServers(Unclipped, ServerNoise): ...


FAULTY = {
    "central-gaussian": UnclippedCentralGaussian,
    "local-gaussian": UnclippedLocalGaussian,
    "central-lattice": UnclippedCentral,
    "local-lattice": UnclippedLocal,
    "shuffled-bits": UnclippedBits,
    "summed-shares": UnclippedShares,
    "server-noise": UnclippedServers,
}


# A list has equally many near directions for every vector, so a missing clip costs accuracy, not privacy.
@pytest.mark.parametrize(("trust", "noise"), [pair for pair in ALL if pair[1] != "list"])
def test_a_missing_clip_is_caught(trust: str, noise: str) -> None:
    mechanism, delta = calibrated(trust, noise, 1.0)
    faulty = FAULTY[mechanism.kind](**asdict(mechanism))
    assert caught(audit(faulty, simulated(), epsilon=1, delta=delta, samples=2000))


# Shuffling skipped


class UnshuffledBits(ShuffledBits):
    def shuffle(self, payloads: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return payloads.transpose(1, 0, 2).reshape(self.coordinates, -1)


class UnsummedShares(SummedShares):
    def shuffle(self, payloads: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return payloads


class NoiselessServer(ServerNoise):
    def shuffle(self, payloads: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return payloads.sum(axis=0)


SKIPPED = {"binomial": UnshuffledBits, "server-gaussian": NoiselessServer}


@pytest.mark.parametrize("noise", NOISES["shuffle"])
def test_a_skipped_shuffle_is_caught(noise: str) -> None:
    mechanism, delta = calibrated("shuffle", noise, 2.0)
    faulty = SKIPPED.get(noise, UnsummedShares)(**asdict(mechanism))
    assert caught(audit(faulty, simulated(), epsilon=2, delta=delta, samples=2000))


def test_a_server_that_sees_one_clients_bits_is_caught() -> None:
    mechanism, delta = calibrated("shuffle", "binomial", 2.0)

    def one_clients_bits(mechanism: Mechanism, averages: FloatArray, noise: NoiseSource) -> np.ndarray:
        return mechanism.randomize(averages[:, 0], noise)

    assert caught(audit(mechanism, simulated(), epsilon=2, delta=delta, reveals=one_clients_bits))


# The paper's constants


def test_the_papers_gaussian_is_not_10_025_private() -> None:
    request = PrivacyRequest(trust="local", epsilon=10, delta=0.25, preset="paper")
    mechanism = calibrate(request, coordinates=1, cohort=1, bound=1)
    # Even without a false alarm, e^10 times its upper limit must be below 1 − δ: 10⁵ plays cannot show that.
    few = audit(mechanism, simulated(), epsilon=10, delta=0.25, samples=100_000)
    assert not caught(few)
    many = audit(mechanism, simulated(), epsilon=10, delta=0.25, samples=2_000_000)
    assert caught(many)
    assert many.epsilon_lower_bound > 10
    assert many.violation is not None
    assert (many.violation.epsilon, many.violation.delta) == (10, 0.25)
    assert 0.25 < many.violation.delta_lower_bound < mechanism.event.delta(10)


# The instruments


def test_limits_are_clopper_and_pearsons() -> None:
    hits, plays, tail = np.array([0, 3, 100]), 100, 1e-4
    low, high = lower_limit(hits, plays, tail), upper_limit(hits, plays, tail)
    assert (low[0], high[-1]) == (0, 1)
    assert binom.sf(hits[1:] - 1, plays, low[1:]) == pytest.approx(tail)
    assert binom.cdf(hits[:-1], plays, high[:-1]) == pytest.approx(tail)


def test_limits_of_evidence_err_no_more_often_than_stated() -> None:
    """At a tail of 1 %, at most 2 % of 1000 audits may exceed the true δ; P(more than 45) is 10⁻⁶."""
    rng, ratio, epsilon = np.random.default_rng(5), 1.0, 0.5
    true = GaussianEvent(noise_ratio=ratio).delta(epsilon)
    wrong = 0
    for _ in range(1000):
        evidence = AuditEvidence.of(rng.normal(1, ratio, 400), rng.normal(0, ratio, 400), 0.01)
        wrong += evidence.about_delta(epsilon).delta(epsilon) > true
    assert wrong <= 45


def test_what_neither_world_can_bring_about_is_infinite() -> None:
    ratio = IntegerRatio(IntegerSum(noise=Binomial(bits=6), coordinates=2, shift=2))
    seen = np.array([[-1e9, 4], [4, 4], [1e9, 4], [0, 4], [8, 4], [-5, 1e9], [0, 8]])
    assert ratio(seen).tolist() == [-np.inf, 0, np.inf, -np.inf, np.inf, np.inf, np.inf]


def test_an_unknown_mechanism_is_scored_by_its_sum() -> None:
    views = np.array([[[1.0, 2.0]], [[np.nan, 0.0]]])
    assert [score.tolist() for score in Scorer(NoPrivacy(coordinates=2, cohort=1, bound=1.0), 1)(views)] == [
        [3.0, -np.inf]
    ]


def test_bits_and_their_sums_have_the_same_score() -> None:
    mechanism, _ = calibrated("shuffle", "binomial", 1.0)
    scorer, bits = Scorer(mechanism, 8), reveal(mechanism, np.zeros((50, 8, 2)), simulated())
    assert [score.tolist() for score in scorer(bits)[:2]] == [
        score.tolist() for score in scorer(bits.sum(axis=2, dtype=np.int64))
    ]


def test_progress_counts_every_play() -> None:
    mechanism, delta = calibrated("central", "laplace", 1.0)
    seen: list[int] = []
    result = audit(mechanism, simulated(), epsilon=1, delta=delta, samples=5001, progress=seen.append)
    assert sum(seen) == 2 * result.samples == 10_002


def test_floating_point_noise_needs_a_simulation() -> None:
    mechanism, delta = calibrated("local", "gaussian", 1.0)
    with pytest.raises(FloatingPointNoise):
        audit(mechanism, SecureNoise(), epsilon=1, delta=delta)


@pytest.mark.parametrize("wrong", [{"samples": 99}, {"confidence": 1.0}, {"epsilon": -1.0}, {"delta": 1.0}])
def test_bad_arguments(wrong: dict[str, float]) -> None:
    mechanism, _ = calibrated("local", "laplace", 1.0)
    with pytest.raises(InvalidValue):
        audit(mechanism, simulated(), **{"epsilon": 1.0, "delta": 0.0, **wrong})
