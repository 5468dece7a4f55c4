from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import ks_2samp

from dpbandits.errors import InvalidValue, NotAvailable, OutsideTheorem
from dpbandits.privacy import MECHANISMS, Mechanism, PrivacyRequest, SimulatedNoise, calibrate, guarantee
from dpbandits.privacy.shuffle import ShuffledBits

from .conformance import errors, looks_like, real_path, simulated_path

COHORT, SUPPORT, BOUND = 40, 6, 1.5


def _request(trust: str, preset: str = "paper", epsilon: float = 10.0, delta: float = 0.25) -> PrivacyRequest:
    return PrivacyRequest(trust=trust, preset=preset, epsilon=epsilon, delta=delta)


REQUESTS = [
    _request("none"),
    _request("central"),
    _request("central", "tight"),
    _request("local"),
    _request("local", "tight"),
]
MECHANISMS_UNDER_TEST = [calibrate(r, support=SUPPORT, cohort=COHORT, bound=BOUND) for r in REQUESTS]
# Algorithm 2's thousands of bits for each client would make these tests slow, not stronger.
MECHANISMS_UNDER_TEST.append(
    ShuffledBits(
        support=SUPPORT,
        cohort=COHORT,
        bound=BOUND,
        reach=BOUND * SUPPORT**0.5,
        levels=11,
        noise_bits=60,
        noise_probability=0.4,
    )
)


@pytest.fixture(params=MECHANISMS_UNDER_TEST, ids=lambda m: f"{m.kind}-{getattr(m, 'scale', 0):.3g}")
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    chosen: Mechanism = request.param
    return chosen


def _averages(seed: int) -> Any:
    # Some of these exceed the bound and must be clipped; a third of a level is never a whole one.
    return np.random.default_rng(seed).normal(scale=1.2, size=(COHORT, SUPPORT))


def _exact_variance(mechanism: Mechanism, averages: Any) -> float:
    """Of one coordinate of the released mean, averaged over coordinates."""
    if not isinstance(mechanism, ShuffledBits):
        return mechanism.error_proxy**2
    unit = 2 * mechanism.reach / mechanism.levels
    scaled = (mechanism.clip(averages) + mechanism.reach) / unit
    fraction = scaled - np.floor(scaled)
    rounding = (fraction * (1 - fraction)).sum(axis=0).mean()
    p = mechanism.noise_probability
    return float(unit**2 / COHORT**2 * (rounding + COHORT * mechanism.noise_bits * p * (1 - p)))


@pytest.mark.parametrize("path", [real_path, simulated_path])
def test_the_error_has_mean_zero_and_the_exact_variance(mechanism: Mechanism, path: Any) -> None:
    averages = _averages(1)
    found = errors(mechanism, averages, path(mechanism, np.random.default_rng(2)), repeats=300)
    variance = _exact_variance(mechanism, averages)
    assert looks_like(found, 0.0, variance)
    if mechanism.trust != "none":  # the test can fail: it rejects a wrong scale and a shift
        assert not looks_like(found, 0.0, 1.25**2 * variance)
        assert not looks_like(found, 0.0, 0.8**2 * variance)
        assert not looks_like(found, 0.2 * variance**0.5, variance)


def test_the_simulated_path_has_the_distribution_of_the_real_one(mechanism: Mechanism) -> None:
    averages = _averages(3)
    real = errors(mechanism, averages, real_path(mechanism, np.random.default_rng(4)), 300).ravel()
    simulated = errors(mechanism, averages, simulated_path(mechanism, np.random.default_rng(5)), 300).ravel()
    if mechanism.trust == "none":
        np.testing.assert_allclose(real, simulated, atol=1e-12)
        return
    assert ks_2samp(real, simulated).pvalue > 1e-6
    assert ks_2samp(abs(real), abs(simulated)).pvalue > 1e-6
    assert ks_2samp(abs(real), abs(1.3 * simulated)).pvalue < 1e-6  # and can tell another scale


def test_the_error_proxy_covers_the_exact_variance(mechanism: Mechanism) -> None:
    assert _exact_variance(mechanism, _averages(1)) <= mechanism.error_proxy**2 * (1 + 1e-12)


def test_nothing_beyond_the_bound_gets_through(mechanism: Mechanism) -> None:
    huge = np.full((COHORT, SUPPORT), 1e300)
    for path in (real_path, simulated_path):
        from_huge = path(mechanism, np.random.default_rng(6))(huge)
        from_bound = path(mechanism, np.random.default_rng(6))(np.full_like(huge, BOUND))
        np.testing.assert_array_equal(from_huge, from_bound)


def test_nan_is_refused_and_infinity_is_clipped(mechanism: Mechanism) -> None:
    noise = SimulatedNoise(np.random.default_rng(0))
    averages = np.zeros((1, SUPPORT))
    averages[0, 2] = np.nan
    with pytest.raises(InvalidValue, match="averages: got NaN"):
        mechanism.randomize(averages, noise)
    averages[0, 2] = -np.inf
    assert np.isfinite(mechanism.randomize(averages, noise).astype(float)).all()


def test_a_mechanism_survives_json(mechanism: Mechanism) -> None:
    kind = MECHANISMS[mechanism.kind]
    assert msgspec.json.decode(msgspec.json.encode(mechanism), type=kind) == mechanism


def test_delta_decreases_in_epsilon_and_with_noise(mechanism: Mechanism) -> None:
    deltas = [mechanism.delta(epsilon) for epsilon in (0.5, 1, 5, 10, 14)]
    assert deltas == sorted(deltas, reverse=True)
    if hasattr(mechanism, "scale"):
        assert replace(mechanism, scale=2 * mechanism.scale).delta(5) < mechanism.delta(5)  # type: ignore[type-var]


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1, 1e-6), (10, 0.25)])
def test_tight_gives_what_was_asked_and_no_more(trust: str, epsilon: float, delta: float) -> None:
    request = _request(trust, "tight", epsilon, delta)
    mechanism = calibrate(request, support=60, cohort=500, bound=2)
    assert 0.999 * delta < mechanism.delta(epsilon) <= delta


def test_tight_shuffle_says_that_it_is_not_available() -> None:
    with pytest.raises(NotAvailable, match="preset: got tight with trust shuffle"):
        calibrate(_request("shuffle", "tight"), support=1, cohort=1, bound=1)


@pytest.mark.parametrize(("epsilon", "delta"), [(15.0, 0.1), (1.0, 0.5)])
def test_the_paper_shuffle_stays_inside_its_theorem(epsilon: float, delta: float) -> None:
    with pytest.raises(OutsideTheorem):
        calibrate(_request("shuffle", "paper", epsilon, delta), support=4, cohort=9, bound=1)


def test_the_shuffler_hides_who_sent_which_bits() -> None:
    mechanism = calibrate(_request("shuffle"), support=2, cohort=3, bound=1)
    noise = SimulatedNoise(np.random.default_rng(0))
    bits = mechanism.randomize(np.array([[1, -1], [0, 0], [-1, 1]], dtype=float), noise)
    batch = mechanism.shuffle(bits, noise)
    np.testing.assert_array_equal(batch.sum(axis=1), bits.sum(axis=(0, 2)))
    unshuffled = bits.transpose(1, 0, 2).reshape(2, -1)
    assert (np.diff(unshuffled.astype(int)) > 0).sum() <= 2 * 3  # one client's ones stand together
    assert (np.diff(batch.astype(int)) > 0).sum() > 100


def test_the_ends_of_the_range_are_encoded_without_error() -> None:
    mechanism = ShuffledBits(
        support=1, cohort=2, bound=1, reach=1, levels=4, noise_bits=1, noise_probability=1e-12
    )
    noise = SimulatedNoise(np.random.default_rng(0))
    ones = mechanism.randomize(np.array([[1.0], [-1.0]]), noise).sum(axis=2).ravel()
    assert ones.tolist() == [4, 0]


def test_parallel_composition_takes_the_worst_phase() -> None:
    request = _request("central")
    strong = calibrate(request, support=4, cohort=10, bound=1)
    weak = replace(strong, scale=strong.scale / 2)  # type: ignore[type-var]
    stated = guarantee(request, [strong, weak, strong])
    assert stated is not None
    assert stated.delta == weak.delta(10)
    assert stated.neighbouring == "replace-one"
    assert guarantee(_request("none"), [strong]) is None


@pytest.mark.parametrize(
    "changes",
    [{"support": 0}, {"cohort": 0}, {"bound": 0.0}, {"levels": 0}, {"noise_bits": 0}, {"reach": 0.1},
     {"noise_probability": 0.0}],
)  # fmt: skip
def test_impossible_parameters_are_refused(changes: dict[str, Any]) -> None:
    good = calibrate(_request("shuffle"), support=4, cohort=9, bound=1)
    with pytest.raises(InvalidValue, match=next(iter(changes))):
        replace(good, **changes)  # type: ignore[type-var]


@pytest.mark.parametrize("changes", [{"trust": "x"}, {"preset": "x"}, {"epsilon": 0.0}, {"delta": 1.0}])
def test_a_bad_request_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(changes))):
        PrivacyRequest(**changes)
