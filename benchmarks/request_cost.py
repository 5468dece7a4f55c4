"""The processor time of one coordinator per request, by kind of request, relative to an empty handler.

A real coordinator (`dpbandits serve`) with SQLite and uvicorn (with h11) with a handler that does nothing get
the same number of requests in alternation, over kept connections. Processor time is compared instead of time
on the clock, so other programs on the machine matter less.

    python benchmarks/request_cost.py                  # TLS
    python benchmarks/request_cost.py --plain
    python benchmarks/request_cost.py --waiting

Kinds: a poll of a client that has joined, a report, a request for a path that does not exist, and a poll with
a guessed credential; with TLS also a new connection that sends the first bytes of a handshake, and one that
finishes the handshake and sends no request. With `--waiting` the cohort still waits for the actuator, as it
does for most polls of a study, and there are no reports. Exits with status 1 if a poll takes more than 2.5
times as long as an empty request.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import ssl
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from load_generator import Sealer, send_all
from service_load import _wait_for
from siege import prepared
from siege_callers import poll, post
from tests.service.processes import free_port

from dpbandits.service.shared._transport import trusting

LIMIT = 2.5
CONNECTIONS = 64
NEW = ("half a handshake", "handshake")  # kinds of new connections without a request


async def connect(port: int, context: ssl.SSLContext | None, count: int) -> None:
    """Open new connections from 200 addresses and reset them after 0.1 s."""
    at_once = asyncio.Semaphore(500)

    async def one(number: int) -> None:
        async with at_once:
            address = (f"127.4.0.{1 + number % 200}", 0)
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=address)
            if context is None:
                writer.write(b"\x16\x03\x01\x02\x00\x01")
            await asyncio.sleep(0.1)
            writer.transport.abort()

    await asyncio.gather(*(one(number) for number in range(count)))
    await asyncio.sleep(0.5)  # until the server has noticed


@dataclass
class Costs:
    """The running servers, and the requests of each kind."""

    servers: dict[str, psutil.Process]
    ports: dict[str, int]
    context: Any
    requests: dict[str, Callable[[], bytes]]

    def of(self, kind: str, count: int) -> float:
        """Return the processor time per request, in microseconds."""
        server = "empty" if kind == "empty" else "coordinator"
        if kind in NEW:
            before = self._busy(server)
            asyncio.run(connect(self.ports[server], self.context if kind == NEW[1] else None, count))
            return (self._busy(server) - before) / count * 1e6
        made = [self.requests[kind]() for _ in range(count)]
        before = self._busy(server)
        told = asyncio.run(send_all(made, self.ports[server], self.context, CONNECTIONS))
        expected = {"empty": "200", "poll": "200", "report": "204", "no such path": "404", "guess": "401"}
        if told["statuses"] != {expected[kind]: count}:
            raise SystemExit(f"{kind}: got {told['statuses']}, expected {expected[kind]}")
        return (self._busy(server) - before) / count * 1e6

    def _busy(self, server: str) -> float:
        process = self.servers[server]
        times = [one.cpu_times() for one in (process, *process.children())]
        return sum(float(one.user + one.system) for one in times)


@contextlib.contextmanager
def running(directory: Path, clients: int, *, tls: bool, waiting: bool) -> Iterator[Costs]:
    """Run both servers. The rate limits are so high that every request is handled."""
    state = "playing" if waiting else "collecting"
    site, settings = prepared(directory, clients, "sqlite:///study.sqlite", state)
    text = site.study_file.read_text() + "\n[limits]\nrequests_per_second = 1e9\nburst = 1000000000\n"
    if not tls:
        lines = [
            line for line in text.splitlines() if not line.strip().startswith(("certificate =", "key ="))
        ]
        text = "\n".join(lines)
    site.study_file.write_text(text)
    port, pair = free_port(), [str(site.certificate), str(directory / "tls.pem")] if tls else []
    empty = [
        sys.executable,
        str(Path(__file__).with_name("service_load.py")),
        "serve-plain",
        str(port),
        *pair,
    ]
    numbers, sealer = itertools.count(), Sealer(settings)
    guessed = b'{"pseudonym": "%s", "have": ""}' % (b"0" * 64)

    def polled() -> bytes:
        return poll(next(numbers) % clients, sealer.plan_digest)

    with contextlib.ExitStack() as stack:
        commands = {"coordinator": site.coordinator(), "empty": empty}
        servers = {
            name: psutil.Process(stack.enter_context(site.running(name, command)).pid)
            for name, command in commands.items()
        }
        for one in (site.port, port):
            _wait_for(f"{'https' if tls else 'http'}://127.0.0.1:{one}/healthz", site.certificate)
        reporting = itertools.count()
        yield Costs(
            servers=servers,
            ports={"coordinator": site.port, "empty": port},
            context=trusting(site.certificate) if tls else None,
            requests={
                "empty": polled,
                "poll": polled,
                "report": lambda: sealer.request(next(reporting)),
                "no such path": lambda: b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
                "guess": lambda: post("/v1/tasks", f"g{next(numbers):042d}", guessed),
            },
        )


def main() -> None:
    """Measure and print; exit with a non-zero status if a poll is too expensive."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000, help="requests of each kind per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--waiting", action="store_true", help="poll before the reports are collected")
    options = parser.parse_args()
    clients = options.requests if options.waiting else options.requests * (options.rounds + 1)
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory), clients, tls=not options.plain, waiting=options.waiting) as costs,
    ):
        kinds = [kind for kind in costs.requests if kind != "report" or not options.waiting]
        kinds += () if options.plain else NEW
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(options.rounds + 1):  # the first round warms up
            for kind, times in found.items():
                took = costs.of(kind, options.requests)
                if number:
                    times.append(took)
    ratios = {
        kind: statistics.median(one / least for one, least in zip(times, found["empty"], strict=True))
        for kind, times in found.items()
    }
    for kind, times in found.items():
        print(f"{kind:16} {statistics.median(times):6.0f} µs, {ratios[kind]:.2f} times an empty request")
    raise SystemExit(int(ratios["poll"] > LIMIT))


if __name__ == "__main__":
    main()
