"""A coordinator under attack: thousands of polling clients over TLS, floods of bad requests, slow sockets.

A real coordinator (`dpbandits serve`) on SQLite or PostgreSQL has 5,000 clients with a connection each. They
poll as often as it tells them. After their first polls it is measured in five stages: alone; with 2,000 bad
requests a second from one address; with as many from 200 addresses; with 2,000 sockets that stop during the
handshake, the head or the body; and afterwards. In each stage 100 clients also send their report. Limits:

- no honest request is refused or lost, and every report is accepted;
- p99 is below 500 ms without an attack;
- a flood at most doubles the median;
- memory returns to 1.2 times that before the slow sockets.

    python benchmarks/siege.py                  # SQLite
    python benchmarks/siege.py --postgresql
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from load_generator import ticket
from siege_callers import token
from tests.service.processes import Site, stop
from tests.storage.postgres import new_database, server

from dpbandits.actions import Actions
from dpbandits.protocol import encode
from dpbandits.service.config import read_study
from dpbandits.service.wire import hashed
from dpbandits.storage import LedgerEntry

P99, SLOWER, MEMORY = 0.5, 2.0, 1.2
REPORTS = 100  # clients that report in each stage
HERE = Path(__file__).parent


def prepared(
    directory: Path, clients: int, storage: str, state: str = "collecting"
) -> tuple[Site, dict[str, Any]]:
    """Return a study that collects the reports of clients which have all joined, or is in another state."""
    actions = Actions.generate("sphere", count=60, dimension=8, rng=3)
    site = Site(
        directory=directory,
        trust="central",
        mode=None,
        cohorts=(clients,),
        horizon=10**8,
        report_seconds=7200,
        poll_seconds=5.0,
        storage=storage,
        actions=actions,
    )
    file = read_study(site.study_file)
    coordinator = file.coordinator()
    coordinator.advance()
    with coordinator.store.transaction() as transaction:
        codes = [hashed(f"code {number}") for number in range(clients)]
        transaction.add_codes(codes)
        for number, code in enumerate(codes):
            transaction.enrol(code, hashed(token(number)))
        names = [hashed(ticket(number)) for number in range(clients)]
        pairs = zip(codes, names, strict=True)
        transaction.burn([LedgerEntry(client=c, phase=1, attempt=1, pseudonym=n) for c, n in pairs])
        begun = transaction.latest(lock=True)
        assert begun is not None
        joined = replace(begun, state=state, joined=clients, since=time.time(), seconds=7200.0)
        transaction.change_attempt(begun, joined)
        plan = coordinator.rounds.journal.plan(transaction, 1)
    coordinator.close()
    settings = {
        "plan": encode(plan).decode(),
        "key": str(file.context.keys.public),
        "study": coordinator.context.name,
        "certificates": str(site.certificate),
        "port": site.port,
        "clients": clients,
        "poll_seconds": 5.0,
    }
    return site, settings


@dataclass
class Siege:
    """The running processes."""

    directory: Path
    settings: dict[str, Any]
    coordinator: psutil.Process
    clients: subprocess.Popen[str]
    failures: list[str] = field(default_factory=list)
    reported: int = 0

    def line(self) -> dict[str, Any]:
        """Return what the clients print next."""
        assert self.clients.stdout is not None
        found: dict[str, Any] = json.loads(self.clients.stdout.readline())
        return found

    @property
    def memory(self) -> float:
        """The memory of the coordinator and its helper process, in megabytes."""
        processes = [self.coordinator, *self.coordinator.children()]
        return sum(float(process.memory_info().rss) for process in processes) / 1e6

    def stage(self, name: str, seconds: float, **attack: Any) -> dict[str, Any]:
        """Measure the clients for a while, during an attack if one is named."""
        attackers = None
        if attack:
            path = self.directory / "attack.json"
            path.write_text(json.dumps(self.settings | attack | {"seconds": seconds}))
            command = [sys.executable, str(HERE / "siege_callers.py"), attack["kind"], str(path)]
            attackers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
            assert attackers.stdout is not None
            attackers.stdout.readline()  # it is connected
        busy = self._busy()
        assert self.clients.stdin is not None
        self.clients.stdin.write(f"{seconds} {self.reported} {self.reported + REPORTS}\n")
        self.clients.stdin.flush()
        self.reported += REPORTS
        largest, until = self.memory, time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.5)
            largest = max(largest, self.memory)
        found = self.line() | {"memory": largest, "cpu": (self._busy() - busy) / seconds}
        told = attackers.communicate()[0].strip() if attackers is not None else ""
        print(
            f"{name}: {found['requests']:,} polls, median {1e3 * found['median']:.1f} ms, p99 "
            f"{1e3 * found['p99']:.0f} ms, largest {1e3 * found['largest']:.0f} ms (the clients themselves "
            f"are {1e3 * found['late']:.0f} ms late, p99); {found['polled']}, "
            f"reports {found['reported']}, lost {found['lost']}; memory at most {largest:.0f} MB, "
            f"{found['cpu']:.2f} cores; load {os.getloadavg()[0]:.1f} {told}",
            flush=True,
        )
        self.require(found["lost"] == 0 and set(found["polled"]) == {"200"}, f"{name}: honest polls failed")
        self.require(found["reported"] == {"204": REPORTS}, f"{name}: reports failed")
        return found

    def _busy(self) -> float:
        times = [process.cpu_times() for process in (self.coordinator, *self.coordinator.children())]
        return sum(float(one.user + one.system) for one in times)

    def require(self, holds: bool, otherwise: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.failures.append(otherwise)
            print(f"NOT MET: {otherwise}", flush=True)


@contextlib.contextmanager
def besieged(directory: Path, clients: int, storage: str) -> Iterator[Siege]:
    """Run the coordinator and its clients."""
    site, settings = prepared(directory, clients, storage)
    path = directory / "clients.json"
    path.write_text(json.dumps(settings))
    with contextlib.ExitStack() as stack:
        coordinator = stack.enter_context(site.running("coordinator", site.coordinator()))
        site.wait_ready(site.url)
        command = [sys.executable, str(HERE / "siege_callers.py"), "clients", str(path)]
        # Linux divides processor time between sessions first, so attackers take none of the coordinator's.
        callers = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        stack.callback(stop, callers)
        process = psutil.Process(coordinator.pid)
        siege = Siege(directory=directory, settings=settings, coordinator=process, clients=callers)
        print(f"without clients: {siege.memory:.0f} MB", flush=True)
        siege.line()
        yield siege


def measure(options: argparse.Namespace, storage: str) -> list[str]:
    """Run all stages; return what does not hold."""
    with (
        tempfile.TemporaryDirectory() as directory,
        besieged(Path(directory), options.clients, storage) as siege,
    ):
        siege.stage("first polls", options.seconds)
        alone = siege.stage("alone", options.seconds)
        siege.require(alone["p99"] < P99, f"p99 {alone['p99']:.3f} s, limit {P99}")
        for addresses in (1, 200):
            name = f"flood of {options.rate:,}/s from {addresses} addresses"
            attack = {"kind": "flood", "rate": options.rate, "addresses": addresses, "connections": 500}
            flood = siege.stage(name, options.seconds, **attack)
            slower = flood["median"] / alone["median"]
            print(f"median {slower:.2f} times that without an attack, limit {SLOWER}", flush=True)
            siege.require(slower <= SLOWER, f"{name}: the median is {slower:.2f} times as long")
        time.sleep(10)
        before = siege.memory
        siege.stage(
            f"{options.sockets:,} slow sockets", 2 * options.seconds, kind="slow", sockets=options.sockets
        )
        siege.stage("afterwards", options.seconds)
        grown = siege.memory / before
        print(f"memory {before:.0f} MB before, {siege.memory:.0f} MB after: {grown:.2f}, limit {MEMORY}")
        siege.require(grown <= MEMORY, f"memory grew by {grown:.2f}")
        return siege.failures


def main() -> None:
    """Measure and print; exit with a non-zero status if a limit is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=2000, help="bad requests per second")
    parser.add_argument("--sockets", type=int, default=2000, help="slow sockets")
    parser.add_argument("--seconds", type=float, default=20, help="length of a stage")
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        storage = "sqlite:///study.sqlite"
        if options.postgresql:
            storage = new_database(stack.enter_context(server()))
        raise SystemExit(len(measure(options, storage)))


if __name__ == "__main__":
    main()
