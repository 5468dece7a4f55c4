"""Planned schedules: they spend their budget, and their predictions are near simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Study, budgeted, plan_study, predict, spent
from dpbandits.simulation import Setting, run_once, simulate
from dpbandits.world import Instance, Population


def _study(trust: str = "none", **changes: object) -> Study:
    defaults = {
        "actions": Actions.generate("sphere", count=60, dimension=4, rng=0),
        "horizon": 10**5,
        "privacy": PrivacyRequest(trust=trust, epsilon=1, delta=1e-6),
        "schedule": Schedule.shared(3000, phases=3, first_length=30, growth=8),
        "bounded_rewards": False,
    }
    return Study(**{**defaults, **changes})  # type: ignore[arg-type]


def test_a_prediction_is_deterministic_and_ordered_by_noise() -> None:
    regrets = [predict(_study(trust)).regret for trust in ("none", "central", "local")]
    assert regrets == [predict(_study(trust)).regret for trust in ("none", "central", "local")]
    assert regrets == sorted(regrets)


def test_more_participants_are_predicted_to_help() -> None:
    few, many = (
        predict(_study("central", schedule=Schedule.shared(n, phases=3, first_length=30, growth=8)))
        for n in (300, 30_000)
    )
    assert many.regret < few.regret
    assert many.bound < few.bound
    assert many.median_regret < few.median_regret
    assert many.expected_gap < few.expected_gap
    assert 0 <= few.chance_of_best < many.chance_of_best <= 1


def test_a_hopeless_study_is_predicted_to_eliminate_nothing() -> None:
    hopeless = _study("local", privacy=PrivacyRequest(trust="local", epsilon=0.01, delta=1e-6), horizon=1000)
    found = predict(hopeless)
    assert found.first_elimination is None
    assert found.actions_left == pytest.approx(60)
    assert found.chance_of_best < 0.1


def test_a_planned_budget_is_spent_exactly_and_beats_the_papers_schedule() -> None:
    study = _study("central", schedule=Schedule.exponential())
    spending = budgeted(study, 2000)
    assert sum(spending.schedule.cohorts or ()) == 2000
    planned = replace(study, schedule=spending.schedule, design_tolerance=spending.design_tolerance)
    assert predict(planned).regret < 0.5 * predict(study).regret
    assert budgeted(study, 2000) == spending


@pytest.mark.parametrize(("trust", "epsilon", "participants"), [("local", 10, 100), ("shuffle", 0.3, 500)])
def test_a_plan_has_no_useless_cohorts_where_noise_dominates(
    trust: str, epsilon: float, participants: int
) -> None:
    study = _study(trust, privacy=PrivacyRequest(trust=trust, epsilon=epsilon, delta=1e-6))
    spending = budgeted(study, participants)
    planned = spent(study, spending)
    cohorts = spending.schedule.cohorts or ()
    assert min(cohorts) >= participants / 20
    for fewer in (cohorts[1:], cohorts[:-1]):
        if fewer:  # a plan without this cohort is worse, or as good with fewer people
            joined = (fewer[0] + participants - sum(fewer), *fewer[1:])
            other = replace(planned, schedule=replace(spending.schedule, cohorts=joined))
            assert predict(other).regret > predict(planned).regret
    simple = [
        Schedule.shared(participants, phases=phases, first_length=length, growth=4)
        for phases in (1, 2, 4)
        for length in (12, 120)
    ]
    best = min(predict(replace(study, schedule=schedule)).regret for schedule in simple)
    assert predict(planned).regret <= 1.05 * best


def test_tiny_budgets_and_horizons_can_be_planned() -> None:
    assert budgeted(_study(horizon=10), 1).schedule.cohorts == (1,)
    setting = Setting.of(actions=5, dimension=2, horizon=1, schedule="budgeted")
    assert run_once(setting, 0).rounds == 1


def test_predictions_are_near_simulations() -> None:
    setting = Setting.of(
        actions=200, dimension=6, horizon=10**5, trust="central", epsilon=1, delta=1e-6, schedule="budgeted"
    )
    spending = setting.planned()
    study = setting.study(setting.instance(0).actions, spending)
    # Compare medians, since a single near tie dominates a mean.
    predicted = np.median([predict(study, draws=1, seed=seed).regret for seed in range(30)])
    simulated = np.median([run_once(setting, seed, spending).regret for seed in range(12)])
    assert 0.5 < predicted / simulated < 2


def test_a_planned_study_has_explicit_cohorts_and_learns_far_more_than_the_papers_schedule() -> None:
    actions = Actions.generate("sphere", count=60, dimension=4, rng=0)
    privacy = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
    study = plan_study(actions=actions, horizon=10**5, participants=3000, privacy=privacy, heterogeneity=0.2)
    assert sum(study.schedule.cohorts or ()) == 3000
    assert (study.heterogeneity, study.bounded_rewards, study.privacy) == (0.2, False, privacy)
    fixed = plan_study(actions=actions, horizon=10**5, participants=3000, design_tolerance=1.5)
    assert fixed.design_tolerance == 1.5
    paper = Study(actions=actions, horizon=10**5, privacy=privacy, schedule=Schedule.exponential())
    instance = Instance(actions, theta=actions.matrix[0])
    planned_regret, paper_regret = (
        np.median(
            [simulate(one, Population(instance, heterogeneity=0.2), seed=seed).regret for seed in range(5)]
        )
        for one in (study, paper)
    )
    assert planned_regret < 0.2 * paper_regret


def test_a_study_has_no_schedule_by_omission() -> None:
    actions = Actions.generate("sphere", count=5, dimension=2, rng=0)
    with pytest.raises(TypeError, match="schedule"):
        Study(actions=actions, horizon=1000)  # type: ignore[call-arg]
    with pytest.raises(InvalidValue, match="schedule"):
        plan_study(actions=actions, horizon=1000, participants=10, schedule=Schedule.exponential())
    with pytest.raises(InvalidValue, match="participants"):
        plan_study(actions=actions, horizon=1000, participants=0)
    assert Schedule.exponential(0.7).participants(1000) == Schedule(alpha=0.7).participants(1000)
