"""A deployed study without a network: the service's own state machines, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from dpbandits.actions import Actions
from dpbandits.errors import Refused, Unreachable
from dpbandits.options import Options
from dpbandits.privacy import NoiseSource, PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Plan,
    Release,
    Report,
    Schedule,
    State,
    Study,
    analyze,
    ask,
    decode,
    respond_with_averages,
    shuffle,
    tell,
)
from dpbandits.service.coordinator import Context, Coordinator, Watermark
from dpbandits.service.shared import ShufflerAddress, Timing
from dpbandits.service.shared._common_endpoints import accept
from dpbandits.service.shuffler import Shuffler, ShufflerContext
from dpbandits.service.wire import (
    SHARED_MODES,
    CollectionReply,
    CollectionRequest,
    KeyPair,
    Place,
    ProvedReports,
    PublicKey,
    bound_share,
    hashed,
    new_secret,
    split_shares,
)
from dpbandits.storage import MemoryStore, Store

MODELS = [
    ("none", None),
    ("central", None),
    ("local", None),
    ("shuffle", "trusted"),
    ("shuffle", "split"),
    ("shuffle", "verified"),
]
THETA = np.array([0.8, 0.5, 0.1])


@cache
def small_study(trust: str, **changes: Any) -> Study:
    privacy = PrivacyRequest(trust=trust, epsilon=20, delta=1e-3, minimum_share=changes.pop("share", 1.0))
    defaults: dict[str, Any] = {
        "actions": Actions.generate("sphere", count=12, dimension=3, rng=3),
        "horizon": 20_000,
        "privacy": privacy,
        "schedule": Schedule(cohorts=(6, 10), first_length=60, growth=8),
    }
    return Study(**{**defaults, **changes})


class SetClock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class NearLink:
    """A link to a shuffler in the same process; with `reachable` set to False it fails."""

    def __init__(self, shuffler: Shuffler) -> None:
        self.shuffler = shuffler
        self.reachable = True

    def _run(self, work: Callable[..., Any]) -> Any:
        if not self.reachable:
            raise Unreachable
        return self.shuffler.writer.run("call", work, alone=True)

    def open(self, phase: int, attempt: int, request: CollectionRequest) -> CollectionReply:
        opening = self.shuffler.checked(phase, request)
        return self._run(lambda t: self.shuffler.open(t, phase, attempt, opening))

    def look(self, phase: int, attempt: int) -> CollectionReply:
        return self._run(lambda t: self.shuffler.look(t, phase, attempt))

    def close(self, phase: int, attempt: int) -> CollectionReply:
        return self._run(lambda t: self.shuffler.close(t, phase, attempt))

    def shares(self, phase: int, attempt: int) -> Iterator[tuple[str, bytes]]:
        after = ""
        while True:
            last = after
            found = self._run(lambda t, last=last: self.shuffler.shares(t, phase, attempt, last)).shares
            yield from found
            if not found:
                return
            after = found[-1][0]

    def verifiers(self, phase: int, attempt: int) -> Iterator[list[tuple[str, bytes, bytes]]]:
        after = ""
        while True:
            last = after
            page = self._run(lambda t, last=last: self.shuffler.page(t, phase, attempt, last))
            found = self.shuffler.verifiers(page).verifiers
            if not found:
                return
            yield found
            after = found[-1][0]

    def sums(self, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        return self._run(lambda t: self.shuffler.sums(t, phase, attempt, without))


def client_noise(pseudonym: str) -> SimulatedNoise:
    """Return noise that depends only on the client's pseudonym, so that tests can draw it again."""
    return SimulatedNoise(np.random.default_rng(int(pseudonym[:16], 16)))


def client_averages(actions: Actions, plan: Plan, pseudonym: str) -> list[float]:
    rng = np.random.default_rng(int(pseudonym[16:32], 16))
    means = actions.matrix[list(plan.support)] @ THETA[: actions.dimension]
    return (means + rng.normal(scale=0.05, size=len(means))).tolist()


def sealed_body(
    plan: Plan,
    report: Report,
    place: Place,
    coordinator: PublicKey,
    shuffler: PublicKey | None,
    mode: str,
    credential: str,
) -> bytes:
    if mode not in SHARED_MODES or shuffler is None:
        return (shuffler or coordinator).seal(report.payload, place, "report")
    proved = ProvedReports.of(plan, place) if mode == "verified" else None
    one, other = split_shares(plan, report.payload) if proved is None else proved.parts(report.payload)
    mine = shuffler.seal(one, place, "share-shuffler")
    return mine + coordinator.seal(bound_share(other, place, credential), place, "share-coordinator")


@dataclass
class Member:
    """The secrets of one client in the tests."""

    token: str
    ticket: str = field(default_factory=new_secret)

    @property
    def pseudonym(self) -> str:
        return hashed(self.ticket)


@dataclass
class Deployment:
    """A coordinator, its shuffler if it has one, and methods that act for the clients and the actuator."""

    study: Study
    mode: str | None
    store: Store = field(default_factory=MemoryStore)
    shuffler_store: Store = field(default_factory=MemoryStore)
    clock: SetClock = field(default_factory=SetClock)
    keys: KeyPair = field(default_factory=KeyPair.new)
    shuffler_keys: KeyPair = field(default_factory=KeyPair.new)
    timing: Timing = field(default_factory=lambda: Timing(report_seconds=60, poll_seconds=1))
    seed: int = 5
    shuffler_url: str = "http://shuffler.test"
    hook: Callable[[str], None] = lambda _step: None
    noise: NoiseSource | None = None
    watermark: Watermark | None = None
    options: Options | None = None

    def __post_init__(self) -> None:
        self.link: NearLink | None = None
        if self.mode is not None:
            context = ShufflerContext(keys=self.shuffler_keys, mode=self.mode, hook=self.hook)
            self.link = NearLink(Shuffler(context, self.shuffler_store))
        self.noise = self.noise or SimulatedNoise(np.random.default_rng(self.seed))
        self.start()

    def start(self) -> None:
        """Start the coordinator, or restart it after a crash."""
        assert self.noise is not None
        address = None
        if self.mode is not None:
            key = str(self.shuffler_keys.public)
            address = ShufflerAddress(url=self.shuffler_url, key=key, mode=self.mode)
        context = Context(
            study=self.study.without_terms,
            options=self.options,
            keys=self.keys,
            timing=self.timing,
            shuffler=address,
            noise=self.noise,
            clock=self.clock,
            hook=self.hook,
            watermark=self.watermark,
        )
        self.coordinator = Coordinator(context, self.store, self.link)
        self.context = self.coordinator.context
        self.study = self.context.study  # this one includes the digest of the terms

    def run(self, work: Callable[..., Any]) -> Any:
        return self.coordinator.writer.run("test", work)

    def advance(self) -> None:
        for _ in range(20):
            if not self.coordinator.advance():
                return
        raise AssertionError("the study does not come to rest")

    def enrolled(self, count: int) -> list[Member]:
        codes = self.coordinator.operator.new_codes(count).codes
        self.run(lambda t: self.coordinator.operator.keep_codes(t, codes))
        members = [Member(token=new_secret()) for _ in codes]
        for code, member in zip(codes, members, strict=True):
            self.run(lambda t, c=code, m=member: self.coordinator.clients.enrol(t, c, hashed(m.token)))
        return members

    def task(self, member: Member) -> Any:
        return self.run(lambda t: self.coordinator.clients.task(t, member.token, member.pseudonym))

    def join(self, count: int) -> list[Member]:
        members = self.enrolled(count)
        for member in members:
            assert self.task(member).state == "joined"
        self.advance()
        return members

    def play(self) -> None:
        schedule = self.run(self.coordinator.actuator.schedule)
        phase, attempt, rounds = schedule.phase, schedule.attempt, schedule.rounds
        self.run(lambda t: self.coordinator.actuator.rounds(t, phase, attempt, rounds))
        self.advance()

    def body(self, member: Member) -> bytes:
        task = self.task(member)
        plan = decode(task.plan, Plan)
        averages = client_averages(self.study.actions, plan, member.pseudonym)
        report = respond_with_averages(plan, averages, client_noise(member.pseudonym))
        place = self.context.place(plan, task.attempt, member.pseudonym)
        shuffler = None if self.mode is None else self.shuffler_keys.public
        credential = hashed(member.token)
        return sealed_body(plan, report, place, self.keys.public, shuffler, self.mode or "", credential)

    def send(self, member: Member, body: bytes) -> None:
        task = self.task(member)
        if self.link is None:
            plan = self.run(lambda t: self.coordinator.rounds.journal.plan(t, task.phase))
            slot = self.coordinator.clients.slot(plan, task.attempt, member.ticket)
            keys, writer = self.keys, self.coordinator.writer
        else:
            shuffler = self.link.shuffler
            known = shuffler.writer.run("read", lambda t: shuffler.load_plan(t, task.phase))
            assert known is not None
            slot = shuffler.slot(known, task.attempt, member.ticket)
            keys, writer = self.shuffler_keys, shuffler.writer
        report = slot.received(body)
        slot.check(keys.open(report.sealed, slot.place, slot.purpose))
        accept(writer.submit("report", report).result())

    def collect(self, reports: int = 6) -> list[Member]:
        """Let six clients join and play, and the first ones report. Return all six."""
        self.advance()
        members = self.join(6)
        self.play()
        for member in members[:reports]:
            self.send(member, self.body(member))
        return members

    def report(self, members: list[Member]) -> None:
        for member in members:
            self.send(member, self.body(member))
        if self.mode is not None:
            self.clock.time += self.timing.report_seconds + 1
        self.advance()

    def whole_study(self) -> dict[int, list[str]]:
        """Run the study to its end, and return the pseudonyms that reported in each phase."""
        reported = dict[int, list[str]]()
        self.advance()
        while not self.coordinator.ended:
            status = self.run(self.coordinator.operator.status)
            members = self.join(status.cohort) if status.state == "gathering" else []
            self.play()
            if members:
                self.report(members)
                reported[status.phase] = [member.pseudonym for member in members]
        return reported

    def close(self) -> None:
        self.coordinator.close()
        if self.link is not None:
            self.link.shuffler.close_store()


def expected_course(study: Study, reported: dict[int, list[str]], seed: int = 5) -> list[State]:
    """Return the states that the protocol's functions give in one loop, with the same rewards and noise."""
    states, noise = [study.begin()], SimulatedNoise(np.random.default_rng(seed))
    while not states[-1].ended:
        plan, release = ask(states[-1]), None
        if plan.asks:
            release = released(study, plan, reported[plan.phase], noise)
        states.append(tell(states[-1], plan, release))
    return states


def released(study: Study, plan: Plan, pseudonyms: list[str], noise: SimulatedNoise) -> Release:
    reports = [
        respond_with_averages(plan, client_averages(study.actions, plan, name), client_noise(name))
        for name in sorted(pseudonyms)
    ]
    return analyze(plan, shuffle(plan, reports, SimulatedNoise(np.random.default_rng(0))), noise)


def refused(work: Callable[[], Any]) -> str:
    try:
        work()
    except Refused as refusal:
        return refusal.reason
    return "nothing was refused"
