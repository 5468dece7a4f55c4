"""The rules at the head of rounds/_machine.py, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dpbandits.errors import FloatingPointNoise, InvalidValue, PlanMismatch, Refused, Unreachable
from dpbandits.privacy import PrivacyRequest, SecureNoise, SimulatedNoise
from dpbandits.protocol import Plan, Report, Study, Sums, add_up, nothing, respond_with_averages
from dpbandits.rounds import Deadlines, GroupRounds, Rounds
from dpbandits.storage import Attempt, MemoryStore

from ..service.helpers import SetClock, small_study  # noqa: TID252

NAMES = tuple("abcdef")


def noise(seed: int = 5) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def report(plan: Plan, value: float = 0.5, seed: int = 0) -> Report:
    return respond_with_averages(plan, [value] * len(plan.support), noise(seed))


@dataclass
class Begun:
    """Rounds whose first attempt is where a test wants it."""

    study: Study = field(default_factory=lambda: small_study("central", share=0.5))
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: SetClock = field(default_factory=SetClock)
    collector: Aggregator | None = None
    deadlines: Deadlines = field(default_factory=lambda: Deadlines(report_seconds=60, join_seconds=30))

    def __post_init__(self) -> None:
        self.rounds = Rounds(
            self.study,
            self.store,
            clock=self.clock,
            noise=noise(),
            deadlines=self.deadlines,
            collector=self.collector,
        )
        self.rounds.settle()

    def joined(self, *names: str) -> Attempt:
        self.rounds.join(*(names or NAMES))
        latest = self.rounds.settle()
        assert latest is not None
        return latest

    def played(self) -> Attempt:
        latest = self.joined()
        self.rounds.record_rounds(1, latest.number, self.rounds.plan(1).rounds)
        latest = self.rounds.settle()
        assert latest is not None
        return latest


@dataclass
class Aggregator:
    """A collector: reports never reach the rounds."""

    reachable: bool = True
    collecting: bool = True
    reports: list[Report] = field(default_factory=list)

    def _check(self) -> None:
        if not self.reachable:
            raise Unreachable("the aggregator")

    def open(self, _plan: Plan, _attempt: Attempt) -> None:
        self._check()

    def is_collecting(self, _attempt: Attempt) -> bool:
        self._check()
        return self.collecting

    def close(self, plan: Plan, _attempt: Attempt) -> Sums | None:
        self._check()
        return add_up(plan, nothing(plan), [one.payload for one in self.reports]) if self.reports else None


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(Refused) as found:
        work()
    return found.value.reason


def test_a_report_is_accepted_once() -> None:
    begun = Begun()
    assert begun.rounds.plan(1).cohort == 6
    early = begun.joined()
    plan, rounds = begun.rounds.plan(1), begun.rounds
    assert refusal(lambda: rounds.accept(early, [("a", report(plan))])) == "closed"
    rounds.record_rounds(1, 1, plan.rounds)
    latest = rounds.settle()
    assert latest is not None
    assert rounds.unreported() == list(NAMES)
    for _ in range(2):
        rounds.accept(latest, [("a", report(plan))])
    assert rounds.unreported() == list(NAMES[1:])
    other = report(plan, -0.5)
    assert refusal(lambda: rounds.accept(latest, [("b", other), ("a", other)])) == "already-reported"
    assert refusal(lambda: rounds.accept(latest, [("z", other)])) == "not-joined"
    assert rounds.unreported() == list(NAMES[1:])  # nothing of a refused call was taken in
    with pytest.raises(PlanMismatch):
        rounds.accept(latest, [("b", replace(other, plan="0" * 64))])


def test_rounds_are_counted_from_the_start_of_the_attempt() -> None:
    begun = Begun()
    rounds, total = begun.rounds, begun.rounds.plan(1).rounds
    assert refusal(lambda: rounds.record_rounds(1, 1, 1)) == "not-playing"
    begun.joined()
    for played in (5, 3, 5):
        rounds.record_rounds(1, 1, played)
    latest = rounds.current()
    assert latest is not None
    assert latest.played == 5
    assert refusal(lambda: rounds.record_rounds(1, 1, total + 1)) == "too-many-rounds"
    assert refusal(lambda: rounds.record_rounds(1, 2, 1)) == "not-playing"


def test_a_phase_starts_short_after_the_time_to_join_with_the_minimum() -> None:
    begun = Begun()
    assert begun.joined("a", "b").state == "gathering"
    begun.clock.time += 31
    begun.rounds.settle()
    assert begun.joined("c").state == "playing"
    assert begun.rounds.minimum(begun.rounds.plan(1)) == 3


def test_reports_after_the_deadline_are_refused_and_too_few_fail() -> None:
    begun = Begun()
    latest, plan = begun.played(), begun.rounds.plan(1)
    begun.rounds.accept(latest, [("a", report(plan)), ("b", report(plan))])
    begun.clock.time += 61
    again = begun.rounds.settle()
    assert again is not None
    assert (again.phase, again.number, again.state) == (1, 2, "gathering")
    assert refusal(lambda: begun.rounds.accept(latest, [("c", report(plan))])) == "closed"
    assert refusal(lambda: begun.rounds.join("c")) == "already-asked"
    with begun.store.transaction() as transaction:
        assert list(transaction.reports(1, 1)) == []
        assert transaction.releases() == transaction.progress() == ()


def test_a_collector_is_waited_for_and_clients_have_time_again() -> None:
    aggregator = Aggregator()
    begun = Begun(study=small_study("shuffle", share=0.5), collector=aggregator)
    aggregator.reachable = False
    begun.joined()
    begun.rounds.record_rounds(1, 1, begun.rounds.plan(1).rounds)
    with pytest.raises(Unreachable):
        begun.rounds.settle()
    aggregator.reachable = True
    latest = begun.rounds.settle()
    assert latest is not None
    assert latest.state == "collecting"
    aggregator.reports = [report(begun.rounds.plan(1), seed=seed) for seed in range(5)]
    begun.clock.time += 61
    aggregator.reachable = False
    with pytest.raises(Unreachable):
        begun.rounds.settle()
    aggregator.reachable = True
    begun.rounds.settle()
    begun.clock.time += 59
    assert begun.rounds.settle() == replace(latest, since=begun.clock.time - 59)
    begun.clock.time += 2
    begun.rounds.settle()
    assert begun.rounds.state.progress[0].reports == 5


def test_groups_need_a_collector() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidValue, match="collector: got None, expected a Collector"):
        GroupRounds(small_study("central"), store)
    with store.transaction() as transaction:
        assert transaction.study() is None


def test_a_study_that_rounds_cannot_run_is_refused() -> None:
    with pytest.raises(InvalidValue, match="assignment: got one_per_round"):
        Rounds(small_study("none", assignment="one_per_round"), MemoryStore())
    gaussian = small_study("central", privacy=PrivacyRequest(trust="central", noise="gaussian"))
    with pytest.raises(FloatingPointNoise):
        Rounds(gaussian, MemoryStore(), noise=SecureNoise())
    begun = Begun()
    with pytest.raises(InvalidValue, match="one store serves one study"):
        Rounds(small_study("central", horizon=30_000), begun.store)


def test_progress_that_is_missing_is_filled_in_when_a_store_is_opened() -> None:
    """As in a store of an older version, which kept none."""
    begun = Begun()
    latest, plan = begun.played(), begun.rounds.plan(1)
    begun.rounds.accept(latest, [(name, report(plan)) for name in NAMES])
    begun.rounds.settle()
    with begun.store.transaction() as transaction:
        before = transaction.progress()
    assert len(before) == 1
    begun.store._tables.progress.clear()
    again = Rounds(begun.study, begun.store)
    with begun.store.transaction() as transaction:
        assert transaction.progress() == before
    assert again.state == begun.rounds.state
