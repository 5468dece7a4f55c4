"""The objective "identification": phases may play actions that cannot be best, to compare the others."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import (
    Plan,
    Release,
    Schedule,
    State,
    Study,
    ask,
    budgeted,
    predict,
    replay,
    spent,
    tell,
)
from dpbandits.protocol._near_ties import drawn_parameters
from dpbandits.protocol._predicted_paths import TOGETHER
from dpbandits.simulation import simulate
from dpbandits.world import Instance, Population

from .helpers import exchanged

ANGLE = 0.2
ROWS = np.vstack([np.eye(3), [np.cos(ANGLE), np.sin(ANGLE), 0]])


def _study(objective: str, trust: str = "none", **changes: object) -> Study:
    settings = {
        "actions": Actions(ROWS),
        "horizon": 100_000,
        "bounded_rewards": False,
        "privacy": PrivacyRequest(trust=trust, epsilon=3, delta=1e-4),
        "schedule": Schedule(cohorts=(100,) * 12, first_length=30, growth=1.3),
        "confidence": 0.9,
        "stop_when_decided": True,
        "objective": objective,
    }
    return Study(**{**settings, **changes})  # type: ignore[arg-type]


def _people(study: Study) -> Population:
    return Population(Instance(study.actions, [1.0, 0, 0]), heterogeneity=study.heterogeneity)


def _run(study: Study) -> tuple[list[State], list[Plan], list[Release]]:
    """Run the phases that ask clients, with real messages."""
    rng, states, plans, releases = np.random.default_rng(1), [study.begin()], list[Plan](), list[Release]()
    while (plan := ask(states[-1])).asks:
        plans.append(plan)
        releases.append(exchanged(plan, _people(study), rng))
        states.append(tell(states[-1], plan, releases[-1]))
    return states, plans, releases


@pytest.mark.parametrize("trust", ["none", "shuffle"])
def test_similar_actions_need_far_fewer_clients(trust: str) -> None:
    """Two nearly equal actions are left early; playing the second unit vector measures their difference."""
    asked = dict[str, int]()
    for objective in ("regret", "identification"):
        study = _study(objective, trust)
        traces = [simulate(study, _people(study), seed=seed) for seed in range(5)]
        assert all(trace.best_action_survived for trace in traces)
        asked[objective] = sum(trace.participants for trace in traces)
    assert asked["identification"] < 0.7 * asked["regret"]


def test_a_dropped_action_is_played_and_stays_dropped() -> None:
    study = _study("identification")
    states, plans, releases = _run(study)
    pairs = list(zip(states, plans, strict=False))
    assert any(set(plan.support) - set(state.active_actions.tolist()) for state, plan in pairs)
    for before, after in itertools.pairwise(states):
        assert set(after.active_actions) <= set(before.active_actions)
    assert replay(study, releases) == states[-1]


def test_the_objective_of_regret_plays_active_actions_only() -> None:
    states, plans, _ = _run(_study("regret"))
    assert len(plans) > 2
    for state, plan in zip(states, plans, strict=False):
        assert set(plan.support) <= set(state.active_actions.tolist())


def test_an_objective_is_refused_if_its_widths_do_not_hold() -> None:
    with pytest.raises(InvalidValue, match="objective: got .fame."):
        _study("fame")
    with pytest.raises(InvalidValue, match="objective: got identification"):
        _study("identification", privacy=PrivacyRequest(preset="paper"))


def _planned(objective: str) -> Study:
    actions = Actions.generate("sphere", count=12, dimension=3, rng=2)
    return _study(
        objective, actions=actions, schedule=Schedule(cohorts=(100,) * 10, first_length=300, growth=1.3)
    )


def test_the_predicted_participants_are_those_of_simulations() -> None:
    """Over the θ* of the prediction, with their weights."""
    study = _planned("identification")
    drawn = drawn_parameters(study.actions, 64, 0, together=TOGETHER)
    found = predict(study, draws=64)
    people = [
        Population(Instance(study.actions, theta), heterogeneity=study.heterogeneity)
        for theta in drawn.thetas
    ]
    traces = [simulate(study, one, seed=seed) for seed, one in enumerate(people)]
    asked = np.average([trace.participants for trace in traces], weights=drawn.weights)
    sure = np.average([trace.actions_left == 1 for trace in traces], weights=drawn.weights)
    assert 0.75 < found.participants / asked < 1.33
    assert found.chance_of_sure == pytest.approx(sure, abs=0.1)


def test_a_schedule_is_planned_for_the_objective() -> None:
    study = _planned("identification")
    found = budgeted(study, 600)
    assert sum(found.schedule.cohorts or ()) == 600
    simple = replace(study, schedule=Schedule.shared(600, phases=4, first_length=30, growth=4))
    assert predict(spent(study, found)).participants < 0.7 * predict(simple).participants
