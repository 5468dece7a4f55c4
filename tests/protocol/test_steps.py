"""The improvements of the preset `tight`, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.protocol import (
    STEP_NAMES,
    PhaseEvidence,
    Schedule,
    State,
    Steps,
    Study,
    ask,
    decode,
    encode,
    fitted,
    leader,
    replay,
    tell,
)

from .helpers import gaussian_study, people, run, simulate_release

SHARED = Schedule.shared(4000, phases=3, first_length=60, growth=6)
_study = partial(gaussian_study, schedule=SHARED, epsilon=3, delta=1e-4)


def test_presets_take_all_steps_or_none() -> None:
    assert all(getattr(Steps.of("tight"), name) for name in STEP_NAMES)
    assert not any(getattr(Steps.of("paper"), name) for name in STEP_NAMES)
    assert not Steps().without("pooled").pooled
    with pytest.raises(InvalidValue, match="without: got 'magic'"):
        Steps().without("magic")


def test_cohorts_share_a_budget_exactly() -> None:
    schedule = Schedule.shared(1001, phases=4, first_length=10, growth=3, cohort_growth=0.7)
    assert sum(schedule.cohorts or ()) == 1001
    assert list(schedule.cohorts or ()) == sorted(schedule.cohorts or (), reverse=True)
    assert [schedule.length(phase) for phase in (1, 2, 3)] == [10, 30, 90]
    assert schedule.participants(10**6) == 1001
    assert schedule.reporting_phases(45) == 2  # 10 + 30 rounds, the third does not fit
    assert not schedule.asks(5)
    with pytest.raises(InvalidValue, match="participants"):
        Schedule.shared(2, phases=3, first_length=10, growth=3)


def test_after_the_last_cohort_the_best_guess_is_played() -> None:
    states, plans, _ = run(_study())
    assert [plan.asks for plan in plans] == [True] * 3 + [False]
    assert plans[-1].support == (leader(states[-2]),)
    assert states[-1].clients_asked == 4000


def test_a_phase_that_does_not_fit_is_replaced_by_the_best_guess() -> None:
    states, plans, _ = run(_study("local", horizon=400))
    assert [plan.asks for plan in plans] == [True, False]
    assert plans[-1].support == (leader(states[-2]),)
    cut = run(_study("local", horizon=400, steps=Steps().without("committed")))[1][-1]
    assert len(cut.support) > 1


def test_a_study_may_stop_asking_once_one_action_is_left() -> None:
    far = Actions([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.1]])
    every, stopped = (
        run(_study("none", actions=far, stop_when_decided=stop))[0][-1].clients_asked
        for stop in (False, True)
    )
    assert stopped < every == 4000


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_clients_report_around_the_last_estimate_once_that_is_closer(trust: str) -> None:
    states, plans, releases = run(_study(trust))
    first, second = plans[0], plans[1]
    assert first.offsets == ()
    assert first.mechanism is not None
    assert second.mechanism is not None
    if trust != "local":  # with local noise the first estimate is too inaccurate
        assert second.mechanism.bound < first.mechanism.bound
        rows = states[1].study.actions.matrix[list(second.support)]
        targets = rows if second.mixing_matrix is None else second.mixing_matrix @ rows
        np.testing.assert_allclose(second.offsets, targets @ np.array(states[1].estimate), atol=1e-6)
    # Releases include the offsets that clients subtracted.
    error = np.array(states[2].estimate) - people(states[0].study).instance.theta
    assert np.linalg.norm(error) < 1
    assert replay(states[0].study, releases) == states[3]


def test_bounded_rewards_are_never_clipped_further_out() -> None:
    for study in (_study(bounded_rewards=True), _study(bounded_rewards=False)):
        plan = ask(study.begin())
        assert plan.mechanism is not None
        assert (plan.mechanism.bound <= study.bound) == study.bounded_rewards


def test_without_recentring_everything_is_clipped_at_the_bound() -> None:
    plans = run(_study(steps=Steps().without("recentred")))[1]
    assert {plan.mechanism.bound for plan in plans if plan.mechanism} == {1.0}
    assert all(plan.offsets == () for plan in plans)


def test_clipping_widens_the_widths() -> None:
    study = _study()
    states = run(study)[0]
    evidence = states[2].evidence
    assert evidence is not None
    assert len(evidence.clipping_bias) == (1 if evidence.plan.mixing else len(evidence.plan.support))
    rows = study.actions.matrix[list(evidence.plan.support)]  # others were not measured
    with_bias = fitted(study, evidence).target_widths(rows)
    without = fitted(study, replace(evidence, clipping_bias=())).target_widths(rows)
    assert (with_bias > without).all()


def test_weighted_least_squares_has_the_least_variance() -> None:
    """Gauss and Markov: weights from the variances of the noise increase the variance in no direction."""
    study = _study(steps=Steps().without("whitened"))
    evidence = run(study)[0][1].evidence
    assert evidence is not None
    free = replace(evidence, clipping_bias=())
    rows = study.actions.matrix
    weighted = fitted(study, free).target_widths(rows)
    plain = fitted(replace(study, steps=Steps().without("weighted", "whitened")), free).target_widths(rows)
    assert (weighted <= plain * (1 + 1e-9)).all()
    assert (weighted < 0.999 * plain).any()


def test_differences_drop_no_less_than_widths_of_their_own() -> None:
    study = _study("none", schedule=Schedule.shared(3000, phases=1, first_length=60, growth=2))
    plain = replace(study, steps=Steps().without("differences"))
    population = people(study, 3)
    state, other = study.begin(), plain.begin()
    rng = np.random.default_rng(3)
    from dpbandits.privacy import SimulatedNoise

    plan = ask(state)
    averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
    release = simulate_release(plan, averages, SimulatedNoise(rng))
    after = tell(state, plan, release)
    other_plan = ask(other)
    other_after = tell(other, other_plan, replace(release, plan=other_plan.digest))
    assert set(after.active_actions) <= set(other_after.active_actions)
    assert population.instance.best_action in after.active_actions


def _pooled(study: Study, history: Sequence[PhaseEvidence]) -> np.ndarray:
    return study.reward_model.pool([fitted(study, evidence) for evidence in history])


def test_pooling_is_the_precision_weighted_mean() -> None:
    study = _study()
    history = run(study)[0][3].history
    # Pooling the same evidence twice changes nothing; adding a very inaccurate phase changes almost nothing.
    once, twice = _pooled(study, history[:1]), _pooled(study, (history[0], history[0]))
    np.testing.assert_allclose(once, np.array(history[0].estimate), atol=1e-9)
    np.testing.assert_allclose(twice, once, atol=1e-9)
    precisions = [fitted(study, one).precision for one in history[:2]]
    expected = np.linalg.solve(
        sum(precisions), sum(p @ np.array(h.estimate) for p, h in zip(precisions, history, strict=False))
    )
    np.testing.assert_allclose(_pooled(study, history[:2]), expected, atol=1e-9)


def test_states_with_history_survive_json() -> None:
    study = _study()
    for state in run(study)[0]:
        assert decode(encode(state), State, actions=study.actions) == state
