"""Studies of real processes (`dpbandits serve` and `dpbandits shuffler`, over loopback TLS) that are killed.

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
import subprocess
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
from tests.service.processes import CLIENT_NOISE, Site, start, stop

from . import party
from .actors import CONSENT
from .checker import Checker
from .network import Accepted
from .values import second_part

COHORTS = (6, 10)
CROWD = 24  # codes that the operator requests at a time
LONGEST = 240.0  # seconds after which a study counts as stuck
_SPAN = (0.5, 15.0)  # processes are killed between these seconds after the start


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A kill: seconds after the start, the party, and the seconds until it is started again."""

    at: float
    party: str
    down: float


@dataclass(frozen=True, kw_only=True)
class DeployedCase:
    """A run. The seed also determines which clients are stopped."""

    seed: str
    trust: str
    mode: str | None
    kills: tuple[Kill, ...]


@dataclass(frozen=True, kw_only=True)
class DeployedOutcome:
    """The problems of a run, and counts of what occurred in it."""

    case: DeployedCase
    problems: tuple[str, ...]
    met: Counter[str]
    seconds: float


def draw_deployed(seed: int, number: int) -> DeployedCase:
    """Draw a case. Models alternate. Every party is killed 2 to 5 times, unless the study ends first."""
    trust, mode = MODELS[number % len(MODELS)]
    rng = random.Random(f"processes {seed}/{number}")
    parties = ("coordinator",) if mode is None else ("coordinator", "shuffler")
    kills = [
        Kill(at=rng.uniform(*_SPAN), party=name, down=min(6.0, rng.expovariate(1.0)))
        for name in parties
        for _ in range(rng.randint(2, 5))
    ]
    return DeployedCase(
        seed=f"{seed}/{number}", trust=trust, mode=mode, kills=tuple(sorted(kills, key=lambda kill: kill.at))
    )


def run_deployed(case: DeployedCase, postgres: str = "") -> DeployedOutcome:
    """Run a study to its end and check the databases.

    Args:
        case: The run.
        postgres: The URL of a PostgreSQL database for the coordinator; empty for SQLite.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        world = Deployed(case, Path(directory), postgres)
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
    postgres: str = ""
    problems: list[str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    released: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
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
            poll_seconds=0.4,
            storage=self.postgres or "sqlite:///coordinator.sqlite",
        )
        self.study = self.site.study
        self._commands = {"coordinator": self.site.coordinator(), "actuator": self.site.actuator()}
        if self.case.mode is not None:
            self._commands["shuffler"] = self.site.shuffler()
        self._down: set[str] = set()

    def _start(self, name: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = start(self._commands[name], log)

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
                await asyncio.sleep(0.3)
            killer.cancel()
            await self._settle(people)

    async def _settle(self, people: list[asyncio.Task[None]]) -> None:
        """Start all parties that are down, and wait until everybody knows that the study has ended."""
        for name in self._down:
            self._start(name)
        _, waiting = await asyncio.wait(people, timeout=30) if people and not self.problems else ((), people)
        if waiting and not self.problems:
            self.problems.append(f"{len(waiting)} clients did not learn that the study has ended")
        for task in people:
            task.cancel()
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

    async def _kill_one(self, kill: Kill) -> None:
        self._down.add(kill.party)
        self.met[f"{kill.party} killed"] += 1
        process = self.running[kill.party]
        process.kill()
        process.wait(20)
        await asyncio.sleep(kill.down)
        self._start(kill.party)
        self._down.discard(kill.party)

    async def _look(self, transport: AsyncTransport, people: list[asyncio.Task[None]]) -> bool:
        """Poll as the operator, and request codes if clients are few; return whether the study has ended."""
        for name, process in self.running.items():
            if name not in self._down and process.poll() not in (None, 0 if name == "actuator" else None):
                self.problems.append(f"the {name} ended by itself with {process.returncode}")
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
                self.site.wait_ready(self.site.url if name == "coordinator" else self.site.shuffler_url)
                self._kill_now(name)
        site = party.Site(directory=self.directory, study=self.study, mode=self.case.mode, keys={})
        checker = Checker(
            site, self.accepted, self.released, self.names, noise_known=False, postgres=self.postgres
        )
        return [*self._mistakes(), *checker.problems()]

    def _kill_now(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait(20)

    def _mistakes(self) -> list[str]:
        """Return the errors that parties logged, and log lines that are not JSON."""
        found = list[str]()
        for name in self._commands:
            lines = (self.directory / f"{name}.log").read_text().splitlines()
            for line in lines if name != "actuator" else ():
                if not line.startswith("{") or json.loads(line)["level"] == "ERROR":
                    found.append(f"the {name} logged {line}")
        return found
