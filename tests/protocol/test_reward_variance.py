"""A known variance of rewards: Bernstein's bounds, checked against exact binomial distributions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import LinearFit, PhaseEvidence, Release, Schedule, Study, ask, fitted, tell
from dpbandits.protocol._clipping import MARGIN
from dpbandits.protocol._predicted_phase import predicted_phase
from dpbandits.protocol.assignment._bounded_variance import growth

RATE = 0.03
VARIANCE = 4 * RATE * (1 - RATE)  # clicks, 0 or 1, on the scale of [−1, 1]
ACTIONS = Actions(np.eye(4))


def _study(**changes: Any) -> Study:
    given: dict[str, Any] = {
        "actions": ACTIONS,
        "horizon": 10**6,
        "schedule": Schedule(cohorts=(400, 800), first_length=200, growth=4),
        "heterogeneity": 0.0,
        "reward_variance": VARIANCE,
    }
    return Study(**{**given, **changes})


def test_the_cumulant_of_a_click_is_within_the_bound() -> None:
    rates = np.concatenate([-np.logspace(-3, 1, 40), np.logspace(-3, 1, 40)])
    noise = np.array([1 - RATE, -RATE]) * 2
    cumulants = np.log(np.exp(rates[:, None] * noise) @ [RATE, 1 - RATE])
    bounds = VARIANCE * growth(2 * np.abs(rates)) * rates**2 / 2
    assert (cumulants <= bounds * (1 + 1e-9)).all()
    assert bounds[40] == pytest.approx(cumulants[40], rel=0.01)  # nearly exact for a small rate
    assert (np.diff(growth(np.linspace(0, 29, 500))) >= 0).all()


@pytest.mark.parametrize("plays", [10, 50, 400])
def test_few_averages_of_one_client_are_clipped(plays: int) -> None:
    """P(average − mean > z·√v + s) ≤ exp(−z²/2 − s·z/√v), exactly as Theorem 2 uses it, on both sides."""
    proxy = _study().proxy_of_average(plays)
    assert VARIANCE < proxy < 1
    deviation = (proxy / plays) ** 0.5
    for beyond in (0.0, 0.5, 1.0, 2.0):
        reach = (MARGIN + beyond) * deviation
        allowed = np.exp(-(MARGIN**2) / 2 - beyond * MARGIN)
        above = binom.sf(np.floor(plays * (RATE + reach / 2)), plays, RATE)
        below = binom.cdf(np.ceil(plays * (RATE - reach / 2)) - 1, plays, RATE)
        assert max(above, below) <= allowed
    narrow = MARGIN * (VARIANCE / plays) ** 0.5  # a planted error: the variance itself as the proxy
    if plays == 10:
        assert binom.sf(np.floor(plays * (RATE + narrow / 2)), plays, RATE) > np.exp(-(MARGIN**2) / 2)


def _radius(study: Study, reports: int, chance: float) -> float:
    plan = ask(study.begin())
    evidence = PhaseEvidence(plan=plan, reports=reports, means=(0.0,) * plan.numbers)
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    direction = ACTIONS.matrix[:1]
    return float(fit.errors.radius(direction @ fit.map, direction, confidence=chance)[0])


@pytest.mark.parametrize("reports", [2, 20, 400])
@pytest.mark.parametrize("chance", [0.05, 1e-6])
def test_widths_cover_and_are_not_much_too_wide(reports: int, chance: float) -> None:
    study = _study()
    plays, radius = reports * ask(study.begin()).plays[0], _radius(study, reports, chance)
    assert binom.sf(np.floor(plays * (RATE + radius / 2)), plays, RATE) <= chance
    assert binom.cdf(np.ceil(plays * (RATE - radius / 2)) - 1, plays, RATE) <= chance
    exact = 2 * (binom.isf(chance, plays, RATE) / plays - RATE)
    assert radius <= (2 if reports > 2 else 3) * exact  # two clients have three clicks on average
    plain = _radius(replace(study, reward_variance=None), reports, chance)
    assert radius < 0.75 * plain or reports == 2
    assert radius <= plain


def test_a_smaller_variance_lets_clients_clip_closer() -> None:
    private = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
    bounds = list[float]()
    for variance in (None, VARIANCE):
        state = _study(reward_variance=variance, privacy=private).begin()
        for _ in range(2):
            plan = ask(state)
            release = Release(
                plan=plan.digest, means=(0.0,) * plan.numbers, reports=plan.cohort, simulated=True
            )
            state = tell(state, plan, release)
        mechanism = state.history[1].plan.asked_mechanism
        mixing = state.history[1].plan.mixing_matrix
        scale = 1.0 if mixing is None else float(np.abs(mixing).max())
        bounds.append(mechanism.bound / scale)
    assert bounds[1] < 0.75 * bounds[0]


def test_a_variance_that_a_study_cannot_use_is_refused() -> None:
    for changes in ({"bounded_rewards": False}, {"assignment": "one_per_round"}):
        with pytest.raises(InvalidValue, match=r"reward_variance: got 0.1.*, expected none, unless"):
            _study(**changes)
    with pytest.raises(InvalidValue, match="reward_variance: got 0, expected a finite number > 0"):
        _study(reward_variance=0)


def test_the_planner_predicts_widths_with_the_variance() -> None:
    """The widths of differences after one phase are √v times as large."""
    predicted, widths = list[float](), list[float]()
    for variance in (VARIANCE, None):
        study = _study(schedule=Schedule(cohorts=(400,), first_length=200), reward_variance=variance)
        state = study.begin()
        plan = ask(state)
        zeros = Release(plan=plan.digest, means=(0.0,) * plan.numbers, reports=400, simulated=True)
        widths.append(tell(state, plan, zeros).width or 0.0)
        phase = predicted_phase(study, np.arange(ACTIONS.count), (), {})
        assert phase is not None
        predicted.append(float(phase.knowledge.widths_between(ACTIONS.matrix, ACTIONS.matrix).max()))
    assert predicted[0] / predicted[1] == pytest.approx(widths[0] / widths[1], rel=0.1)
    assert widths[0] / widths[1] == pytest.approx(VARIANCE**0.5, rel=0.1)


def test_no_confidence_is_spent_on_pooling_phases_that_cannot_be_pooled() -> None:
    privacy = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
    known, unknown = (
        _study(confidence=0.95, privacy=privacy, reward_variance=one) for one in (VARIANCE, None)
    )
    assert unknown.pools
    assert not known.pools
    assert known.bound_failure == pytest.approx(5 * unknown.bound_failure)
    assert known.noise_request == privacy  # the noise with the shortest widths, which need not be Gaussian
