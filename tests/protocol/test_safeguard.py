"""Safeguards: what is worse than today is not played again, and no phase loses more than allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Confirmation,
    FitTest,
    LossBounds,
    Plan,
    Release,
    Safeguard,
    Schedule,
    State,
    Study,
    ask,
    fitted,
    replay,
    simulate_groups,
    tell,
)
from dpbandits.protocol._safe_plays import loss_bounds, without_barred
from dpbandits.world import Instance, Population

ACTIONS = Actions.generate("sphere", count=12, dimension=3, rng=2)
CURRENT, MARGIN, ALLOWANCE = 4, 0.1, 0.15
FALSE_ALARM, STUDIES = 1e-6, 30


def _study(trust: str = "none", **changes: Any) -> Study:
    settings: dict[str, Any] = {
        "actions": ACTIONS,
        "horizon": 10**6,
        "bounded_rewards": False,
        "privacy": PrivacyRequest(trust=trust, epsilon=5.0, delta=1e-3),
        "schedule": Schedule(cohorts=(100, 200, 400), first_length=60, growth=4),
        "confidence": 0.9,
        "safeguard": Safeguard(current=CURRENT, margin=MARGIN, allowance=ALLOWANCE),
    }
    return Study(**{**settings, **changes})


def _steps(study: Study, instance: Instance, seed: int) -> Iterator[tuple[State, Plan, State]]:
    """Yield each plan of a simulated study, with the states before and after it."""
    rng, people = np.random.default_rng(seed), Population(instance, heterogeneity=study.heterogeneity)
    state = study.begin()
    while not state.ended:
        plan = ask(state)
        release = None
        if plan.asks:
            reported = study.assignment_rule.simulate(plan, people, rng)
            release, _ = simulate_groups(plan, reported, SimulatedNoise(rng))
        after = tell(state, plan, release)
        yield state, plan, after
        state = after


def _instance(seed: int) -> Instance:
    return Instance.draw(ACTIONS, np.random.default_rng(seed))


def _loss(instance: Instance, plan: Plan, current: int = CURRENT) -> float:
    """The true mean loss of a phase against the current option."""
    losses = instance.mean_rewards[current] - instance.mean_rewards[list(plan.support)]
    return float(losses @ np.array(plan.plays)) / plan.rounds


# The losses of the other corners are nearly the margin, and far above the allowance. So bounds that err are
# noticed: such a study bars a corner, or loses too much.
CORNERS = Actions([*np.eye(4), [0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]])
LOSSES = Instance(CORNERS, np.array([0.2, 0.1001, 0.1001, 0.1001]))


def _guarded(trust: str = "none", **changes: Any) -> Study:
    schedule = Schedule(cohorts=(60, 120, 240), first_length=40, growth=3)
    own = Safeguard(current=0, margin=MARGIN, allowance=0.04)
    return _study(trust, actions=CORNERS, schedule=schedule, safeguard=own, **changes)


def _broken(study: Study, seed: int) -> bool:
    """Whether one study breaks a promise: it loses more than allowed, or bars an option within the margin."""
    losses, broken = LOSSES.mean_rewards[0] - LOSSES.mean_rewards, False
    for before, plan, after in _steps(study, LOSSES, seed):
        assert not set(plan.support) & set(before.barred_actions.tolist())  # whatever the data say
        assert not set(after.active_actions.tolist()) & set(after.barred_actions.tolist())
        assert set(before.barred_actions.tolist()) <= set(after.barred_actions.tolist())
        broken |= _loss(LOSSES, plan, 0) > 0.04 * (1 + 1e-9)
        broken |= bool((losses[after.barred_actions] <= MARGIN).any())
    return broken


@pytest.mark.parametrize(("trust", "objective"), [("none", "identification"), ("shuffle", "regret")])
def test_the_promises_hold_as_often_as_stated(trust: str, objective: str) -> None:
    """30 studies at a confidence of .9: more than 13 broken ones have probability 10⁻⁶."""
    study = _guarded(trust, objective=objective)
    assert sum(_broken(study, seed) for seed in range(STUDIES)) <= binom.isf(FALSE_ALARM, STUDIES, 0.1)


def test_bounds_that_are_too_narrow_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundredth of the widths, an upper bound is too low in half of all cases."""
    right = LossBounds.narrow

    def narrow(self: LossBounds, places: Any, estimates: Any, widths: Any) -> None:
        right(self, places, estimates, widths / 100)

    monkeypatch.setattr(LossBounds, "narrow", narrow)
    broken = sum(_broken(_guarded(), seed) for seed in range(STUDIES))
    assert broken > binom.isf(FALSE_ALARM, STUDIES, 0.1)


def test_the_first_phase_cannot_lose_more_whatever_the_truth_is() -> None:
    plan = ask(_study().begin())
    assert CURRENT in plan.support
    others = sum(own for action, own in zip(plan.support, plan.plays, strict=True) if action != CURRENT)
    assert 2 * others / plan.rounds <= ALLOWANCE  # the current option has mean 1, all others −1
    usual = ask(_study(safeguard=None).begin())
    for action, own in zip(usual.support, usual.plays, strict=True):  # nothing is measured less
        assert plan.plays[plan.support.index(action)] >= own


def _exact(state: State, rewards: np.ndarray[Any, Any]) -> State:
    """The state after a phase whose release has exact means."""
    plan = ask(state)
    means = tuple((plan.reported(rewards[list(plan.support)][None])[0] + plan.centre).tolist())
    return tell(state, plan, Release(plan=plan.digest, means=means, reports=plan.cohort, simulated=True))


def test_dropped_options_are_played_for_identification_until_they_are_barred() -> None:
    """Soare's instance: the third option is the one that separates the two best, and it is the worst."""
    actions = Actions([[1.0, 0.0], [np.cos(0.1), np.sin(0.1)], [0.0, 1.0]])
    schedule = Schedule(cohorts=(20,) * 4, first_length=60, growth=1.5)
    study = _study(actions=actions, schedule=schedule, objective="identification", safeguard=None)
    rewards = actions.matrix @ np.array([0.8, 0.0])
    played = {True: set[int](), False: set[int]()}
    for guarded in (False, True):
        own = Safeguard(current=0, margin=0.3) if guarded else None
        state = _exact(replace(study, safeguard=own).begin(), rewards)
        assert (2 in state.barred_actions) == guarded
        while ask(state).asks:
            played[guarded] |= set(ask(state).support)
            state = _exact(state, rewards)
    assert 2 in played[False]
    assert 2 not in played[True]


def test_a_fit_test_and_a_confirmation_keep_to_the_safeguard() -> None:
    rewards = ACTIONS.matrix @ (0.9 * ACTIONS.matrix[CURRENT])
    study = _study(
        schedule=Schedule(cohorts=(3000,), first_length=300),
        safeguard=Safeguard(current=CURRENT, margin=1.0, allowance=ALLOWANCE),
        fit_test=FitTest(cohort=200, plays=4),
        confirmation=Confirmation(current=CURRENT, cohort=200, plays=4),
    )
    state = _exact(study.begin(), rewards)
    assert state.active_actions.tolist() == [CURRENT]
    assert 3 < len(state.barred_actions) < 11
    states = [state]
    while (plan := ask(states[-1])).asks:
        assert not set(plan.support) & set(state.barred_actions.tolist())
        assert _loss(Instance(ACTIONS, 0.9 * ACTIONS.matrix[CURRENT]), plan) <= ALLOWANCE
        states.append(_exact(states[-1], rewards))
    assert states[-1].fit_test_evidence is not None
    assert states[-1].confirmation_evidence is not None
    assert ask(states[-1]).support == (CURRENT,)
    # If nothing else may be played, nothing is left to test or to compare.
    strict = replace(study, safeguard=Safeguard(current=CURRENT, margin=0.0))
    state = _exact(strict.begin(), rewards)
    assert len(state.barred_actions) == 11
    assert ask(state).support == (CURRENT,)
    assert not ask(state).asks


def test_the_best_guess_is_played_as_often_as_the_allowance_lets_it() -> None:
    study = _study(schedule=Schedule(cohorts=(10,), first_length=12))
    state = _exact(study.begin(), ACTIONS.matrix @ np.array([0.1, 0.0, 0.0]))
    plan = ask(state)
    best, current = plan.support
    assert current == CURRENT
    fits = [fitted(study, one.unfitted) for one in state.history]
    (most,) = loss_bounds(study, fits, np.array([best])).high
    assert plan.plays[0] * most / plan.rounds == pytest.approx(ALLOWANCE, rel=1e-4)
    # A first phase that takes too many rounds is not played at all.
    assert ask(replace(study, horizon=100).begin()).support == (CURRENT,)


def test_if_bounds_contradict_each_other_the_current_option_is_played() -> None:
    state = _study().begin()
    everything = np.ones(12, dtype=bool)
    everything[CURRENT] = False
    barred = np.packbits(everything).tobytes()
    left = without_barred(state, np.array([0, 3]), barred)
    assert left.tolist() == [CURRENT]


def test_a_phase_is_not_recentred_where_the_last_one_measured_nothing() -> None:
    """The plays of the last phase span a plane; the current option lies outside."""
    actions = Actions([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.6, 0.0], [0.0, 0.0, 1.0]])
    study = _study("shuffle", actions=actions, safeguard=None)
    state = study.begin()
    plane = np.packbits([True, True, True, False]).tobytes()
    after = _exact(replace(state, active=plane), np.array([0.5, 0.4, 0.5, 0.0]))
    fit = fitted(study, after.history[0].unfitted)
    assert fit.spans(actions.matrix).tolist() == [True, True, True, False]
    assert np.isfinite(fit.target_widths(actions.matrix)).tolist() == [True, True, True, False]
    assert fit.target_radius(actions.matrix) == np.inf
    guarded = replace(study, safeguard=Safeguard(current=3, allowance=0.01))
    plan = ask(replace(after, study=guarded))
    assert (plan.support[-1], plan.rank, plan.offsets) == (3, 3, ())


def test_a_study_is_replayed_with_its_safeguard() -> None:
    study = _study()
    rng, people = np.random.default_rng(1), Population(_instance(1), heterogeneity=0.1)
    state, releases = study.begin(), list[Release]()
    while (plan := ask(state)).asks:
        reported = study.assignment_rule.simulate(plan, people, rng)
        releases.append(simulate_groups(plan, reported, SimulatedNoise(rng))[0])
        state = tell(state, plan, releases[-1])
    assert len(state.barred_actions)
    assert replay(study, releases) == state


def test_the_shares_add_up_to_the_failure_probability() -> None:
    study, others = _study(), ACTIONS.count - 1
    single = 7 * ACTIONS.count * 3 * study.bound_failure
    assert single + others * (sum(study.pair_failures) + 2 * study.loss_failure) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"current": 4}, "safeguard: got no limit"),
        ({"current": 4, "margin": -0.1}, "margin: got -0.1"),
        ({"current": 4, "allowance": 0.0}, "allowance: got 0.0"),
        ({"current": 12, "margin": 0.1}, "current: got 12"),
    ],
)
def test_impossible_safeguards_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidValue, match=told):
        _study(safeguard=Safeguard(**changes))


def test_a_safeguard_needs_a_confidence() -> None:
    with pytest.raises(InvalidValue, match="confidence: got None"):
        _study(confidence=None).begin()
