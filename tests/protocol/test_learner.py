"""The learner: plays, plans, elimination, replay, and studies that are refused."""

from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.actions import Actions
from dpbandits.design import certify, support_bound
from dpbandits.errors import InvalidValue, NotEnoughClients, PlanMismatch, ProtocolError, StudyEnded
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Release, Schedule, State, Study, ask, decode, encode, leader, replay, tell

from .helpers import run, small_study

TRUSTS = [("none", "tight"), ("none", "paper"), ("central", "tight"), ("local", "paper")]


@pytest.mark.parametrize(("trust", "preset"), TRUSTS)
def test_a_run_plays_exactly_the_horizon_and_reports_in_every_phase_but_a_cut_one(
    trust: str, preset: str
) -> None:
    states, plans, releases = run(small_study(trust, preset))
    assert sum(plan.rounds for plan in plans) == states[-1].rounds_played == 300
    assert [plan.phase for plan in plans] == list(range(1, len(plans) + 1))
    assert [plan.asks for plan in plans] == [True] * len(releases) + [False] * (len(plans) - len(releases))
    assert [plan.cohort for plan in plans if plan.asks] == [
        Schedule(alpha=0.7).cohort(plan.phase) for plan in plans if plan.asks
    ]


def test_the_schedule_of_plays_on_an_orthonormal_basis() -> None:
    # The optimal design on d orthonormal actions is uniform, so phase l plays each ⌈2^l/d⌉ times.
    # Local noise is so large that no action is dropped in these phases.
    study = small_study("local", "paper", actions=Actions(np.eye(3)), horizon=60)
    _, plans, _ = run(study)
    played = [plan.plays for plan in plans]
    assert played[:4] == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (6, 6, 6)]
    assert sum(sum(plays) for plays in played[:4]) == 36
    assert played[4] == (11, 11, 2)  # ⌈32/3⌉ = 11 each, cut at round 60
    assert not plans[4].asks


@pytest.mark.parametrize(("trust", "preset"), TRUSTS)
def test_designs_of_plans_keep_both_bounds(trust: str, preset: str) -> None:
    states, plans, _ = run(small_study(trust, preset, horizon=2000))
    for state, plan in zip(states, plans, strict=False):
        active = state.active_actions
        assert set(plan.support) <= set(active.tolist())
        if plan.asks:
            assert len(plan.support) <= support_bound(plan.rank)
            rows = state.study.actions.matrix[active]
            shares = np.array(plan.plays) / plan.rounds
            found = certify(rows, np.searchsorted(active, plan.support), shares)
            # V_l ≥ h·V(π), so ‖x‖² in V_l⁻¹ is at most g/h.
            assert found.g / plan.rounds <= 2 * plan.rank / state.study.schedule.length(plan.phase)


@pytest.mark.parametrize(("trust", "preset"), TRUSTS)
def test_replaying_stored_releases_rebuilds_the_state_exactly(trust: str, preset: str) -> None:
    study = small_study(trust, preset)
    states, plans, releases = run(study)
    stored = [encode(release) for release in releases]
    rebuilt = replay(study, (decode(data, Release) for data in stored))
    assert rebuilt == states[len(releases)]
    assert ask(rebuilt) == plans[len(releases)]


def test_replay_notices_a_changed_study_and_a_changed_order() -> None:
    study = small_study("central", "tight")
    _, _, releases = run(study)
    for other in (
        replace(study, bound=2.0),
        replace(study, privacy=replace(study.privacy, epsilon=9.0)),
        replace(study, actions=Actions.generate("sphere", count=30, dimension=3, rng=2)),
    ):
        with pytest.raises(PlanMismatch, match="replay of phase 1"):
            replay(other, releases)
    with pytest.raises(PlanMismatch, match="replay of phase 2"):
        replay(study, [releases[0], releases[2]])


def test_values_are_frozen_and_survive_json() -> None:
    study = small_study("central", "tight")
    states, plans, _ = run(study)
    for state in states:
        assert decode(encode(state), State, actions=study.actions) == state
    for plan in plans:
        assert decode(encode(plan), type(plan)) == plan
    with pytest.raises(FrozenInstanceError):
        plans[0].phase = 2  # type: ignore[misc]
    with pytest.raises(InvalidValue, match="digest"):
        decode(encode(states[0]), State, actions=Actions(np.eye(2)))


def test_messages_from_elsewhere_are_refused() -> None:
    study = small_study()
    states, plans, releases = run(study)
    state, plan, release = states[0], plans[0], releases[0]
    with pytest.raises(PlanMismatch):
        tell(state, plan, None)
    with pytest.raises(PlanMismatch):
        tell(state, plan, releases[1])
    with pytest.raises(PlanMismatch, match="needs .* means"):
        tell(state, plan, replace(release, means=release.means[1:]))
    with pytest.raises(PlanMismatch):
        tell(state, plans[1], releases[1])
    with pytest.raises(PlanMismatch):
        tell(small_study(bound=3.0).begin(), plan, release)
    with pytest.raises(ProtocolError, match="asks nobody"):
        tell(states[-2], plans[-1], replace(release, plan=plans[-1].digest))
    with pytest.raises(StudyEnded):
        ask(states[-1])
    with pytest.raises(InvalidValue, match="nan"):
        replace(release, means=(float("nan"), *release.means[1:]))


def test_elimination_is_that_of_the_paper_when_the_width_is_one_number() -> None:
    study = small_study("none", "paper", horizon=3000)
    states, plans, releases = run(study)
    shrank = 0
    for before, plan, release, after in zip(states, plans, releases, states[1:], strict=False):
        assert plan.digest == release.plan
        assert after.estimate is not None
        assert after.width is not None
        scores = study.actions.matrix[before.active_actions] @ np.array(after.estimate)
        kept = before.active_actions[~(scores.max() - scores > 2 * after.width)]
        np.testing.assert_array_equal(kept, after.active_actions)
        shrank += len(after.active_actions) < len(before.active_actions)
    assert shrank > 0


def test_a_population_that_is_too_small_is_refused_before_the_start() -> None:
    with pytest.raises(NotEnoughClients, match="162,211 clients.*has 100,000"):
        small_study(horizon=10**6, schedule=Schedule(alpha=0.9), population=10**5)


def test_a_study_may_stop_asking_and_play_its_best_guess() -> None:
    study = small_study(population=20, when_clients_run_out="stop", horizon=3000)
    states, plans, releases = run(study)
    assert states[-1].clients_asked <= 20
    assert sum(plan.rounds for plan in plans) == 3000
    assert plans[-1].support == (leader(states[-2]),)
    assert not plans[-1].asks
    assert len(releases) == len(plans) - 1
    assert replay(study, releases) == states[-2]


def test_nobody_at_all_to_ask() -> None:
    study = small_study(population=1, when_clients_run_out="stop", horizon=10)
    (plan,) = run(study)[1]
    assert plan.plays == (10,)


@pytest.mark.parametrize(
    "changes",
    [{"horizon": 0}, {"horizon": 10**16}, {"bound": 0.0}, {"heterogeneity": -1.0}, {"population": 0},
     {"when_clients_run_out": "x"}, {"design_tolerance": 1.0}],
)  # fmt: skip
def test_bad_studies_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(changes))):
        small_study(**changes)


@settings(max_examples=25)
@given(
    family=st.sampled_from(["sphere", "ball", "clustered", "low-rank"]),
    count=st.integers(1, 40),
    dimension=st.integers(2, 6),
    horizon=st.integers(1, 400),
    trust=st.sampled_from(["none", "central", "local"]),
    seed=st.integers(0, 10**6),
)
def test_invariants_of_any_run(
    family: str, count: int, dimension: int, horizon: int, trust: str, seed: int
) -> None:
    study = Study(
        actions=Actions.generate(family, count=count, dimension=dimension, rng=seed),
        horizon=horizon,
        privacy=PrivacyRequest(trust=trust, epsilon=1, delta=1e-3),
        schedule=Schedule.exponential(),
    )
    states, plans, releases = run(study, seed)
    assert sum(plan.rounds for plan in plans) == horizon
    for before, after in itertools.pairwise(states):
        assert set(after.active_actions) <= set(before.active_actions)
        assert len(after.active_actions) >= 1
    assert replay(study, releases) == states[len(releases)]


@pytest.mark.parametrize(
    ("minimum_share", "silent_share"), [(1.0, 0.5), (0.6, 0.25), (0.01, 0.99), (0.5, 0.9)]
)
def test_a_study_may_ask_for_noise_that_covers_silent_clients(
    minimum_share: float, silent_share: float
) -> None:
    privacy = PrivacyRequest(
        trust="shuffle", epsilon=5, delta=1e-3, minimum_share=minimum_share, silent_share=silent_share
    )
    smallest = privacy.smallest_cohort
    assert privacy.minimum_reports(smallest) * (1 - silent_share) >= 1 - 1e-9
    Study(
        actions=Actions.generate("sphere", count=5, dimension=2, rng=1),
        horizon=1000,
        privacy=privacy,
        schedule=Schedule(cohorts=(smallest,), first_length=20, growth=4),
    )
