"""One cohort per action, with one reward per client: Algorithm 4, exact calibration, and the joint error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, ks_2samp

from dpbandits.errors import InvalidValue, OutsideTheorem
from dpbandits.privacy import (
    Mechanism,
    PrivacyRequest,
    SimulatedNoise,
    audit,
    calibrate_per_action,
    guarantee,
    per_action_deviations,
    per_action_radius,
)
from dpbandits.privacy.auditing._game import reveal
from dpbandits.privacy.noise import BoxNormLaw
from dpbandits.privacy.noise._laplace_laws import LaplaceLaw
from dpbandits.privacy.trust import CentralLattice, LocalBand, ShuffledBits
from dpbandits.privacy.trust._shuffled_bits import algorithm_4
from tests.privacy.noises import NOISES, PURE_NOISES

from .conformance import errors, real_path, simulated_path

COHORTS, BOUNDS = (5, 37, 260), (1.5, 0.7, 4.0)
NORMS = ("k-norm", "ball-norm")  # Laplace noise for one value, as one of the tests checks
ALL = [(trust, noise) for trust, noises in NOISES.items() for noise in noises if noise not in NORMS]


def _request(trust: str, noise: str | None = None, **changes: Any) -> PrivacyRequest:
    delta = 0.0 if noise in PURE_NOISES else 1e-3
    return PrivacyRequest(**{"trust": trust, "noise": noise, "epsilon": 2.0, "delta": delta, **changes})


def _per_action(trust: str, noise: str | None = None, **changes: Any) -> tuple[Mechanism, ...]:
    return calibrate_per_action(_request(trust, noise, **changes), cohorts=COHORTS, bounds=BOUNDS)


@pytest.mark.parametrize(
    ("epsilon", "delta", "cohort", "bound", "levels", "bits", "probability"),
    [
        # g = 2√100; 90·20²·ln 8/(5²·100) = 29.944 of b = ⌈59.888⌉
        (10, 0.25, 100, 1, 20, 60, 0.499065970003160623),
        # g = ⌈2√1000⌉ = 64; 90·64²·ln(2·10⁶)/(.5²·1000) = 21393.886…
        (1, 1e-6, 1000, 1, 64, 42788, 0.499997343996407240),
        # g = ⌈4√7⌉ = 11; 90·11²·ln 8/(5²·7) = 129.4007
        (10, 0.25, 7, 2, 11, 259, 0.499616511613754291),
        # 2B√n = 0.2, but the lemma's ε̂(2/g + 1) is only within ε from g = 2 on
        (4, 0.01, 1, 0.1, 2, 954, 0.499841260995097800),
    ],
)
def test_algorithm_4(
    epsilon: float, delta: float, cohort: int, bound: float, levels: int, bits: int, probability: float
) -> None:
    request = PrivacyRequest(trust="shuffle", preset="paper", epsilon=epsilon, delta=delta)
    (mechanism,) = calibrate_per_action(request, cohorts=[cohort], bounds=[bound])
    assert isinstance(mechanism, ShuffledBits)
    assert (mechanism.levels, mechanism.noise_bits, mechanism.reach) == (levels, bits, bound)
    assert mechanism.noise_probability == pytest.approx(probability, rel=1e-14)
    assert mechanism.event.delta(epsilon) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "stands"), [(29.9, 0.49, True), (30, 0.1, False), (1, 0.5, False)]
)
def test_algorithm_4_stays_inside_its_theorem(epsilon: float, delta: float, stands: bool) -> None:
    request = PrivacyRequest(trust="shuffle", preset="paper", epsilon=epsilon, delta=delta)
    if stands:
        assert algorithm_4(request, cohort=9, bound=1, least=9).event.delta(epsilon) <= delta
        return
    with pytest.raises(OutsideTheorem, match="scalar shuffle theorem"):
        algorithm_4(request, cohort=9, bound=1, least=9)


@pytest.mark.parametrize("cohort", [1, 100])
def test_algorithm_4_is_far_more_private_than_it_claims(cohort: int) -> None:
    request = PrivacyRequest(trust="shuffle", preset="paper", epsilon=1, delta=1e-6)
    paper = algorithm_4(request, cohort=cohort, bound=1, least=cohort)
    assert paper.event.delta_bounds(0.06)[0] > 1e-6 > paper.event.delta(0.07)
    exact = PrivacyRequest(trust="central", noise="gaussian", epsilon=1, delta=1e-6)
    (central,) = calibrate_per_action(exact, cohorts=[cohort], bounds=[1])
    assert paper.error_deviation(cohort) / central.error_deviation(cohort) == pytest.approx(12.1, abs=0.1)


@pytest.mark.parametrize(("trust", "noise"), ALL)
def test_every_cohort_has_what_was_asked_and_so_has_the_whole(trust: str, noise: str) -> None:
    request, mechanisms = _request(trust, noise), _per_action(trust, noise)
    assert [(own.coordinates, own.cohort, own.bound) for own in mechanisms] == list(
        zip((1, 1, 1), COHORTS, BOUNDS, strict=True)
    )
    deltas = [own.event.delta(request.epsilon) for own in mechanisms]
    assert max(deltas) <= request.delta * (1 + 1e-9)
    stated = guarantee(request, mechanisms)
    assert stated is not None
    assert stated.delta == max(deltas)


@settings(max_examples=25, deadline=None)
@given(cohort=st.integers(1, 10**6), share=st.sampled_from([1.0, 0.9, 0.35]))
def test_shared_noise_suffices_for_any_cohort_and_has_little_to_spare(cohort: int, share: float) -> None:
    request = _request("shuffle", epsilon=1.0, delta=1e-6, minimum_share=share)
    (own,) = calibrate_per_action(request, cohorts=[cohort], bounds=[1.0])
    assert own.event.delta(1.0) <= 1e-6
    least = request.minimum_reports(cohort)
    assert 8 / 9 * least <= own.minimum_reports <= least
    gaussian = replace(request, trust="central", noise="discrete-gaussian")
    (central,) = calibrate_per_action(gaussian, cohorts=[cohort], bounds=[1.0])
    spare = own.error_deviation(cohort) / central.error_deviation(cohort)
    assert spare <= 1.06 * (1.125 * cohort / least) ** 0.5


@pytest.mark.parametrize(
    ("trust", "epsilon", "delta", "noise"),
    [
        ("central", 1, 1e-6, "laplace"),
        ("central", 10, 0.01, "laplace"),
        ("central", 0.1, 0.3, "discrete-gaussian"),
        ("central", 2, 0, "laplace"),
        ("local", 1, 1e-6, "list"),
        ("local", 10, 0.25, "laplace"),
        ("local", 0.1, 0.3, "discrete-gaussian"),
        ("local", 2, 0, "list"),
        ("shuffle", 1, 1e-6, "polya"),
        ("shuffle", 0.1, 0.3, "discrete-gaussian"),
    ],
)
def test_tight_takes_the_noise_that_is_least_for_one_value(
    trust: str, epsilon: float, delta: float, noise: str
) -> None:
    request = PrivacyRequest(trust=trust, epsilon=epsilon, delta=delta)
    (own,) = calibrate_per_action(request, cohorts=[50], bounds=[1.0])
    stated = guarantee(request, [own])
    assert stated is not None
    assert stated.noise == noise
    assert stated.delta <= delta
    if delta > 0:
        row, nothing = np.ones((1, 1)), np.zeros(1)
        for other in sorted({"laplace", "discrete-gaussian", "polya"} & set(request.trust_model.noises)):
            (asked,) = calibrate_per_action(replace(request, noise=other), cohorts=[50], bounds=[1.0])
            assert asked.noise_name == other  # the requested noise is used
            widths = [one.error_radius(row, nothing, 1e-6, 50)[0] for one in (own, asked)]
            assert widths[0] <= 1.06 * widths[1]  # predictions ignore the grid


def test_in_one_dimension_the_norm_of_the_box_is_the_laplace_noise() -> None:
    places = np.arange(-200, 201)
    box = np.exp(-np.abs(places) / 7.0)  # P(z) ∝ exp(−‖z‖∞/scale) with one coordinate
    assert (box / box.sum()) @ places**2 == pytest.approx(LaplaceLaw(scale=7.0).variance(1), rel=1e-6)
    assert BoxNormLaw(scale=7.0).event(1, 14).pure_epsilon == pytest.approx(
        LaplaceLaw(scale=7.0).event(1, 14).pure_epsilon
    )
    for noise in NORMS:
        own = _per_action("central", noise)[0]
        assert isinstance(own, CentralLattice)
        assert own.noise == "laplace"
        assert own.event.pure_epsilon == pytest.approx(2.0)
    assert _per_action("local", "k-norm") == _per_action("local", "laplace")


@pytest.mark.parametrize(("trust", "noise"), ALL)
def test_the_simulated_path_has_the_distribution_of_the_real_one(trust: str, noise: str) -> None:
    own = _per_action(trust, noise)[1]
    rewards = np.random.default_rng(1).normal(size=(own.cohort, 1))
    real = errors(own, rewards, real_path(own, np.random.default_rng(2)), 1500).ravel()
    drawn = errors(own, rewards, simulated_path(own, np.random.default_rng(3)), 1500).ravel()
    assert ks_2samp(real, drawn).pvalue > 1e-6
    assert ks_2samp(abs(real), abs(1.5 * drawn)).pvalue < 1e-6  # and detects another scale


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_blocks_are_one_cohort(trust: str) -> None:
    own = _per_action(trust)[2]
    rewards = np.random.default_rng(1).normal(size=(own.cohort, 1))
    noises = [SimulatedNoise(np.random.default_rng(4)) for _ in range(2)]
    whole = [own.simulate(rewards, noises[0])[0] for _ in range(1500)]
    split = [own.simulate_blocks([rewards[:100], rewards[100:]], noises[1])[0] for _ in range(1500)]
    if trust == "none":
        np.testing.assert_allclose(whole, split, atol=1e-12)
        return
    assert ks_2samp(whole, split).pvalue > 1e-6
    centred = (np.array(split) - np.mean(split)).reshape(4, -1)
    assert (
        ks_2samp(whole, centred.sum(axis=0) + np.mean(split)).pvalue < 1e-6
    )  # noise for each of four blocks


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_the_audit_of_a_cohort_stands_and_catches_half_the_noise(trust: str) -> None:
    own: Any = _per_action(trust)[0]
    noise = SimulatedNoise(np.random.default_rng(5))
    assert not audit(own, noise, epsilon=2.0, delta=1e-3, samples=8000).violated
    if isinstance(own, ShuffledBits):
        weak = replace(own, noise_bits=own.noise_bits // 4)
        assert audit(weak, noise, epsilon=2.0, delta=1e-3, samples=8000).violated
        return
    if isinstance(own, LocalBand):
        weak = replace(own, top_weight=own.top_weight * 3 // 2)
    else:
        weak = replace(own, scale=own.scale / 2)
    result = audit(
        own,
        noise,
        epsilon=2.0,
        samples=8000,
        reveals=lambda _, rewards, source: reveal(weak, rewards, source),
    )
    assert result.violated


@pytest.mark.parametrize("noise", ["discrete-gaussian", "laplace", "k-norm"])
def test_equal_cohorts_share_a_mechanism(noise: str) -> None:
    """For equal cohorts, the joint radius is that of a mechanism with independent coordinates."""
    request = _request("central", noise)
    mechanisms = calibrate_per_action(request, cohorts=[30] * 4, bounds=[1.0] * 4)
    (one,) = {own for own in mechanisms if isinstance(own, CentralLattice)}
    coefficients, other = np.random.default_rng(0).normal(size=(6, 4)), np.full(6, 1e-3)
    joint = per_action_radius(mechanisms, coefficients, other, 1e-6, [30] * 4)
    exact = replace(one, coordinates=4).error_radius(coefficients, other, 1e-6, 30)
    # Rounding u up to a grid may cost a little if the noise is not normal.
    assert (exact * (1 - 1e-9) <= joint).all()
    assert (joint <= exact * (1 + 1e-9 if noise == "discrete-gaussian" else 1.05)).all()
    assert per_action_deviations(mechanisms, [30] * 4) == pytest.approx([one.error_deviation(30)] * 4)


@pytest.mark.parametrize(("trust", "noise"), ALL)
def test_joint_radii_cover_and_are_not_loose(trust: str, noise: str) -> None:
    """A miss has probability at most β; the false-alarm rate of the count is below 10⁻⁶."""
    # With this number of draws, twice the noise is almost always detected; heavy tails have the widest radii.
    mechanisms, confidence, draws = _per_action(trust, noise), 0.01, 12_000
    coefficients = np.array([[0.02, -0.5, 1.0]])
    radius = per_action_radius(mechanisms, coefficients, np.array([1e-4]), confidence, COHORTS)[0]
    rng = np.random.default_rng(7)
    # A band has the largest errors, and skewed ones, at the ends of its grid; other noise has no such ends.
    ends = -np.sign(coefficients[0]) * (noise == "list")
    parts = [
        errors(own, np.full((own.cohort, 1), end * own.bound), simulated_path(own, rng), draws).ravel()
        for own, end in zip(mechanisms, ends, strict=True)
    ]
    total = coefficients[0] @ np.array(parts) + 0.01 * rng.standard_normal(draws)
    assert (total > radius).sum() <= binom.isf(1e-6, draws, confidence)
    assert (2 * total > radius).sum() > binom.isf(1e-6, draws, confidence)  # twice the noise is detected
    assert radius <= 2.0 * np.quantile(total, 1 - confidence)


def test_a_remembered_law_does_not_let_a_wrong_scale_pass() -> None:
    own: Any = _per_action("central", "laplace")[0]
    assert replace(own, scale=1.0).law == LaplaceLaw(scale=1.0)
    for wrong in (True, np.nan, 0.0, [1.0]):
        with pytest.raises(InvalidValue, match="scale"):
            replace(own, scale=wrong)
