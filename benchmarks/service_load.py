"""The rate at which one coordinator with SQLite stores reports durably, relative to an empty handler.

There are four processes on loopback, with and without TLS: a real coordinator (`dpbandits serve`), two
servers with a Starlette handler that does nothing, and a load generator. The same requests, sealed reports of
new clients, are sent to the three servers in turns, so that other load on the machine affects all of them.

- `plain` is uvicorn with its parser in Python, h11, and nothing of dpbandits. It is the yardstick: it stays
  the same, whatever becomes faster or slower here. The limit applies to the ratio of reports to it.
- `empty` is the server of dpbandits. Its ratio is printed, too. A faster server raises the rate of reports
  and lowers this ratio.

With `--postgresql` the store is a PostgreSQL server on the same machine. Its CPU time per report is printed.

With `--reports N` it sends N reports instead and prints the memory of the coordinator at ten points. The
second half must not need noticeably more memory than the first. Run it with `make load`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).parent.parent))

from load_generator import ticket
from tests.service.processes import Site, free_port, stop
from tests.storage import postgres

from dpbandits.actions import Actions
from dpbandits.protocol import encode
from dpbandits.service.config import read_study
from dpbandits.service.shared import Listening, serve
from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import hashed
from dpbandits.storage import LedgerEntry

LIMITS = {False: 0.72, True: 0.73}  # without and with TLS; reached before connections had limits of their own
GROWTH = 1.1  # the largest ratio of memory at the end of a run to memory in the middle
HERE = Path(__file__).parent


def serve_empty(listening: Listening, *, plain: bool) -> None:
    """Run uvicorn, or the server of dpbandits, with a handler that reads the body and does nothing."""

    async def empty(request: Request) -> Response:
        await request.body()
        return Response()

    app = Starlette(routes=[Route("/{path:path}", empty, methods=["POST", "GET"])])
    if not plain:
        return serve(app, listening)
    gc.freeze()
    gc.set_threshold(20_000)  # as in the server of dpbandits
    files = [None if path is None else str(path) for path in (listening.certificate, listening.key)]
    uvicorn.run(
        app,
        port=listening.port,
        ssl_certfile=files[0],
        ssl_keyfile=files[1],
        http="h11",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=60,
    )
    return None


@contextlib.contextmanager
def database(options: argparse.Namespace) -> Iterator[tuple[str, psutil.Process | None]]:
    """Yield the URL of a new store and, if it is PostgreSQL, the process of the server."""
    if not options.postgresql:
        yield "sqlite:///study.sqlite", None
        return
    with postgres.running() as started:
        for setting in ("fsync", "full_page_writes"):  # which the tests turn off
            started.psql(f"ALTER SYSTEM SET {setting} = on")
        started.psql("SELECT pg_reload_conf()")
        number = (Path(started.pgdata) / "postmaster.pid").read_text().split()[0]
        yield postgres.new_database(started.get_uri()), psutil.Process(int(number))


def prepared(directory: Path, clients: int, storage: str, *, tls: bool) -> tuple[Site, dict[str, Any]]:
    """Return a study whose first phase collects from this many clients, and one that never reports."""
    actions = Actions.generate("sphere", count=60, dimension=8, rng=3)
    site = Site(
        directory=directory,
        trust="central",
        mode=None,
        cohorts=(clients + 1,),
        horizon=10**8,
        report_seconds=7200,
        storage=storage,
        actions=actions,
    )
    if not tls:
        lines = site.study_file.read_text().splitlines()
        kept = [line for line in lines if not line.strip().startswith(("certificate =", "key ="))]
        site.study_file.write_text("\n".join(kept))
    file = read_study(site.study_file)
    coordinator = file.coordinator()
    coordinator.advance()
    with coordinator.store.transaction() as transaction:
        for start in range(0, clients + 1, 10_000):
            names = [hashed(ticket(number)) for number in range(start, min(start + 10_000, clients + 1))]
            transaction.burn([LedgerEntry(client=n, phase=1, attempt=1, pseudonym=n) for n in names])
        begun = transaction.latest(lock=True)
        assert begun is not None
        collecting = replace(begun, state="collecting", joined=clients + 1, since=time.time(), seconds=7200.0)
        transaction.change_attempt(begun, collecting)
        plan = coordinator.rounds.journal.plan(transaction, 1)
    coordinator.close()
    settings = {
        "plan": encode(plan).decode(),
        "key": str(file.context.keys.public),
        "study": coordinator.context.name,
        "certificates": str(site.certificate) if tls else None,
    }
    return site, settings


@dataclass
class Bench:
    """The running processes."""

    generator: subprocess.Popen[str]
    servers: dict[str, psutil.Process]
    site: Site
    database: psutil.Process | None

    def send(self, target: str, first: int, last: int) -> tuple[float, float]:
        """Return the requests per second, and the CPU seconds of the server per request."""
        before = self._cpu(target)
        assert self.generator.stdin is not None
        assert self.generator.stdout is not None
        self.generator.stdin.write(f"{target} {first} {last}\n")
        self.generator.stdin.flush()
        answer = json.loads(self.generator.stdout.readline())
        count = last - first
        expected = {"204" if target == "reports" else "200": count}
        if answer["statuses"] != expected:
            raise SystemExit(f"{target}: got {answer['statuses']}, expected {expected}")
        return count / answer["seconds"], (self._cpu(target) - before) / count

    def _cpu(self, target: str) -> float:
        return _cpu_seconds(self._processes(target))

    @property
    def database_cpu(self) -> float:
        """The CPU seconds of PostgreSQL so far; zero for SQLite, which runs in the coordinator."""
        return 0.0 if self.database is None else _cpu_seconds([self.database, *self.database.children()])

    def _processes(self, target: str) -> list[psutil.Process]:
        """Return the server, and its helper process that decrypts reports, once there is one."""
        return [self.servers[target], *self.servers[target].children()]

    @property
    def memory(self) -> float:
        """The memory of the coordinator, in megabytes."""
        return sum(float(process.memory_info().rss) for process in self._processes("reports")) / 1e6


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(float(one.user + one.system) for one in times)


@contextlib.contextmanager
def running(directory: Path, clients: int, options: argparse.Namespace, *, tls: bool) -> Iterator[Bench]:
    """Run the store, the coordinator, the two empty servers and the load generator."""
    with database(options) as (storage, process):
        site, settings = prepared(directory, clients, storage, tls=tls)
        settings["connections"] = options.connections
        with serving(site, settings, tls=tls) as (generator, servers):
            yield Bench(generator=generator, servers=servers, site=site, database=process)


@contextlib.contextmanager
def serving(
    site: Site, settings: dict[str, Any], *, tls: bool
) -> Iterator[tuple[subprocess.Popen[str], dict[str, psutil.Process]]]:
    """Run the coordinator, the two empty servers and the load generator."""
    directory = site.directory
    ports = {"empty": free_port(), "plain": free_port()}
    settings["ports"] = {"reports": site.port, **ports}
    (directory / "load.json").write_text(json.dumps(settings))
    pair = [str(site.certificate), str(directory / "tls.pem")] if tls else []
    with contextlib.ExitStack() as stack:
        commands = {"reports": site.coordinator()}
        for kind, port in ports.items():
            commands[kind] = [sys.executable, __file__, f"serve-{kind}", str(port), *pair]
        servers = {
            name: psutil.Process(stack.enter_context(site.running(name, command)).pid)
            for name, command in commands.items()
        }
        for target in (site.port, *ports.values()):
            _wait_for(f"{'https' if tls else 'http'}://127.0.0.1:{target}/healthz", site.certificate)
        generator = subprocess.Popen(
            [sys.executable, str(HERE / "load_generator.py"), str(directory / "load.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(stop, generator)
        yield generator, servers


def _wait_for(url: str, certificate: Path) -> None:
    until = time.monotonic() + 60
    with httpx.Client(verify=trusting(certificate), timeout=30) as http:
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                if http.get(url).status_code == 200:
                    return
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def measure_rates(options: argparse.Namespace, *, tls: bool) -> bool:
    """Print the rates of stored reports and of empty requests; return whether the limit is met."""
    size, rounds = options.requests, options.rounds
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory), size * (rounds + 1), options, tls=tls) as bench,
    ):
        found = list[dict[str, tuple[float, float]]]()
        memory, stored = 0.0, list[float]()
        for number in range(rounds + 1):  # the first round warms up
            sent = (number * size, (number + 1) * size)
            empty = {target: bench.send(target, *sent) for target in ("plain", "empty")}
            before = bench.database_cpu
            reports = bench.send("reports", *sent)
            if number:
                stored.append((bench.database_cpu - before) / size * 1e6)
                found.append({**empty, "reports": reports})
            memory = max(memory, bench.memory)
    there = f", and {statistics.median(stored):.0f} µs in PostgreSQL" if options.postgresql else ""
    print(f"{'TLS, kept alive' if tls else 'without TLS'}, {rounds} rounds of {size:,} requests:")
    ratio = _print_rates(found, there)
    limit = LIMITS[tls]
    print(f"  limit {limit}; memory {memory:.0f} MB; load {os.getloadavg()[0]:.1f}", flush=True)
    return ratio >= limit


def _print_rates(found: list[dict[str, tuple[float, float]]], there: str) -> float:
    """Print one line per server; return the ratio of the rate of reports to that of the yardstick."""
    titles = {"plain": "uvicorn, empty handler", "empty": "dpbandits, empty handler", "reports": "reports"}
    ratios = dict[str, float]()
    for target, title in titles.items():
        rate = statistics.median(one[target][0] for one in found)
        cost = statistics.median(one[target][1] for one in found) * 1e6
        each = [one["reports"][0] / one[target][0] for one in found]
        ratios[target] = statistics.median(each)
        compared = f"; reports ÷ this {ratios[target]:.2f} ({min(each):.2f} to {max(each):.2f})"
        own = there if target == "reports" else compared
        print(f"  {title:<25} {rate:7,.0f}/s, {cost:4.0f} µs of CPU each{own}")
    return ratios["plain"]


def measure_memory(options: argparse.Namespace) -> float:
    """Return the ratio of memory at the end of a long run to memory in its middle."""
    size, points = options.reports // 10, list[float]()
    until = time.monotonic() + options.seconds
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory), options.reports, options, tls=False) as bench,
    ):
        for number in range(10):
            for first in range(number * size, (number + 1) * size, 5000):
                bench.send("reports", first, min(first + 5000, (number + 1) * size))
            points.append(bench.memory)
            print(f"{(number + 1) * size:>9,} reports: {points[-1]:.1f} MB", flush=True)
            if time.monotonic() > until:
                print(f"stopped after {options.seconds:.0f} s")
                break
        growth = points[-1] / points[len(points) // 2]
        print(f"memory at the end over the middle {growth:.3f}, limit {GROWTH}")
    return growth


def main() -> None:
    """Measure and print; exit with a non-zero status if a limit is exceeded."""
    if sys.argv[1:2] in (["serve-empty"], ["serve-plain"]):
        port, *pair = sys.argv[2:]
        certificate, key = (Path(pair[0]), Path(pair[1])) if pair else (None, None)
        listening = Listening(port=int(port), certificate=certificate, key=key)
        return serve_empty(listening, plain=sys.argv[1] == "serve-plain")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=4000, help="requests per round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--postgresql", action="store_true", help="store reports in PostgreSQL")
    parser.add_argument("--plain-only", action="store_true", help="measure without TLS only")
    parser.add_argument("--reports", type=int, metavar="N", help="send N reports and measure memory")
    parser.add_argument("--seconds", type=float, default=1800, help="time limit of --reports")
    options = parser.parse_args()
    if options.reports:
        raise SystemExit(int(measure_memory(options) > GROWTH))
    met = [measure_rates(options, tls=tls) for tls in ((False,) if options.plain_only else (False, True))]
    raise SystemExit(int(not all(met)))


if __name__ == "__main__":
    main()
