"""One faulty run: a small study from beginning to end, in forked parties that are killed on the way."""

from __future__ import annotations

import hashlib
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from dpbandits.protocol import Schedule, Study
from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import KeyPair, PartyTerms, SignedTerms, SigningKey, terms_of
from tests.service.helpers import expected_course, small_study

from .actors import Actor, Desk, Operator, Person, Player
from .checker import Checker
from .claims import Claims, Post
from .faults import Case
from .liars import Liar
from .lies import Fault
from .lying_actuator import LyingPlayer
from .lying_coordinator import LyingCoordinator
from .lying_shuffler import LyingShuffler
from .network import Network
from .party import Delivery, Site, Work
from .processes import NO_STORE, Died, Party

COHORTS = (6, 10)
CROWD = 24  # clients that are about at the same time, if none is spent
MOST_TURNS = 6000
MEMORY = Path("/dev/shm")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is wrong after a run, if anything, and the faults that it met."""

    case: Case
    problems: tuple[str, ...]
    met: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failed_attempts: int = 0
    messages: int = 0


@cache
def study_for(trust: str, noise: str = "") -> Study:
    """Small; whatever can be remembered of its plans is, before anybody forks."""
    study = small_study(trust, share=0.5, schedule=Schedule(cohorts=COHORTS, first_length=60, growth=8))
    if noise:
        study = replace(study, privacy=replace(study.privacy, noise=noise))
    expected_course(study, {1: ["0" * 64] * COHORTS[0], 2: ["0" * 64] * COHORTS[1]})
    return study


def run_case(case: Case) -> Outcome:
    """Play it to the end, and look at what is left."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        world = play(case, Path(directory))
        problems = examine(world)
    status = world.desk.status
    return Outcome(
        case=case,
        problems=tuple(problems),
        met=world.all_met,
        steps=world.steps,
        seconds=time.perf_counter() - began,
        failed_attempts=0 if status is None else status.failed_attempts,
        messages=world.network.count,
    )


def play(case: Case, directory: Path) -> World:
    """The run alone."""
    keys = {name: KeyPair.new() for name in ("coordinator", "shuffler")}
    world = World(case, site_for(case, directory, keys))
    try:
        world.run()
    finally:
        world.stop()
    return world


def site_for(case: Case, directory: Path, keys: dict[str, KeyPair]) -> Site:
    """The study under terms that follow from the seed, as both parties and the checker know it."""
    study, shuffler = study_for(case.trust, case.noise), None
    if case.mode is not None:
        shuffler = PartyTerms(url="http://shuffler", key=str(keys["shuffler"].public))
    own = PartyTerms(url="http://coordinator", key=str(keys["coordinator"].public))
    run = hashlib.sha256(f"{case.seed}".encode()).hexdigest()[:32]
    terms = terms_of(study, run=run, coordinator=own, shuffler=shuffler, mode=case.mode or "")
    key = SigningKey.new()
    signed = SignedTerms.of(terms).sign(key)
    study = replace(study, terms=signed.digest)
    return Site(
        directory=directory, study=study, mode=case.mode, keys=keys, signed=signed, operator=key.public
    )


def examine(world: World) -> list[str]:
    """What went wrong on the way; if nothing did, what is wrong with what is left."""
    problems = [*world.problems, *world.network.problems]
    if problems:
        return problems
    names = {person.pseudonym for person in world.people}
    checker = Checker(
        world.site,
        world.network.accepted,
        world.desk.released,
        names,
        claims=world.claims,
        told=world.shuffler.told,
    )
    return checker.problems()


@dataclass
class _Machine:
    """The state of what a party runs on."""

    party: Party
    down_until: int = 0
    disk: str = ""
    free_at: int = 0


class World:
    """Time, machines, network and people."""

    def __init__(self, case: Case, site: Site) -> None:
        self.case, self.site = case, site
        self.rng = random.Random(f"world {case.seed}")
        self.claims = Claims()
        self.network = Network(case, self._deliver, self.claims)
        self.shuffler = LyingShuffler(self._faults("shuffler-lie"), site, self.claims)
        self.coordinator = LyingCoordinator(self._faults("coordinator-lie"))
        self.steady, self.offset, self.away_until, self.turn = 0.0, 1e9, 0.0, 0
        self.problems: list[str] = []
        self.met, self.steps = Counter[str](), Counter[str]()
        self.desk = Desk(wanted=CROWD)
        self.people: list[Person] = []
        self.liar = LyingPlayer(self._faults("actuator-lie"))
        self.staff: list[Actor] = [Operator(self.desk), Player(), self.liar]
        kinds = ("kill-at-time", "disk-full", "clock-jump", "shuffler-away")
        self._pending = sorted(self._faults(*kinds), key=lambda fault: fault.at)
        self._kill_after: dict[str, float] = {}
        names = ["coordinator"] if case.mode is None else ["coordinator", "shuffler"]
        self.machines = {name: _Machine(self._party(name)) for name in names}

    def _faults(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self.case.faults if fault.kind in kinds]

    @property
    def all_met(self) -> Counter[str]:
        """Faults and lies that happened."""
        people = Counter(kind for one in self.people for kind in one.met)
        liars = self.shuffler.met + self.coordinator.met + Counter(self.liar.met)
        return self.met + self.network.met + people + liars

    def _party(self, name: str) -> Party:
        mine = [fault for fault in self._faults("kill-at-step") if fault.party == name]
        kill = {fault.step: int(fault.value) for fault in mine}
        return Party(self.site, name, kill, self._link)

    def run(self) -> None:
        """Turn after turn until the operator has seen the end, or the study stops because its shuffler has
        lied; then all starts again, and what was under way arrives.
        """
        while not self.problems and not self._ended:
            self._take_turn()
            if self.turn > MOST_TURNS:
                self.problems.append(f"the study does not end: {self.desk.status}")
        for name in self.machines:
            if not self.problems:
                self._free(name)
                self._restart(name)
        if not self.problems:
            self.network.flush()
            self.network.send("coordinator", (), step=True)

    @property
    def _ended(self) -> bool:
        return self.desk.status is not None and self.desk.status.state == "ended"

    def stop(self) -> None:
        """End the processes that were started here."""
        for machine in self.machines.values():
            machine.party.signal(signal.SIGKILL)
            machine.party.ended()

    def _take_turn(self) -> None:
        self.turn += 1
        self.steady += self.rng.uniform(0, 6)
        self._suffer()
        for name in self.machines:
            self._start(name)
        self._welcome()
        about = [person for person in self.people if not person.gone]
        turn = self.rng.sample(about, min(len(about), self.rng.randint(1, 12)))
        turn += [actor for actor in self.staff if not actor.gone and self.rng.random() < 0.5]
        self._exchange(turn)

    def _exchange(self, actors: list[Actor]) -> None:
        """What they say at the same time; the coordinator moves the study on meanwhile."""
        by_party: dict[str, list[Actor]] = {name: [] for name in self.machines}
        for actor in actors:
            if actor.says is None:
                actor.hear(None)
                continue
            party = urlsplit(actor.says.url).netloc
            if party not in by_party:
                self.problems.append(f"somebody called {actor.says.url}")
                continue
            by_party[party].append(actor)
        for name, group in by_party.items():
            self._ask(name, group)
        self.problems += [actor.problem for actor in actors if actor.problem]

    def _ask(self, name: str, group: list[Actor]) -> None:
        said = [(actor, actor.says) for actor in group if actor.says is not None]
        for actor, outgoing in said:
            self._note_post(actor, outgoing)
        aside = [outgoing for actor in group for outgoing in actor.aside]
        replies = self.network.send(name, [one for _, one in said] + aside, step=name == "coordinator")
        for (actor, outgoing), reply in zip(said, replies, strict=False):
            actor.aside = []
            honest = isinstance(actor, Person) and not isinstance(actor, Liar)
            if honest and reply is not None and name == "coordinator":
                reply = self.coordinator.hear(actor, outgoing, reply)
            actor.hear(reply)

    def _note_post(self, actor: Actor, outgoing: Outgoing) -> None:
        """What an honest client sends as its report, for liars to see and for the checker to judge."""
        if not isinstance(actor, Person) or isinstance(actor, Liar) or not actor.reporting:
            return
        post = Post(
            number=actor.number,
            url=outgoing.url,
            ticket=outgoing.secret,
            token=actor.token,
            body=outgoing.content,
            told=tuple(actor.told),
        )
        self.claims.posts[post.url, post.body] = post
        self.claims.heard[actor.pseudonym] = post.body

    def _welcome(self) -> None:
        """People come while there are codes; more codes are asked for when too few are about."""
        for code in self.desk.codes:
            number = len(self.people)
            about_it = self._faults("vanish", "client-restart", "coordinator-lie", "client-lie")
            faults = [fault for fault in about_it if fault.at == number]
            lie = next((fault for fault in faults if fault.kind == "client-lie"), None)
            if lie is None:
                self.people.append(Person(number, code, self.site, faults))
            else:
                self.people.append(Liar(number, code, self.site, lie, self.claims))
        self.desk.codes.clear()
        about = sum(not person.gone for person in self.people)
        if self.people and about < COHORTS[-1]:
            self.desk.wanted = CROWD

    def _suffer(self) -> None:
        while self._pending and self._pending[0].at <= self.network.count:
            fault = self._pending.pop(0)
            self.met[fault.kind] += 1
            self._happen(fault)
        for name, machine in self.machines.items():
            if machine.disk and machine.free_at <= self.network.count:
                self._free(name)

    def _happen(self, fault: Fault) -> None:
        if fault.kind == "kill-at-time":
            self._kill_after[fault.party] = fault.value
        elif fault.kind == "clock-jump":
            self.offset += fault.value
            self._kill_after["coordinator"] = 0.0  # a running process does not look at the machine's clock
        elif fault.kind == "shuffler-away":
            self.away_until = self.steady + fault.value
        else:
            machine = self.machines[fault.party]
            machine.disk, machine.free_at = fault.step, self.network.count + int(fault.value)
            if machine.party.up:
                machine.party.tell(fault.step)

    def _free(self, name: str) -> None:
        machine = self.machines[name]
        if machine.disk and machine.party.up:
            machine.party.tell("free")
        machine.disk = ""

    def _restart(self, name: str) -> None:
        """At the end everything is up; what was to be killed later is not killed any more."""
        party = self.machines[name].party
        party.signal(signal.SIGKILL)
        party.ended()
        party.kill.clear()
        self._kill_after.clear()
        self.machines[name].down_until = 0
        self._start(name)

    def _start(self, name: str) -> None:
        machine = self.machines[name]
        if machine.party.up or self.turn < machine.down_until:
            return
        others = [other.party for other in self.machines.values()]
        try:
            machine.party.start(others, now=self.steady, offset=self.offset, disk=machine.disk)
        except Died:
            self._died(name)

    def _died(self, name: str) -> None:
        """Killed, or unable to open its store on a full disk: it will be started again."""
        machine = self.machines[name]
        machine.down_until = self.turn + self.rng.choice((1, 1, 2, 5, 30))
        note = self.site.note(name)
        if note.exists():
            step = note.read_text()
            note.unlink()
            machine.party.kill.pop(step)
            self.steps[f"{name}: {step}"] += 1
            self.met["kill-at-step"] += 1
        if machine.party.status == NO_STORE and machine.disk:
            self.network.count += 1  # time goes by, or the disk would be full for ever
        elif machine.party.status != -signal.SIGKILL:
            self.problems.append(f"the {name} ended with status {machine.party.status}")

    def _deliver(self, name: str, deliveries: list[Delivery], step: bool) -> list[Incoming | None]:
        machine, nobody = self.machines[name], [None] * len(deliveries)
        away = name == "shuffler" and self.steady < self.away_until
        if away or not machine.party.up:
            return list(nobody)
        self.shuffler.lied = self.shuffler.lied and name != "coordinator"
        try:
            work = Work(now=self.steady, deliveries=deliveries, step=step)
            done = machine.party.work(work, self._kill_after.pop(name, None))
        except Died:
            self._died(name)
            return list(nobody)
        if done.error:
            self._step_failed(done.error)
        self.problems += [f"the {name}: {mistake}" for mistake in done.mistakes]
        if machine.disk:
            self.met["refused-by-full-disk"] += sum(reply.status == 503 for reply in done.replies)
        return list(done.replies)

    def _step_failed(self, error: str) -> None:
        """A lie of the shuffler may stop a step, in words."""
        in_words = error.startswith(("ProtocolError: the shuffler", "ProtocolError: sums", "Refused: "))
        if in_words and self.shuffler.lied:
            self.met["a step refused a lie"] += 1
        else:
            self.problems.append(f"a step of the coordinator: {error}")

    def _link(self, outgoing: Outgoing) -> Incoming | None:
        """The coordinator calls its shuffler, through the same network; the shuffler may lie."""
        return self.shuffler.call(outgoing, lambda one: self.network.send("shuffler", [one])[0])
