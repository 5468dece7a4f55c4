from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Study
from dpbandits.protocol.planning import budgeted, predict
from dpbandits.simulation import Setting, run_once


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


def test_a_hopeless_study_is_predicted_to_eliminate_nothing() -> None:
    hopeless = _study("local", privacy=PrivacyRequest(trust="local", epsilon=0.01, delta=1e-6), horizon=1000)
    found = predict(hopeless)
    assert found.first_elimination is None
    assert found.actions_left == 60


def test_a_planned_budget_is_spent_exactly_and_beats_the_papers_schedule() -> None:
    study = _study("central", schedule=Schedule())
    spending = budgeted(study, 2000)
    assert sum(spending.schedule.cohorts or ()) == 2000
    planned = replace(study, schedule=spending.schedule, design_tolerance=spending.design_tolerance)
    assert predict(planned).regret < 0.5 * predict(study).regret
    assert budgeted(study, 2000) == spending


def test_tiny_budgets_and_horizons_can_be_planned() -> None:
    assert budgeted(_study(horizon=10), 1).schedule.cohorts == (1,)
    setting = Setting(actions=5, dimension=2, horizon=1, schedule="budgeted")
    assert run_once(setting, 0).rounds == 1


def test_predictions_are_near_simulations() -> None:
    setting = Setting(
        actions=200, dimension=6, horizon=10**5, trust="central", epsilon=1, delta=1e-6, schedule="budgeted"
    )
    spending = setting.planned()
    study = setting.study(setting.instance(0).actions, spending)
    # Medians, as a single near tie makes most of a mean.
    predicted = np.median([predict(study, draws=1, seed=seed).regret for seed in range(30)])
    simulated = np.median([run_once(setting, seed, spending).regret for seed in range(12)])
    assert 0.5 < predicted / simulated < 2
