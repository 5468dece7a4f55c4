"""A study with Python functions as clients: what it learns, dropouts, and going on after an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dpbandits
from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import Plan, State, Study, analyze, ask, respond_with_averages, shuffle, tell
from dpbandits.rounds import Rounds, give_order, run_in_process
from dpbandits.storage import MemoryStore, Store, open_store

from ..service.helpers import client_averages, client_noise, small_study  # noqa: TID252

NAMES = [f"{number:064x}" for number in range(40)]


def clients(study: Study) -> dict[str, object]:
    return {name: lambda plan, name=name: client_averages(study.actions, plan, name) for name in NAMES}


def alone(study: Study, reported: dict[int, list[str]], seed: int) -> State:
    """The protocol's functions in one loop, fed with the same rewards and the same noise."""
    state, noise = study.begin(), SimulatedNoise(np.random.default_rng(seed))
    while not state.ended:
        plan, release = ask(state), None
        if plan.phase in reported:
            averages = [client_averages(study.actions, plan, name) for name in reported[plan.phase]]
            reports = [respond_with_averages(plan, one, noise) for one in averages]
            release = analyze(plan, shuffle(plan, reports, client_noise(NAMES[0])), noise)
        state = tell(state, plan, release)
    return state


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_a_study_learns_what_the_protocol_alone_would(trust: str) -> None:
    study = small_study(trust)
    noise = SimulatedNoise(np.random.default_rng(5))
    played = list[tuple[int, int]]()
    state = dpbandits.run_in_process(
        study, averages=clients(study), noise=noise, play=lambda *told: played.append(told)
    )
    assert state == alone(study, {1: NAMES[:6], 2: NAMES[6:16]}, 5)
    assert sum(rounds for _, rounds in played) == study.horizon


def test_a_closed_study_ends_and_a_paused_one_is_refused() -> None:
    study, store = small_study("none"), MemoryStore()
    rounds = Rounds(study, store)
    rounds.settle()
    for order, message in (("pause", "no-place: the operator has paused the study"), ("close", None)):
        with store.transaction() as transaction:
            give_order(transaction, order, 0.0)
        if message is None:
            assert run_in_process(study, averages=clients(study), store=store).phase == 1
        else:
            with pytest.raises(Refused, match=message):
                run_in_process(study, averages=clients(study), store=store)


def test_rewards_of_single_rounds_are_averaged() -> None:
    study, seen = small_study("none"), list[int]()

    def reward(action: int) -> float:
        seen.append(action)
        return float("nan") if action % 2 else 0.25

    store = MemoryStore()
    state = run_in_process(study, rewards=dict.fromkeys(NAMES, reward), store=store)
    assert state.ended
    plan = ask(study.begin())
    assert seen[: plan.rounds] == [a for a, n in zip(plan.support, plan.plays, strict=True) for _ in range(n)]
    with store.transaction() as transaction:
        assert len(transaction.releases()) == 2


def test_dropouts_are_left_out_and_too_many_lead_to_fresh_clients(tmp_path: Path) -> None:
    study, store = small_study("central", share=0.5), open_store(f"sqlite:///{tmp_path / 'study.sqlite'}")
    quiet = {**clients(study), **dict.fromkeys(NAMES[:4], lambda _plan: None), NAMES[7]: lambda _plan: None}
    state = run_in_process(study, averages=quiet, store=store)
    with store.transaction() as transaction:
        attempts = [(one.phase, one.number, one.state) for one in transaction.attempts()]
    assert attempts == [(1, 1, "failed"), (1, 2, "released"), (2, 1, "released"), (3, 1, "done")]
    assert [one.reports for one in state.progress] == [5, 10, 0]


class CrashError(Exception):
    pass


def test_it_goes_on_after_an_interruption_and_asks_nobody_twice(tmp_path: Path) -> None:
    study, answered = small_study("central"), list[str]()

    def once(store: Store, *, fails_at: str = "") -> State:
        def client(name: str, plan: Plan) -> list[float]:
            if name == fails_at:
                raise CrashError
            answered.append(name)
            return client_averages(study.actions, plan, name)

        those = {name: lambda plan, name=name: client(name, plan) for name in NAMES}
        return run_in_process(study, averages=those, store=store)

    for name in (NAMES[0], NAMES[6]):  # the first of each cohort: nothing of the cohort is taken in before
        with pytest.raises(CrashError):
            once(open_store(f"sqlite:///{tmp_path / 'study.sqlite'}"), fails_at=name)
    store = open_store(f"sqlite:///{tmp_path / 'study.sqlite'}")
    state = once(store)
    assert state.ended
    assert answered == NAMES[:16]
    assert run_in_process(study, averages={}, store=store) == state


def test_too_few_clients_are_named_and_more_may_come(tmp_path: Path) -> None:
    study, store = small_study("central"), open_store(f"sqlite:///{tmp_path / 'study.sqlite'}")
    some = dict(list(clients(study).items())[:10])
    with pytest.raises(InvalidValue, match="clients: got 4 .* expected at least 10 for phase 2"):
        run_in_process(study, averages=some, store=store)
    assert run_in_process(study, averages=clients(study), store=store).ended


def test_one_kind_of_clients_is_given() -> None:
    for given in ({}, {"rewards": {}, "averages": {}}):
        with pytest.raises(InvalidValue, match="rewards"):
            run_in_process(small_study("none"), **given)
