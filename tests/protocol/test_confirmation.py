"""The confirmation: the last cohort, which compares finalists with the current option without a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.answers import Knowledge, RewardRange, answer_of, confirmed_of
from dpbandits.errors import InvalidValue, NotEnoughClients
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Confirmation,
    Release,
    Schedule,
    State,
    Study,
    ask,
    leader,
    replay,
    reserved,
    simulate_groups,
    tell,
)
from dpbandits.protocol._confirmation_size import predicted_width
from dpbandits.world import Instance, Population
from tests.protocol.helpers import simulate_release

CENTRAL = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
SHORT = Schedule(cohorts=(300,), first_length=40)
ACTIONS = Actions.generate("sphere", count=12, dimension=3, rng=5)


def _study(**changes: Any) -> Study:
    given: dict[str, Any] = {
        "actions": ACTIONS,
        "horizon": 50_000,
        "privacy": CENTRAL,
        "schedule": SHORT,
        "bounded_rewards": False,
        "confirmation": Confirmation(current=4, cohort=400, plays=20),
    }
    return Study(**{**given, **changes})


def _bent(study: Study, current: float) -> Instance:
    """Return an instance whose current option is better than its features tell."""
    linear = Instance(study.actions, [0.5, 0.3, 0.1])
    means = linear.mean_rewards.copy()
    means[4] = means.max() + current
    return Instance(study.actions, linear.theta, measured=means)


def _run(study: Study, instance: Instance, seed: int = 0) -> tuple[State, list[Release]]:
    rng, crowd = np.random.default_rng(seed), Population(instance, heterogeneity=study.heterogeneity)
    state, releases = study.begin(), list[Release]()
    while not state.ended:
        plan, release = ask(state), None
        if plan.asks:
            reported = study.assignment_rule.simulate(plan, crowd, rng)
            release = simulate_groups(plan, reported, SimulatedNoise(rng))[0]
            releases.append(release)
        state = tell(state, plan, release)
    return state, releases


def test_the_confirmation_is_the_last_phase_that_asks_clients() -> None:
    study = _study()
    state, releases = _run(study, _bent(study, 0.0))
    assert [one.cohort for one in state.progress] == [300, 400, 0]
    assert len(state.history) == 1
    evidence = state.confirmation_evidence
    assert evidence is not None
    assert evidence.plan.support[-1] == 4
    assert len(set(evidence.plan.support)) == len(evidence.plan.support) <= 4
    assert set(evidence.plan.plays) == {20}
    assert state.clients_asked == 700
    assert state.progress[1].reports == 400
    again = replay(study, releases)
    assert (again.confirmation_evidence, again.active) == (evidence, state.active)


def test_a_wrong_model_does_not_decide_alone() -> None:
    # The current option is better than all others by 0.5, which its features do not tell. The half width of
    # the intervals is below 0.1, so the errors would have to be several times their radius.
    study = _study()
    state, _ = _run(study, _bent(study, 0.5))
    assert leader(replace(state, confirmation_evidence=None)) != 4
    assert leader(state) == 4
    assert ask(replace(state, rounds_played=state.rounds_played - 10)).support == (4,)
    found = confirmed_of(state, None, level=0.95, rewards=RewardRange())
    assert found is not None
    assert found.best == found.current == "action 4"
    assert found.decided
    assert str(found).startswith("action 4 beats all finalists, by at least 0.")
    answer = answer_of(state, None, level=0.95)
    assert (answer.confirmation, answer.action) == (found, 4)


def test_the_features_are_not_used() -> None:
    study = _study()
    state, _ = _run(study, _bent(study, 0.0))
    evidence = state.confirmation_evidence
    assert evidence is not None
    exact = (0.2, -0.1, 0.4, 0.1)[: evidence.plan.numbers]
    known = replace(state, confirmation_evidence=replace(evidence, means=exact))
    found = confirmed_of(known, None, level=0.95, rewards=RewardRange.of((0, 1)))
    assert found is not None
    differences = np.array(exact[:-1]) - exact[-1] if not evidence.plan.mixing else 2 * np.array(exact)
    assert sorted(one.estimate for one in found.compared) == pytest.approx(sorted(differences / 2))


@pytest.mark.parametrize(("assumes", "spread"), [("spread", 0.1), ("range", 0.9)])
def test_intervals_cover_a_truth_that_no_model_describes(assumes: str, spread: float) -> None:
    """Binary rewards of clients who like or dislike all options together, and means that are not linear.

    In 400 releases at level 0.8, more misses than the 1 − 10⁻⁶ quantile of a binomial, 120, are a failure. As
    a planted error, intervals of a third of the width must miss more often than that. Their probability of a
    miss is above 0.6; from 0.42 on, 400 releases have at most 120 misses with a probability below 10⁻⁶.
    """
    confirmation = Confirmation(current=4, cohort=500, plays=8, assumes=assumes)
    study = _study(bounded_rewards=True, confirmation=confirmation)
    state = _learnt(study)
    plan = ask(state)
    rng, truth = np.random.default_rng(7), np.array([0.05, -0.02, 0.01, 0.04])[: len(plan.support)]
    start = tell(
        state, plan, Release(plan=plan.digest, means=(0.0,) * plan.numbers, reports=500, simulated=True)
    )
    found = confirmed_of(start, None, level=0.8, rewards=RewardRange())
    assert found is not None
    assert not plan.mixing
    radii = np.array([one.high for one in found.compared])
    outside, narrow = 0, 0
    for _ in range(400):
        signs = rng.choice([-1, 1], size=(plan.cohort, 1)) * np.array([1, -1, 1, -1])[: len(truth)]
        averages = 2 * rng.binomial(8, (1 + np.clip(truth + spread * signs, -1, 1)) / 2) / 8 - 1
        means = np.array(simulate_release(plan, averages, SimulatedNoise(rng)).means)
        errors = np.abs(means[:-1] - means[-1] - truth[:-1] + truth[-1])
        outside, narrow = outside + bool((errors > radii).any()), narrow + bool((3 * errors > radii).any())
    assert outside <= binom.isf(1e-6, 400, 0.2) < narrow


def _learnt(study: Study) -> State:
    """Return a state after the learning phases, from a release of zeros."""
    state = study.begin()
    plan = ask(state)
    zeros = (0.0,) * plan.numbers
    return tell(state, plan, Release(plan=plan.digest, means=zeros, reports=plan.cohort, simulated=True))


@pytest.mark.parametrize(
    ("trust", "assumes"), [("none", "spread"), ("none", "range"), ("central", "spread"), ("shuffle", "range")]
)
def test_the_predicted_width_is_nearly_that_of_the_intervals(trust: str, assumes: str) -> None:
    confirmation = Confirmation(current=4, cohort=900, plays=16, assumes=assumes)
    privacy = PrivacyRequest(trust=trust, epsilon=1, delta=1e-6)
    study = _study(privacy=privacy, bounded_rewards=assumes == "range", confirmation=confirmation)
    state = _learnt(study)
    plan = ask(state)
    assert len(plan.support) == 4
    means = (0.0,) * plan.numbers
    state = tell(state, plan, Release(plan=plan.digest, means=means, reports=900, simulated=True))
    found = confirmed_of(state, None, level=0.95, rewards=RewardRange())
    assert found is not None
    assert found.compared[0].high == pytest.approx(predicted_width(study, confirmation), rel=0.04)
    # People who are drawn from a table without replacement are not independent, so bounds are wider.
    table = confirmed_of(state, None, level=0.95, rewards=RewardRange(), knowledge=Knowledge.TABLE)
    assert table is not None
    assert table.compared[0].high > 1.05 * found.compared[0].high


def test_participants_are_reserved() -> None:
    study = _study(confirmation=None)
    usual = reserved(study, 2000, current=4)
    assert usual is not None
    assert (usual.cohort, usual.current, usual.finalists) == (400, 4, 3)
    small = reserved(study, 10_000, current=4, width=0.05)
    assert small is not None
    assert (
        predicted_width(study, small)
        <= 0.05
        < predicted_width(study, replace(small, cohort=small.cohort - 1))
    )
    assert reserved(study, 20, current=4) is None  # the interval would be wider than half the range
    with pytest.raises(InvalidValue, match=r"confirmation width: got 0.001, expected more than 0.0"):
        reserved(study, 5000, current=4, width=0.001)
    planned = replace(study, confirmation=usual)
    with pytest.raises(NotEnoughClients):
        replace(planned, population=699)
    short = replace(planned, population=700, when_clients_run_out="stop")
    assert short.begin().clients_left == 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"confirmation": Confirmation(current=12, cohort=10)}, "current: got 12"),
        ({"assignment": "one_per_round"}, "assignment: got one_per_round, expected everyone"),
        ({"confirmation": Confirmation(current=1, cohort=10, assumes="range")}, "assumes: got range"),
    ],
)
def test_a_confirmation_that_a_study_cannot_have_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        _study(**changes)
