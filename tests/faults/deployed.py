"""Studies of real processes (`dpbandits serve` and `dpbandits shuffler`, over loopback TLS) under faults.

Parties are killed, stopped for longer than a deadline, or left without file descriptors. With PostgreSQL, the
server is killed or its disk is full, and two coordinators run whose clocks are wrong by up to an hour.
Clients run the real client code over TCP. Some are stopped at random times; they restart from what they have
saved, or never return. At the end `checker.py` checks the databases. The seed determines when a process is
killed, but not what it is doing at that moment. So a run that failed may not fail again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import re
import resource
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dpbandits.errors import Unreachable
from dpbandits.protocol import Plan
from dpbandits.service.client import AsyncClient, ClientCore, take_part
from dpbandits.service.client._client import ClientMemory
from dpbandits.service.shared import AsyncTransport, call
from dpbandits.service.wire import EnrolmentReply, EnrolmentRequest, Pins, ResultsReply, StatusReply, hashed
from tests.service.helpers import MODELS, client_averages, client_noise
from tests.service.processes import CLIENT_NOISE, Site, free_port, stop

from . import party
from .actors import CONSENT
from .checker import Checker
from .database import Database
from .network import Accepted
from .preloaded import Forked, Preloaded
from .values import second_part

COHORTS = (6, 10)
CROWD = 16  # codes that the operator requests at a time
LONGEST = 600.0  # seconds after which a study counts as stuck, also if many runs share the machine
_NOT_STARTED = r"dpbandits (serve|shuffler): (storage: |.*Too many open files)"
_SPAN = (0.3, 8.0)  # processes are killed between these seconds after the start


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A fault of a party: its kind, seconds after the start, and the seconds until it ends.

    The kinds are `killed`, `stopped` (SIGSTOP), `without files` and, for the party `database`, `full`.
    """

    at: float
    party: str
    down: float
    kind: str = "killed"


@dataclass(frozen=True, kw_only=True)
class DeployedCase:
    """A run. The seed also determines which clients are stopped."""

    seed: str
    trust: str
    mode: str | None
    kills: tuple[Kill, ...]
    skews: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeployedOutcome:
    """The problems of a run, and counts of what occurred in it."""

    case: DeployedCase
    problems: tuple[str, ...]
    met: dict[str, int]
    seconds: float


def draw_deployed(seed: int, number: int, *, postgres: bool = False) -> DeployedCase:
    """Draw a case. Models alternate. Every party has 2 to 5 faults, unless the study ends first."""
    trust, mode = MODELS[number % len(MODELS)]
    rng = random.Random(f"processes {seed}/{number}")
    parties = ["coordinator"] if mode is None else ["coordinator", "shuffler"]
    kills = [_fault(rng, name) for name in parties for _ in range(rng.randint(2, 5))]
    skews: tuple[float, ...] = ()
    if postgres:
        kills += [_fault(rng, "second") for _ in range(rng.randint(0, 2))]
        kills += [_fault(rng, "database") for _ in range(rng.randint(1, 3))]
        skews = tuple(rng.choice((-1, 1)) * rng.choice((2.0, 40.0, 3600.0)) for _ in range(2))
    ordered = tuple(sorted(kills, key=lambda kill: kill.at))
    return DeployedCase(seed=f"{seed}/{number}", trust=trust, mode=mode, kills=ordered, skews=skews)


def _fault(rng: random.Random, name: str) -> Kill:
    """Draw a fault. A party that is stopped is stopped for longer than clients have to report."""
    kinds = ("killed", "full") if name == "database" else ("killed", "killed", "stopped", "without files")
    at, kind, down = rng.uniform(*_SPAN), rng.choice(kinds), min(6.0, rng.expovariate(1.0))
    return Kill(at=at, party=name, kind=kind, down=rng.uniform(5.5, 8.0) if kind == "stopped" else down)


def run_deployed(
    case: DeployedCase, preloaded: Preloaded, database: Database | None = None
) -> DeployedOutcome:
    """Run a study to its end and check the databases.

    Args:
        case: The run.
        preloaded: Starts the processes.
        database: A PostgreSQL database for the coordinator; None for SQLite.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        world = Deployed(case, Path(directory), preloaded, database)
        try:
            asyncio.run(world.play())
        finally:
            world.stop()
        problems = world.problems or world.examine()
    return DeployedOutcome(
        case=case, problems=tuple(problems), met=world.met, seconds=time.perf_counter() - began
    )


@dataclass
class Deployed:
    """The processes, the clients and the operator of a run."""

    case: DeployedCase
    directory: Path
    preloaded: Preloaded
    database: Database | None = None
    problems: list[str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    released: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    running: dict[str, Forked] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"people {self.case.seed}")
        # Weights of none, restart and vanish: few clients vanish, or enough of them that attempts fail.
        self._fates = self.rng.choice(((6, 3, 2), (2, 2, 12)))
        self.site = Site(
            directory=self.directory,
            trust=self.case.trust,
            mode=self.case.mode,
            noise=CLIENT_NOISE if self.case.mode == "verified" else None,  # which the checker can compute
            cohorts=COHORTS,
            report_seconds=5.0,
            join_seconds=6.0,
            poll_seconds=0.8,
            storage="sqlite:///coordinator.sqlite" if self.database is None else self.database.url,
        )
        self.study = self.site.study
        self._commands = {"coordinator": self.site.coordinator(), "actuator": self.site.actuator()}
        self._ahead = dict[str, float]()  # by how many seconds clocks are wrong
        self._urls = {"coordinator": self.site.url, "shuffler": self.site.shuffler_url}
        if self.case.skews:
            self._skew()
        if self.case.mode is not None:
            self._commands["shuffler"] = self.site.shuffler()
        self._down: set[str] = set()
        self._begun: dict[str, int] = {}  # where the log of the running process starts

    def _skew(self) -> None:
        """Add a second coordinator, and let the clocks of both be wrong."""
        port, file = free_port(), self.directory / "second.toml"
        text = self.site.study_file.read_text()
        file.write_text(text.replace(f"port = {self.site.port}\n", f"port = {port}\n"))
        self._urls["second"] = f"https://127.0.0.1:{port}"
        self._commands["second"] = [*self._commands["coordinator"][:-1], str(file)]
        self._ahead = dict(zip(("coordinator", "second"), self.case.skews, strict=True))

    def _start(self, name: str) -> None:
        log = self.directory / f"{name}.log"
        self._begun[name] = log.stat().st_size if log.exists() else 0
        arguments = self._commands[name][3:]  # without `python -m dpbandits.cli`
        self.running[name] = self.preloaded.start(arguments, log, ahead=self._ahead.get(name, 0.0))

    def _listens(self, name: str) -> bool:
        """Return whether a party has finished its start."""
        return b'"listening"' in (self.directory / f"{name}.log").read_bytes()[self._begun[name] :]

    def stop(self) -> None:
        """Stop the processes that this object started."""
        for process in self.running.values():
            stop(process)

    async def play(self) -> None:
        """Run until the operator, the actuator and all clients know that the study has ended."""
        for name in self._commands:
            self._start(name)
        async with AsyncTransport(certificates=self.site.certificate, connections=64) as transport:
            people, killer = list[asyncio.Task[None]](), asyncio.create_task(self._kill())
            until = time.monotonic() + LONGEST
            while not await self._look(transport, people) and not self.problems:
                if time.monotonic() > until:
                    self.problems.append("the study does not end")
                if killer.done() and killer.exception() is not None:
                    self.problems.append(f"a fault could not be injected: {killer.exception()!r}")
                await asyncio.sleep(0.3)
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)  # it ends its faults
            await self._settle(people)

    async def _settle(self, people: list[asyncio.Task[None]]) -> None:
        """Start all parties that are down, and wait until everybody knows that the study has ended."""
        for name, process in self.running.items():
            if name in self._down and process.poll() is not None:
                self._start(name)
        _, waiting = await asyncio.wait(people, timeout=30) if people and not self.problems else ((), people)
        if waiting and not self.problems:
            self.problems.append(f"{len(waiting)} clients did not learn that the study has ended")
        for task in people:
            task.cancel()
        await asyncio.gather(*people, return_exceptions=True)
        if not self.problems:
            await asyncio.to_thread(self.running["actuator"].wait, 30)

    async def _kill(self) -> None:
        began, parties = time.monotonic(), list[asyncio.Task[None]]()
        try:
            for kill in self.case.kills:
                await asyncio.sleep(began + kill.at - time.monotonic())
                if kill.party not in self._down:
                    parties.append(asyncio.create_task(self._kill_one(kill)))
            await asyncio.gather(*parties)
        finally:
            for task in parties:
                task.cancel()
            await asyncio.gather(*parties, return_exceptions=True)

    async def _kill_one(self, kill: Kill) -> None:
        if kill.kind == "without files" and not self._listens(kill.party):
            return  # Python itself cannot start without files
        self._down.add(kill.party)
        self.met[f"{kill.party} {kill.kind}"] += 1
        if kill.party == "database":
            await self._trouble_database(kill)
        elif kill.kind == "killed":
            self._kill_now(kill.party)
            await asyncio.sleep(kill.down)
            self._start(kill.party)
        else:
            await self._hinder(self.running[kill.party], kill)
        self._down.discard(kill.party)

    async def _trouble_database(self, kill: Kill) -> None:
        assert self.database is not None
        try:
            await asyncio.to_thread(self.database.kill if kill.kind == "killed" else self._fill)
            await asyncio.sleep(kill.down)
        finally:
            self.database.fill_disk(False)
            self.database.start()

    def _fill(self) -> None:
        assert self.database is not None
        self.database.fill_disk(True)

    async def _hinder(self, process: Forked, kill: Kill) -> None:
        """Stop a process for a while, or let it open no further files."""
        hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]
        try:
            if kill.kind == "stopped":
                process.send_signal(signal.SIGSTOP)
            else:
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
            await asyncio.sleep(kill.down)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard, hard))

    async def _look(self, transport: AsyncTransport, people: list[asyncio.Task[None]]) -> bool:
        """Poll as the operator, and request codes if clients are few; return whether the study has ended."""
        for name, process in self.running.items():
            if name in self._down or process.poll() in (None, 0 if name == "actuator" else None):
                continue
            if process.returncode == 2 and self._may_fail_to_start:
                self.met[f"{name} started again"] += 1
                self._start(name)
                return False
            last = (self.directory / f"{name}.log").read_text().splitlines()[-1:]
            self.problems.append(f"the {name} ended by itself with {process.returncode}: {last}")
        try:
            results = await self._ask(transport, "GET", "results", ResultsReply)
            for one in results.phases:
                seen = (one.attempt, bytes(one.release))
                if self.released.setdefault(one.phase, seen) != seen:
                    self.problems.append(f"phase {one.phase} was released twice")
            status = await self._ask(transport, "GET", "status", StatusReply)
            self.met["failed attempts"] = status.failed_attempts
            if sum(not task.done() for task in people) < COHORTS[-1] and status.state != "ended":
                body = EnrolmentRequest(count=CROWD)
                codes = (await self._ask(transport, "POST", "enrolments", EnrolmentReply, body)).codes
                people += [asyncio.create_task(self._watched(transport, code)) for code in codes]
        except Unreachable:
            return False
        return status.state == "ended"

    def _ask(
        self, transport: AsyncTransport, method: str, name: str, kind: Any, body: Any = None
    ) -> Awaitable[Any]:
        token = self.site.tokens["operator"]
        return transport.hold(call(method, f"{self.site.url}/v1/{name}", kind, secret=token, body=body))

    async def _watched(self, transport: AsyncTransport, code: str) -> None:
        try:
            await self._person(transport, code)
        except Exception as error:
            self.problems.append(f"a client: {type(error).__name__} {error}")

    async def _person(self, transport: AsyncTransport, code: str) -> None:
        """Run a client, which may vanish, or restart once with what it has saved."""
        saved = [msgspec.json.encode(ClientMemory.new())]
        fate = self.rng.choices(("none", "restart", "vanish"), self._fates)[0]
        first = self.rng.uniform(0, 10)
        life = self._life(transport, code, saved)
        if fate != "none":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(life(), first)
                return
            self.met[f"client {fate}"] += 1
            if fate == "vanish":
                return
        await life()

    def _life(
        self, transport: AsyncTransport, code: str, saved: list[bytes]
    ) -> Callable[[], Awaitable[None]]:
        async def live() -> None:
            memory = msgspec.json.decode(saved[0], type=ClientMemory)
            pseudonym = hashed(memory.ticket)
            self.names.add(pseudonym)

            def averages(plan: Plan) -> list[float]:
                return client_averages(self.study.actions, plan, pseudonym)

            def save(memory: ClientMemory) -> None:
                saved[0] = msgspec.json.encode(memory)

            noise = client_noise(pseudonym)
            core = ClientCore(
                url=self.site.url,
                memory=memory,
                consent=CONSENT,
                noise=noise,
                save=save,
                pins=Pins(terms=self.site.signed.digest),
            )
            if await take_part(AsyncClient(core, transport), code, averages):
                self._note(pseudonym, core.memory)

        return live

    def _note(self, pseudonym: str, memory: ClientMemory) -> None:
        """Record a report that was acknowledged."""
        body = memory.sealed
        half = second_part(body, self.case.mode)
        self.met["reports"] += 1
        self.accepted[pseudonym] = Accepted(
            phase=memory.phase,
            attempt=memory.attempt,
            digest=hashlib.sha256(body).hexdigest(),
            traces=(body[:32], body[half : half + 32]),
        )

    def examine(self) -> list[str]:
        """Kill and restart each party once more, which empties the logs of the databases; then check them."""
        for name in self._commands:
            if name != "actuator":
                self._kill_now(name)
                self._start(name)
                self.site.wait_ready(self._urls[name])
                self._kill_now(name)
        site = party.Site(directory=self.directory, study=self.study, mode=self.case.mode, keys={})
        checker = Checker(
            site,
            self.accepted,
            self.released,
            self.names,
            noise_known=False,
            postgres="" if self.database is None else self.database.url,
        )
        return [*self._mistakes(), *checker.problems()]

    def _kill_now(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait(20)

    def _mistakes(self) -> list[str]:
        """Return the errors that no fault of this run explains, and log lines that are not JSON."""
        found = list[str]()
        for name in self._commands:
            lines = (self.directory / f"{name}.log").read_text().splitlines()
            for line in lines if name != "actuator" else ():
                if line.startswith("{"):
                    told = json.loads(line)
                    wrong = told["level"] == "ERROR" and not self._explained(told)
                else:
                    wrong = not self._may_fail_to_start or not re.match(_NOT_STARTED, line)
                if wrong:
                    found.append(f"the {name} logged {line}")
        return found

    @property
    def _may_fail_to_start(self) -> bool:
        """Whether a party may find no database or no free files when it starts, and is started again."""
        return self.database is not None or any(kill.kind == "without files" for kill in self.case.kills)

    def _explained(self, told: dict[str, Any]) -> bool:
        """Return whether a fault of this run explains an error: a database that is away, or no free files."""
        kinds = {kill.kind for kill in self.case.kills}
        if "StorageError" in told.get("kind", ""):
            return self.database is not None or "without files" in kinds
        return "without files" in kinds and told.get("kind", "") in ("OSError EMFILE", "OSError")
