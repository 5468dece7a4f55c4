"""Progress records equal what is recomputed from the states."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.protocol import Schedule, Study, _leader, fitted, leader
from tests.protocol.helpers import people, run, small_study

STUDIES = [
    ("none", "paper", "everyone"),
    ("none", "tight", "everyone"),
    ("central", "tight", "everyone"),
    ("shuffle", "paper", "everyone"),
    ("central", "tight", "one_per_round"),
    ("local", "paper", "one_per_round"),
]


@pytest.mark.parametrize(("trust", "preset", "assignment"), STUDIES)
def test_every_phase_has_a_record_that_agrees_with_the_state(
    trust: str, preset: str, assignment: str
) -> None:
    study = small_study(trust, preset, assignment=assignment, horizon=3000)
    states, plans, _ = run(study)
    assert [one.phase for one in states[-1].progress] == [plan.phase for plan in plans]
    for plan, after in zip(plans, states[1:], strict=True):
        one = after.progress[-1]
        assert one.actions_left == len(after.active_actions)
        assert one.leader == leader(after)
        assert one.largest_width == after.width
        assert (one.rounds_played, one.clients_asked) == (after.rounds_played, after.clients_asked)
        assert (one.cohort, one.reports) == (plan.cohort, plan.cohort)
        private = bool(plan.cohort) and trust != "none"
        assert one.requested_epsilon == (study.privacy.epsilon if private else None)
        assert one.requested_delta == (study.privacy.delta if private else None)
        row = study.actions.matrix[one.leader]
        assert one.estimated_mean == pytest.approx(float(row @ np.array(after.estimate)), abs=1e-12)
        assert after.evidence is not None
        if preset == "tight":
            own = fitted(study, after.evidence).widths(np.array([one.leader]))[0]
            assert one.width == pytest.approx(own, rel=1e-12)
        else:
            assert one.width == after.width


@pytest.mark.parametrize("seed", range(20))
def test_the_leader_of_many_actions_is_found_among_the_near_ones(seed: int) -> None:
    study = small_study("local", "tight", horizon=20_000)
    states, _, _ = run(study, seed)
    leaders = [after.progress[-1].leader for after in states[1:]]
    assert leaders == [leader(after) for after in states[1:]]


def test_the_interval_holds_the_leaders_true_mean() -> None:
    study = small_study("central", "tight", horizon=3000)
    for seed in range(10):
        true = people(study, seed).instance.actions.matrix @ people(study, seed).instance.theta
        for one in run(study, seed)[0][-1].progress:
            assert one.interval is not None
            assert one.interval[0] <= true[one.leader] <= one.interval[1]
            assert one.interval[1] - one.interval[0] == pytest.approx(2 * (one.width or 0))


def test_in_a_study_that_pools_the_interval_is_from_all_phases() -> None:
    """Each of the 100 intervals misses with a probability below 10⁻⁶; a fifth of their width misses often."""
    schedule = Schedule(cohorts=(40,) * 6, first_length=40, growth=1.2)
    study = small_study("none", "tight", horizon=10**6, schedule=schedule, confidence=0.999)
    missed, narrow, ratios = 0, 0, list[float]()
    for seed in range(20):
        truth = people(study, seed).instance.mean_rewards
        for after in run(study, seed)[0][2:7]:
            one, width = after.progress[-1], after.progress[-1].width or 0.0
            error = abs((one.estimated_mean or 0.0) - truth[one.leader])
            missed, narrow = missed + (error > width), narrow + (error > width / 5)
            assert after.evidence is not None
            ratios.append(width / fitted(study, after.evidence.unfitted).widths(np.array([one.leader]))[0])
    assert missed == 0 < narrow
    assert np.mean(ratios[4::5]) < 0.6  # six equal phases: nearly √6 times as precise


def test_before_anybody_is_asked_there_is_no_estimate() -> None:
    study: Study = small_study(horizon=1)
    (one,) = run(study)[0][-1].progress
    assert (one.estimated_mean, one.width, one.largest_width, one.interval) == (None, None, None, None)
    assert (one.cohort, one.reports, one.rounds_played, one.leader) == (0, 0, 1, 0)


def test_while_too_many_are_near_the_last_estimate_decides_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_leader, "_MANY", -1)
    for after in run(small_study("local", "tight", horizon=20_000))[0][1:]:
        scores = after.study.actions.matrix[after.active_actions] @ np.array(after.estimate)
        assert after.progress[-1].leader == after.active_actions[np.argmax(scores)]
