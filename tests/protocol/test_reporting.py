"""Whitened statistics lose no information, and their clipping bias stays within the stated bound."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    LinearFit,
    Plan,
    Schedule,
    Steps,
    Study,
    ask,
    decode,
    encode,
    fitted,
    tell,
)
from dpbandits.protocol._reporting import Reporting, Statistics, clipping_bias, whitened

from .helpers import gaussian_study, people, simulate_release

SHARED = Schedule.shared(6000, phases=3, first_length=40, growth=6)
_study = partial(gaussian_study, schedule=SHARED, epsilon=1, delta=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dimension=st.integers(1, 6),
    extra=st.integers(0, 8),
    heterogeneity=st.sampled_from([0.0, 0.1, 2.0]),
)
def test_reports_scatter_by_one_in_every_direction(
    seed: int, dimension: int, extra: int, heterogeneity: float
) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, dimension + 1))
    rows = rng.normal(size=(rank + extra, rank)) @ rng.normal(size=(rank, dimension))
    rows /= np.linalg.norm(rows, axis=1).max()
    plays = rng.integers(1, 50, size=len(rows)).astype(float)
    own = Statistics(rows=rows, plays=plays, heterogeneity=heterogeneity)
    reported = whitened(own, rank)
    np.testing.assert_allclose(reported.covariance, np.eye(rank), atol=2e-3)
    assert len(reported.targets) == rank


@pytest.mark.parametrize("heterogeneity", [0.0, 0.1, 1.0])
def test_no_direction_is_known_less_well_than_by_the_best_linear_estimate(heterogeneity: float) -> None:
    """Compare with generalised least squares on the averages, computed with their full covariance."""
    rng = np.random.default_rng(4)
    rows, plays = rng.normal(size=(9, 4)) / 4, rng.integers(1, 30, size=9).astype(float)
    own = Statistics(rows=rows, plays=plays, heterogeneity=heterogeneity)
    best = np.linalg.inv(rows.T @ np.linalg.inv(own.covariance) @ rows)
    targets = whitened(own, 4).targets
    found = np.linalg.inv(targets.T @ targets)
    assert np.abs(found - best).max() < 1e-3 * np.abs(best).max()  # the mixing has fourteen binary digits


def _first_plan(study: Study) -> Plan:
    plan = ask(study.begin())
    assert plan.mechanism is not None
    return plan


def test_the_plan_says_what_to_report_and_survives_json() -> None:
    study = _study()
    plan = _first_plan(study)
    assert plan.mixing_matrix is not None
    assert plan.numbers == plan.rank == len(plan.mixing)
    assert plan.mechanism is not None
    assert plan.mechanism.shape == "ball"
    assert decode(encode(plan), Plan) == plan
    averages = np.random.default_rng(0).normal(size=(5, len(plan.support)))
    np.testing.assert_allclose(plan.reported(averages), averages @ plan.mixing_matrix.T - plan.centre)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"privacy": PrivacyRequest(trust="none")}, False),
        ({"steps": Steps().without("whitened")}, False),
        ({"steps": Steps().without("recentred")}, False),
        ({}, True),
        ({"privacy": PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6)}, True),
        ({"privacy": PrivacyRequest(trust="local", epsilon=1, delta=1e-6)}, True),
    ],
)
def test_who_reports_whitened_statistics(changes: dict[str, object], expected: bool) -> None:
    assert bool(_first_plan(_study(**changes)).mixing) == expected


@pytest.mark.parametrize("noise", ["binomial", "skellam"])
def test_other_noise_clips_in_a_box(noise: str) -> None:
    privacy = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-3, noise=noise)
    state = _study(privacy=privacy, schedule=replace(SHARED, cohorts=(40, 40, 40))).begin()
    assert _first_plan(state.study).mechanism.shape == "box"  # type: ignore[union-attr]


def test_actions_that_span_less_than_the_space() -> None:
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5))
    rows /= np.linalg.norm(rows, axis=1).max()
    study = _study(actions=Actions(rows))
    state, population = study.begin(), people(_study(actions=Actions(rows)))
    for _ in range(2):
        plan = ask(state)
        assert plan.numbers <= 2
        averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
        state = tell(state, plan, simulate_release(plan, averages, SimulatedNoise(rng)))
    assert population.instance.best_action in state.active_actions


def _error_and_radius(study: Study, seed: int) -> tuple[float, float]:
    """Return the norm of the error of the estimate after two phases, and its stated bound."""
    rng, population = np.random.default_rng(seed), people(study, 1)
    state = study.begin()
    for _ in range(2):
        plan = ask(state)
        averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
        state = tell(state, plan, simulate_release(plan, averages, SimulatedNoise(rng)))
    evidence = state.evidence
    assert evidence is not None
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    span = np.linalg.svd(fit.map, full_matrices=False)[0][:, : evidence.plan.rank].T
    error = span @ (np.array(evidence.estimate) - population.instance.theta)
    return float(np.linalg.norm(error)), fit.target_radius(span)


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_errors_are_no_longer_than_stated_and_not_much_shorter(trust: str) -> None:
    """The error exceeds the radius with probability 1/(kT) < 10⁻⁵ per run, and radius/4 in some run."""
    found = [_error_and_radius(_study(trust), seed) for seed in range(30)]
    assert all(length <= radius for length, radius in found)
    assert any(4 * length > radius for length, radius in found)


def test_clipping_pulls_no_further_than_stated() -> None:
    """Reports have the largest allowed variance; the check fails with probability β per mean."""
    study = _study(horizon=100)
    rng = np.random.default_rng(3)
    rows = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    own = whitened(Statistics(rows=rows, plays=np.full(3, 2.0), heterogeneity=0.1), 3)
    for bound in (4.0, 5.0, 6.0):
        reporting = Reporting(statistics=own, shape="ball", bound=bound, recentred=False)
        off, spread = own.residuals(study, "ball", None)
        if bound <= off[0]:
            continue
        clients = 2000
        (stated,) = clipping_bias(study, reporting, None, clients)
        reports = rng.normal(size=(200, clients, 3)) * spread[0]
        lengths = np.linalg.norm(reports, axis=2, keepdims=True)
        pulled = reports * (1 - np.minimum(1, bound / lengths))
        assert np.linalg.norm(pulled.mean(axis=1), axis=1).max() <= stated


def test_bounded_rewards_lose_nothing_in_a_ball() -> None:
    study = _study(bounded_rewards=True)
    plan = _first_plan(study)
    assert plan.mechanism is not None
    corners = np.sign(np.random.default_rng(0).normal(size=(500, len(plan.support))))
    reported = plan.reported(study.bound * corners)
    np.testing.assert_allclose(plan.mechanism.clip(reported), reported)
    averages = np.zeros((plan.cohort, len(plan.support)))
    release = simulate_release(plan, averages, SimulatedNoise(np.random.default_rng(0)))
    evidence = tell(study.begin(), plan, release).evidence
    assert evidence is not None
    assert evidence.clipping_bias == ()
