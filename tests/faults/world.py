"""One run under faults: a whole small study with forked parties, which are killed during the run."""

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
CROWD = 24  # codes that the operator requests at a time
MOST_TURNS = 6000
MEMORY = Path("/dev/shm")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The problems of a run, and the faults that occurred in it."""

    case: Case
    problems: tuple[str, ...]
    met: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failed_attempts: int = 0
    messages: int = 0


@cache
def study_for(trust: str, noise: str = "") -> Study:
    """Return a small study. Its plans are computed once here, so that forked processes inherit the caches."""
    study = small_study(trust, share=0.5, schedule=Schedule(cohorts=COHORTS, first_length=60, growth=8))
    if noise:
        study = replace(study, privacy=replace(study.privacy, noise=noise))
    expected_course(study, {1: ["0" * 64] * COHORTS[0], 2: ["0" * 64] * COHORTS[1]})
    return study


def run_case(case: Case) -> Outcome:
    """Run a case to its end and check the databases."""
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
    """Run a case without the checks at the end."""
    keys = {name: KeyPair.new() for name in ("coordinator", "shuffler")}
    world = World(case, site_for(case, directory, keys))
    try:
        world.run()
    finally:
        world.stop()
    return world


def site_for(case: Case, directory: Path, keys: dict[str, KeyPair]) -> Site:
    """Return the configuration of both parties. The name of the run in the terms depends on the seed."""
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
    """Return the problems during the run; if there are none, those that the checker finds."""
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
    """The state of a party's machine: until when it is down, and whether its disk is full."""

    party: Party
    down_until: int = 0
    disk: str = ""
    free_at: int = 0


class World:
    """The clock, the machines, the network and the actors of a run."""

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
        """The faults and lies that occurred."""
        people = Counter(kind for one in self.people for kind in one.met)
        liars = self.shuffler.met + self.coordinator.met + Counter(self.liar.met)
        return self.met + self.network.met + people + liars

    def _party(self, name: str) -> Party:
        mine = [fault for fault in self._faults("kill-at-step") if fault.party == name]
        kill = {fault.step: int(fault.value) for fault in mine}
        return Party(self.site, name, kill, self._link)

    def run(self) -> None:
        """Take turns until the operator knows that the study has ended.

        Then restart all parties and deliver the requests that are still under way.
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
        """Kill the processes that this object started."""
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
        """Deliver the requests of these actors at the same time, while the coordinator advances the study."""
        by_party: dict[str, list[Actor]] = {name: [] for name in self.machines}
        for actor in actors:
            if actor.says is None:
                actor.hear(None)
                continue
            party = urlsplit(actor.says.url).netloc
            if party not in by_party:
                self.problems.append(f"an actor called {actor.says.url}")
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
        """Record the report of an honest client, for the checker, and for liars that reuse it."""
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
        """Add a client for every code, and request more codes if too few clients are left."""
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
            self._kill_after["coordinator"] = 0.0  # the wall clock is read only at the start of a process
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
        """Restart a party at the end of the run, and cancel all later kills."""
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
        """Schedule the restart of a party that was killed or could not open its store on a full disk."""
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
            self.network.count += 1  # advance the time at which the disk is freed
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
        """Count a step that failed with a clear error after a lie; any other failure is a problem."""
        in_words = error.startswith(("ProtocolError: the shuffler", "ProtocolError: sums", "Refused: "))
        if in_words and self.shuffler.lied:
            self.met["a step refused a lie"] += 1
        else:
            self.problems.append(f"a step of the coordinator: {error}")

    def _link(self, outgoing: Outgoing) -> Incoming | None:
        """Pass a call of the coordinator through the network to the shuffler, which may lie."""
        return self.shuffler.call(outgoing, lambda one: self.network.send("shuffler", [one])[0])
