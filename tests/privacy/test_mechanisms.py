"""The conformance suite of mechanisms, run with every registered one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from dpbandits.errors import (
    FloatingPointNoise,
    InvalidValue,
    NotAvailable,
    OutsideTheorem,
    TooFewReports,
)
from dpbandits.privacy import (
    MECHANISMS,
    Mechanism,
    PrivacyRequest,
    SecureNoise,
    SimulatedNoise,
    calibrate,
    guarantee,
)
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.privacy.trust import ShuffledBits, SummedShares
from tests.privacy.noises import CLIENT_NOISES, NOISES

from .conformance import errors, exchange, looks_like, real_path, simulated_path

COHORT, COORDINATES, BOUND = 40, 6, 1.5


def _request(trust: str, noise: str | None = None, **changes: Any) -> PrivacyRequest:
    return PrivacyRequest(**{"trust": trust, "noise": noise, "epsilon": 3.0, "delta": 1e-3, **changes})


ALL = [
    _request(trust, noise, delta=0.0 if noise in ("k-norm", "ball-norm", "polya") else 1e-3)
    for trust, noises in NOISES.items()
    for noise in noises or (None,)
]
UNDER_TEST = [(r, calibrate(r, coordinates=COORDINATES, cohort=COHORT, bound=BOUND)) for r in ALL]
UNDER_TEST += [
    (r, calibrate(r, coordinates=COORDINATES, cohort=COHORT, bound=BOUND, shape="ball"))
    for r in ALL
    if r.noise in ("discrete-gaussian", "ball-norm")
]
# The paper's encoding, with fewer bits than in Algorithm 2, so that the test is fast.
UNDER_TEST.append(
    (
        _request("shuffle", "binomial", preset="paper"),
        ShuffledBits(
            coordinates=COORDINATES,
            cohort=COHORT,
            bound=BOUND,
            reach=BOUND * COORDINATES**0.5,
            levels=11,
            noise_bits=60,
            noise_probability=0.4,
            least_reports=COHORT,
        ),
    )
)


@pytest.fixture(params=UNDER_TEST, ids=lambda c: f"{c[0].trust}-{c[0].noise}-{c[0].preset}-{c[1].shape}")
def case(request: pytest.FixtureRequest) -> tuple[PrivacyRequest, Mechanism]:
    chosen: tuple[PrivacyRequest, Mechanism] = request.param
    return chosen


@pytest.fixture
def mechanism(case: tuple[PrivacyRequest, Mechanism]) -> Mechanism:
    return case[1]


def _averages(seed: int, cohort: int = COHORT) -> Any:
    return np.random.default_rng(seed).normal(scale=1.2, size=(cohort, COORDINATES))  # some beyond the bound


def _exact_variance(mechanism: Mechanism, averages: Any) -> float:
    """The error of one coordinate of the released mean, averaged over coordinates."""
    if not isinstance(mechanism, NoisyLattice | ShuffledBits):
        return mechanism.error_deviation(COHORT) ** 2
    scaled = mechanism.lattice.position(mechanism.clip(averages))
    fraction = scaled - np.floor(scaled)
    rounding = float((fraction * (1 - fraction)).sum(axis=0).mean())
    if isinstance(mechanism, ShuffledBits):
        p = mechanism.noise_probability
        added = COHORT * mechanism.noise_bits * p * (1 - p)
    else:
        added = mechanism.shares_added(COHORT) * _law_variance(mechanism)
    return mechanism.lattice.step**2 / COHORT**2 * (rounding + added)


def _law_variance(mechanism: NoisyLattice) -> float:
    """Of one share, straight from the definition where that is a sum."""
    if mechanism.noise != "k-norm":
        return mechanism.law.variance(COORDINATES)
    radii = np.arange(20_000)
    logs = -radii / mechanism.scale + COORDINATES * np.log(2 * radii + 1)
    weights = np.exp(logs - logs.max())
    return float((weights / weights.sum()) @ (radii * (radii + 1) / 3))


def _kurtosis(mechanism: Mechanism) -> float:
    # Laplace noise has kurtosis 6. The coordinates of a K-norm vector share their radius: count them as one.
    if not isinstance(mechanism, NoisyLattice):
        return 3.0
    common = 1.0 + 2 * COORDINATES
    known = {"laplace": 6.0, "polya": 6.0, "k-norm": common, "ball-norm": common}
    return known.get(mechanism.noise, 3.0)


@pytest.mark.parametrize("path", [real_path, simulated_path])
def test_the_error_has_mean_zero_and_the_exact_variance(mechanism: Mechanism, path: Any) -> None:
    averages, kurtosis = _averages(1), _kurtosis(mechanism)
    found = errors(mechanism, averages, path(mechanism, np.random.default_rng(2)), repeats=500)
    variance = _exact_variance(mechanism, averages)
    assert looks_like(found, 0.0, variance, kurtosis)
    if mechanism.trust != "none":  # the test can fail: it rejects a wrong scale and a shift
        assert not looks_like(found, 0.0, 1.5**2 * variance, kurtosis)
        assert not looks_like(found, 0.0, 0.7**2 * variance, kurtosis)
        assert not looks_like(found, 0.2 * variance**0.5, variance, kurtosis)


def test_the_simulated_path_has_the_distribution_of_the_real_one(mechanism: Mechanism) -> None:
    averages = _averages(3)
    real = errors(mechanism, averages, real_path(mechanism, np.random.default_rng(4)), 400)[:, ::2].ravel()
    simulated = errors(mechanism, averages, simulated_path(mechanism, np.random.default_rng(5)), 400)
    simulated = simulated[:, ::2].ravel()
    if mechanism.trust == "none":
        np.testing.assert_allclose(real, simulated, atol=1e-12)
        return
    assert ks_2samp(real, simulated).pvalue > 1e-6
    assert ks_2samp(abs(real), abs(simulated)).pvalue > 1e-6
    assert ks_2samp(abs(real), abs(1.45 * simulated)).pvalue < 1e-6  # and detects another scale


def test_clients_that_report_one_by_one_or_together_are_the_same(mechanism: Mechanism) -> None:
    alone, together = (SimulatedNoise(np.random.default_rng(8)) for _ in range(2))
    averages = _averages(1)[:1]
    np.testing.assert_array_equal(
        mechanism.randomize(averages, alone), mechanism.randomize(averages, together)
    )
    noise = SimulatedNoise(np.random.default_rng(9))
    reports = np.concatenate([mechanism.randomize(row[None], noise) for row in _averages(1)])
    assert reports.shape == mechanism.randomize(_averages(1), noise).shape


def test_secure_noise_passes_through_the_same_mechanisms(mechanism: Mechanism) -> None:
    averages = _averages(3)
    if mechanism.kind in ("central-gaussian", "local-gaussian"):
        with pytest.raises(FloatingPointNoise, match="expected discrete-gaussian"):
            exchange(mechanism, averages, SecureNoise())
        return
    found = np.array([exchange(mechanism, averages, SecureNoise()) for _ in range(40)])
    found -= mechanism.clip(averages).mean(axis=0)
    deviation = _exact_variance(mechanism, averages) ** 0.5
    assert looks_like(found, 0.0, max(deviation, 0) ** 2, 2 * _kurtosis(mechanism))


def test_the_stated_deviation_covers_the_exact_one(mechanism: Mechanism) -> None:
    stated = mechanism.error_deviation(COHORT)
    exact = _exact_variance(mechanism, _averages(1)) ** 0.5
    assert exact <= stated * (1 + 1e-12)
    if mechanism.trust != "none":
        assert stated <= 1.25 * exact  # and is not loose either


@pytest.mark.parametrize("confidence", [0.05, 5e-3])
def test_error_radii_cover_and_are_not_loose(mechanism: Mechanism, confidence: float) -> None:
    """A miss has probability at most β; the false-alarm rate of the count is below 10⁻⁶."""
    coefficients = np.array([[1.0, -0.5, 0.25, 0, 0, 2.0]])
    radius = mechanism.error_radius(coefficients, np.array([1e-4]), confidence, COHORT)[0]
    rng, averages = np.random.default_rng(7), np.zeros((COHORT, COORDINATES))
    draw = simulated_path(mechanism, rng)
    total = errors(mechanism, averages, draw, 4000) @ coefficients[0] + 0.01 * rng.standard_normal(4000)
    assert (total > radius).sum() <= binom.isf(1e-6, 4000, confidence)
    assert radius <= 2.2 * np.quantile(total, 1 - confidence)


def test_a_direction_without_error_has_no_radius(mechanism: Mechanism) -> None:
    radius = mechanism.error_radius(np.zeros((1, COORDINATES)), np.zeros(1), 1e-9, COHORT)
    assert 0 <= radius[0] < 1e-90


def test_nothing_beyond_the_bound_gets_through(mechanism: Mechanism) -> None:
    huge = np.full((COHORT, COORDINATES), 1e300)
    for path in (real_path, simulated_path):
        from_huge = path(mechanism, np.random.default_rng(6))(huge)
        from_bound = path(mechanism, np.random.default_rng(6))(np.full_like(huge, BOUND))
        np.testing.assert_array_equal(from_huge, from_bound)


def test_nan_is_refused_and_infinity_is_clipped(mechanism: Mechanism) -> None:
    noise = SimulatedNoise(np.random.default_rng(0))
    averages = np.zeros((1, COORDINATES))
    averages[0, 2] = np.nan
    with pytest.raises(InvalidValue, match="averages: got NaN"):
        mechanism.randomize(averages, noise)
    averages[0, 2] = -np.inf
    assert np.isfinite(mechanism.randomize(averages, noise).astype(float)).all()


def test_a_mechanism_survives_json(mechanism: Mechanism) -> None:
    kind = MECHANISMS[mechanism.kind]
    assert msgspec.json.decode(msgspec.json.encode(mechanism), type=kind) == mechanism


def test_the_guarantee_is_what_was_requested_and_little_more(case: tuple[PrivacyRequest, Mechanism]) -> None:
    request, mechanism = case
    stated = guarantee(request, [mechanism])
    if request.trust == "none":
        assert stated is None
        return
    assert stated is not None
    if request.preset == "tight":
        assert stated.delta <= request.delta
        if not request.trust_model.is_pure(request.mechanism_noise) or request.pure:
            assert stated.delta >= 0.5 * request.delta  # with few clients, whole bits waste a little
    assert stated.neighbouring == "replace-one"
    assert stated.needs


def test_delta_decreases_in_epsilon(mechanism: Mechanism) -> None:
    deltas = [mechanism.event.delta(epsilon) for epsilon in (0.5, 1, 2, 3, 5)]
    assert deltas == sorted(deltas, reverse=True)


def test_too_few_reports_are_not_released(mechanism: Mechanism) -> None:
    noise = SimulatedNoise(np.random.default_rng(0))
    reports = mechanism.randomize(_averages(1), noise)
    if mechanism.trust == "shuffle":
        assert mechanism.minimum_reports == COHORT
        batch = mechanism.shuffle(reports[1:], noise)
        with pytest.raises(TooFewReports, match="got 39, expected at least 40: nothing is released"):
            mechanism.analyze(batch, COHORT - 1, noise)
    else:
        assert mechanism.minimum_reports == 1
        assert len(mechanism.analyze(mechanism.shuffle(reports[1:], noise), COHORT - 1, noise)) == COORDINATES


@pytest.mark.parametrize("noise", NOISES["shuffle"])
def test_shared_noise_suffices_for_the_minimum_cohort(noise: str) -> None:
    """If every client reports, there is more noise than requested; with the fewest, just enough."""
    request = _request("shuffle", noise, minimum_share=0.5, delta=0.0 if noise == "polya" else 1e-3)
    mechanism = calibrate(request, coordinates=COORDINATES, cohort=COHORT, bound=BOUND)
    assert mechanism.minimum_reports == 20
    fewest = calibrate(replace(request, minimum_share=1.0), coordinates=COORDINATES, cohort=20, bound=BOUND)
    assert mechanism.event.delta(3.0) <= max(request.delta, 0)
    assert mechanism.error_deviation(20) == pytest.approx(fewest.error_deviation(20), rel=0.15)
    # Half of the reports are released, and decoded with the number that arrived.
    averages = np.full((20, COORDINATES), 0.4)
    found = np.array(
        [exchange(mechanism, averages, SimulatedNoise(np.random.default_rng(i))) for i in range(300)]
    )
    assert looks_like(found, 0.4, mechanism.error_deviation(20) ** 2 / 1.02, 8.0)


@pytest.mark.parametrize("noise", CLIENT_NOISES)
def test_silent_clients_are_paid_for_by_the_others(noise: str) -> None:
    delta = 0.0 if noise == "polya" else 1e-3
    plain = calibrate(_request("shuffle", noise, delta=delta), coordinates=4, cohort=40, bound=1)
    wary = calibrate(
        _request("shuffle", noise, delta=delta, silent_share=0.25), coordinates=4, cohort=40, bound=1
    )
    assert wary.event.delta(3.0) <= delta
    assert wary.error_deviation(40) > 1.05 * plain.error_deviation(40)


def test_sums_do_not_wrap_around() -> None:
    request = _request("shuffle", "polya", delta=0.0)
    mechanism = calibrate(request, coordinates=2, cohort=500, bound=1)
    assert isinstance(mechanism, SummedShares)
    noise = SimulatedNoise(np.random.default_rng(0))
    for end in (-1.0, 1.0):
        found = exchange(mechanism, np.full((500, 2), end), noise)
        assert np.abs(found - end).max() < 8 * mechanism.error_deviation(500)
    reports = mechanism.randomize(np.full((500, 2), -1.0), noise)  # residues, with the sign nearest to zero
    half = 2 ** (mechanism.modulus_bits - 1)
    assert -half <= reports.min() < 0
    assert reports.max() < half


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1, 1e-6), (10, 0.25), (30, 0.01)])
def test_tight_gives_what_was_asked_at_any_epsilon(trust: str, epsilon: float, delta: float) -> None:
    request = _request(trust, epsilon=epsilon, delta=delta)
    mechanism = calibrate(request, coordinates=60, cohort=500, bound=2)
    assert mechanism.event.delta(epsilon) <= delta


def test_pure_privacy_costs_less_with_the_norm_of_the_box() -> None:
    box = calibrate(_request("central", epsilon=10.0, delta=0.0), coordinates=60, cohort=1000, bound=1)
    laplace = calibrate(
        _request("central", "laplace", epsilon=10.0, delta=0.0), coordinates=60, cohort=1000, bound=1
    )
    assert box.event.pure_epsilon <= 10
    assert laplace.event.pure_epsilon <= 10
    assert box.error_deviation(1000) <= 0.45 * laplace.error_deviation(1000)


@pytest.mark.parametrize(("trust", "noise"), [("central", "gaussian"), ("shuffle", "binomial")])
def test_noise_that_is_not_pure_is_refused_for_delta_zero(trust: str, noise: str) -> None:
    with pytest.raises(NotAvailable, match=f"noise: got {noise} with delta 0"):
        _request(trust, noise, delta=0.0)


def test_the_paper_has_no_pure_shuffle() -> None:
    with pytest.raises(NotAvailable, match="the paper has no such mechanism"):
        _request("shuffle", preset="paper", delta=0.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(15.0, 0.1), (1.0, 0.5)])
def test_the_paper_shuffle_stays_inside_its_theorem(epsilon: float, delta: float) -> None:
    with pytest.raises(OutsideTheorem):
        calibrate(
            _request("shuffle", preset="paper", epsilon=epsilon, delta=delta),
            coordinates=4,
            cohort=9,
            bound=1,
        )


def test_the_shuffler_hides_who_sent_which_bits() -> None:
    mechanism = calibrate(_request("shuffle", preset="paper", epsilon=10.0), coordinates=2, cohort=3, bound=1)
    noise = SimulatedNoise(np.random.default_rng(0))
    bits = mechanism.randomize(np.array([[1, -1], [0, 0], [-1, 1]], dtype=float), noise)
    batch = mechanism.shuffle(bits, noise)
    np.testing.assert_array_equal(batch.sum(axis=1), bits.sum(axis=(0, 2)))
    unshuffled = bits.transpose(1, 0, 2).reshape(2, -1)
    assert (np.diff(unshuffled.astype(int)) > 0).sum() <= 2 * 3  # the ones of a client are adjacent
    assert (np.diff(batch.astype(int)) > 0).sum() > 100


def test_the_ends_of_the_range_are_encoded_without_error() -> None:
    mechanism = ShuffledBits(
        coordinates=1,
        cohort=2,
        bound=1,
        reach=1,
        levels=4,
        noise_bits=1,
        noise_probability=1e-12,
        least_reports=2,
    )
    noise = SimulatedNoise(np.random.default_rng(0))
    ones = mechanism.randomize(np.array([[1.0], [-1.0]]), noise).sum(axis=2).ravel()
    assert ones.tolist() == [4, 0]


def test_parallel_composition_takes_the_worst_phase() -> None:
    request = _request("central", "gaussian", preset="paper")
    strong = calibrate(request, coordinates=4, cohort=10, bound=1)
    weak = replace(strong, noise_ratio=0.2)  # type: ignore[type-var]
    stated = guarantee(request, [strong, weak, strong])
    assert stated is not None
    assert stated.delta == weak.event.delta(3.0)


@pytest.mark.parametrize(
    "changes",
    [{"coordinates": 0}, {"cohort": 0}, {"bound": 0.0}, {"levels": 0}, {"noise_bits": 0}, {"reach": 0.1},
     {"noise_probability": 0.0}, {"silent_share": 1.0}],
)  # fmt: skip
def test_impossible_parameters_are_refused(changes: dict[str, Any]) -> None:
    good = calibrate(_request("shuffle", "binomial"), coordinates=4, cohort=9, bound=1)
    with pytest.raises(InvalidValue):
        replace(good, **changes)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "changes",
    [{"trust": "x"}, {"preset": "x"}, {"epsilon": 0.0}, {"delta": 1.0}, {"delta": -1.0}, {"noise": "x"},
     {"minimum_share": 0.0}, {"silent_share": 1.0}],
)  # fmt: skip
def test_a_bad_request_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(changes))):
        PrivacyRequest(**{"trust": "central", **changes})


def test_minimum_reports_out_of_range() -> None:
    with pytest.raises(InvalidValue, match="minimum_reports"):
        calibrate(_request("shuffle"), coordinates=4, cohort=9, bound=1, minimum_reports=10)
