"""A carrier in a few lines: participants are plain names, and the rounds let each take part once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import Refused
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Report, Schedule, Study, respond_with_averages
from dpbandits.rounds import Rounds
from dpbandits.storage import Store, open_store

ACTIONS = Actions.generate("sphere", count=12, dimension=3, rng=3)
STUDY = Study(
    actions=ACTIONS,
    horizon=5_000,
    privacy=PrivacyRequest(trust="central", epsilon=20, delta=1e-3, minimum_share=0.5),
    schedule=Schedule(cohorts=(6,), first_length=60),
)
NOISE = SimulatedNoise(np.random.default_rng(1))


def answer(rounds: Rounds, phase: int) -> Report:
    plan = rounds.plan(phase)
    averages = ACTIONS.matrix[list(plan.support)] @ np.array([0.8, 0.5, 0.1])
    return respond_with_averages(plan, averages.tolist(), NOISE)


def carry(rounds: Rounds, crowd: list[str]) -> None:
    """The whole carrier: `crowd` has six names per attempt; participants called "quiet…" never report."""
    while (latest := rounds.pending()) is not None:
        if latest.state == "gathering":
            rounds.join(*[crowd.pop() for _ in range(rounds.plan(latest.phase).cohort)])
        elif latest.state == "playing":
            rounds.record_rounds(latest.phase, latest.number, rounds.plan(latest.phase).rounds)
        else:
            names = [name for name in rounds.unreported() if not name.startswith("quiet")]
            rounds.accept(latest, [(name, answer(rounds, latest.phase)) for name in names])
            rounds.end_wait()


def opened(path: Path) -> Store:
    return open_store(f"sqlite:///{path / 'study.sqlite'}")


def test_nobody_takes_part_twice(tmp_path: Path) -> None:
    rounds = Rounds(STUDY, opened(tmp_path), noise=NOISE)
    rounds.settle()
    plan = rounds.join("alice")
    assert plan.phase == 1
    with pytest.raises(Refused, match="already-asked: 'alice' has taken part"):
        rounds.join("alice")
    with pytest.raises(Refused, match="already-asked"):  # all or none
        rounds.join("bob", "alice")
    assert rounds.join("bob") == plan
    with pytest.raises(Refused, match="no-place"):
        rounds.join(*"cdefg")


def test_a_dropout_is_survived_and_too_many_lead_to_fresh_participants(tmp_path: Path) -> None:
    store = opened(tmp_path)
    fresh = [f"fresh-{number}" for number in range(5)]
    crowd = ["quiet-late", *fresh, *"ab", *(f"quiet-{number}" for number in range(4))]  # popped from the end
    rounds = Rounds(STUDY, store, noise=NOISE)
    carry(rounds, crowd)
    with store.transaction() as transaction:
        states = [(one.phase, one.number, one.state) for one in transaction.attempts()]
        assert list(transaction.reports(1, 1)) == list(transaction.reports(1, 2)) == []
    assert states == [(1, 1, "failed"), (1, 2, "released"), (2, 1, "done")]
    assert rounds.state.progress[0].reports == 5


class KilledError(Exception):
    pass


STEPS = (
    "begin",
    "ask",
    "join",
    "gathered",
    "rounds",
    "played",
    "report",
    "end-wait",
    "closed",
    "release",
    "learn",
)


@pytest.mark.parametrize("step", [f"{name}-{when}-commit" for name in STEPS for when in ("before", "after")])
def test_a_crash_at_any_step_loses_nothing_and_asks_nobody_twice(step: str, tmp_path: Path) -> None:
    def die(here: str) -> None:
        if here == step:
            raise KilledError

    crowd = list("abcdefghijkl")
    with pytest.raises(KilledError):
        carry(Rounds(STUDY, opened(tmp_path), noise=NOISE, hook=die), crowd)
    store = opened(tmp_path)
    with store.transaction() as transaction:
        before, asked = transaction.releases(), transaction.members(1, 1)
    rounds = Rounds(STUDY, store, noise=NOISE)
    carry(rounds, crowd if asked else list("abcdefghijkl"))
    with store.transaction() as transaction:
        assert transaction.releases()[: len(before)] == before
        assert len(transaction.releases()) == 1
        assert [record.phase for record in transaction.progress()] == [1, 2]
        assert len(transaction.members(1, 1)) == 6
    assert rounds.state.progress[0].reports == 6
    assert Rounds(STUDY, store).state == rounds.state
