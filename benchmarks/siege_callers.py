"""The clients and the attackers of siege.py, which starts and controls them.

    siege_callers.py clients SETTINGS.json   # honest clients; reads lines `SECONDS FIRST LAST`
    siege_callers.py flood SETTINGS.json     # bad requests, an open loop
    siege_callers.py slow SETTINGS.json      # sockets that stop half-way

Honest clients keep a connection each and poll. In each measurement the clients FIRST to LAST also send their
report. The time of a request counts from the moment at which it was due. Each mode prints JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import re
import resource
import ssl
import statistics
import sys
import time
from asyncio import sslproto
from collections import Counter, deque
from pathlib import Path
from typing import Any

from load_generator import Sealer, ticket

from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import hashed

sslproto.SSLProtocol.max_size = 32_768  # type: ignore[attr-defined]  # memory of thousands of connections


_INTERVAL = re.compile(rb'"poll_seconds":([0-9.]+)')


def token(number: int) -> str:
    """Return the token of one simulated client."""
    return f"t{number:042d}"


def poll(number: int, plan: str) -> bytes:
    """Return the request with which a client polls that has the plan with this digest."""
    body = json.dumps({"pseudonym": hashed(ticket(number)), "have": plan}).encode()
    return post("/v1/tasks", token(number), body)


def post(path: str, secret: str, body: bytes, length: int | None = None) -> bytes:
    """Return a request; `length` may differ from that of the body."""
    size = len(body) if length is None else length
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\nContent-Length: {size}\r\n\r\n"
    )
    return head.encode() + body


class Caller(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self.transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[str] | None = None
        self.interval = 5.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, request: bytes) -> asyncio.Future[str]:
        """Send a request; the result is the status, or `lost`."""
        assert self.transport is not None
        self._received = b""
        self.answer = asyncio.get_running_loop().create_future()
        if self.transport.is_closing():
            self.answer.set_result("lost")
        else:
            self.transport.write(request)
        return self.answer

    def data_received(self, data: bytes) -> None:
        """Receive a response or a part of one."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        _, found, rest = head.lower().partition(b"content-length: ")
        length = int(rest.split(b"\r\n", 1)[0]) if found else 0
        if end and len(body) >= length and self.answer is not None and not self.answer.done():
            told = _INTERVAL.search(body)
            self.interval = float(told[1]) if told else self.interval
            self.answer.set_result(head[9:12].decode())

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell a waiting caller."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result("lost")


class Clients:
    """Honest clients. Each has a connection of its own and polls from the moment at which it is connected."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._context = trusting(Path(settings["certificates"]))
        self._sealer = Sealer(settings)
        self._callers: dict[int, Caller] = {}
        self._running = set[asyncio.Task[None]]()
        self._polls = list[tuple[str, float]]()
        self._busy: dict[int, asyncio.Lock] = {}  # a client has one request at a time
        self._reported = Counter[str]()
        self._lost = 0

    async def connect(self) -> None:
        """Open all connections, 16 at a time."""
        numbers = iter(range(self._settings["clients"]))

        async def some() -> None:
            for number in numbers:
                await self._open(number)
                task = asyncio.create_task(self._run(number))
                self._running.add(task)

        await asyncio.gather(*(some() for _ in range(16)))

    async def _open(self, number: int) -> Caller:
        port, loop = self._settings["port"], asyncio.get_running_loop()
        _, caller = await loop.create_connection(Caller, "127.0.0.1", port, ssl=self._context)
        self._callers[number] = caller
        return caller

    async def _run(self, number: int) -> None:
        request = poll(number, self._sealer.plan_digest)
        due = time.monotonic() + random.random()
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            status = await self._request(number, request)
            self._polls.append((status, time.monotonic() - due))
            due += self._callers[number].interval * (0.5 + random.random())

    async def _request(self, number: int, request: bytes) -> str:
        async with self._busy.setdefault(number, asyncio.Lock()):
            status = await self._callers[number].ask(request)
            if status == "lost":  # a client tries again on a new connection
                self._lost += 1
                with contextlib.suppress(OSError, ssl.SSLError):
                    status = await (await self._open(number)).ask(request)
            return status

    async def _report(self, number: int, seconds: float) -> None:
        """Send a report at a random time, as if a poll had told the client to."""
        request = self._sealer.request(number)
        await asyncio.sleep(random.random() * seconds)
        self._reported[await self._request(number, request)] += 1

    async def measure(self, seconds: float, first: int, last: int) -> dict[str, Any]:
        """Let all clients poll for a while, and some of them report."""
        self._polls, self._reported, self._lost = [], Counter(), 0
        reports = [asyncio.create_task(self._report(number, seconds / 2)) for number in range(first, last)]
        late, until = list[float](), time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            await asyncio.sleep(0.02)
            late.append(time.monotonic() - now - 0.02)
        for report in reports:
            report.cancel()  # one that has no answer yet is not counted
        ordered = sorted(took for _, took in self._polls)
        return {
            "requests": len(ordered),
            "median": statistics.median(ordered),
            "p99": ordered[int(0.99 * len(ordered))],
            "largest": ordered[-1],
            "polled": dict(Counter(status for status, _ in self._polls)),
            "reported": dict(self._reported),
            "lost": self._lost,
            "late": sorted(late)[
                int(0.99 * len(late))
            ],  # of the clients themselves: their share of the machine
        }


async def run_clients(settings: dict[str, Any]) -> None:
    """Connect, then measure once per line of standard input."""
    clients = Clients(settings)
    await clients.connect()
    print(json.dumps({"connected": settings["clients"]}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        seconds, first, last = line.split()
        print(json.dumps(await clients.measure(float(seconds), int(first), int(last))), flush=True)


def bad_requests() -> Any:
    """Yield bad requests of several kinds, each with another guessed credential."""
    for number in itertools.count():
        secret = f"g{random.getrandbits(128):042d}"
        yield (
            post("/v1/tasks", secret, b'{"pseudonym": "%s", "have": ""}' % (b"0" * 64)),
            post("/v1/phases/1/attempts/1/reports", secret, b"x" * 200),
            post("/v1/clients", secret, b'{"token": "%s"}' % (b"a" * 64)),
            b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /v1/status HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n" % secret.encode(),
        )[number % 5]


class Flood:
    """Bad requests at a fixed rate, whether or not they are answered.

    Each uses a connection that has no request at the moment. If there is none, it is a new connection. One in
    ten of these finishes its handshake and sends the request; the others send the first bytes of a handshake.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._context = trusting(Path(settings["certificates"]))
        count = settings["addresses"]
        first = 1 if count == 1 else 1000  # other addresses than those of a flood before
        self._sources = itertools.cycle([f"{n // 250}.{1 + n % 250}" for n in range(first, first + count)])
        self._free = deque[Caller]()
        self._bad = bad_requests()
        self._new = itertools.count(1)
        self.outcomes = Counter[str]()

    async def connect(self) -> None:
        """Open the connections, 16 at a time."""
        left = iter(range(self._settings["connections"]))

        async def some() -> None:
            for _ in left:
                try:
                    caller = await self._open()
                except OSError:
                    continue
                await caller.ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                self._free.append(caller)

        await asyncio.gather(*(some() for _ in range(16)))

    async def one(self) -> None:
        """Send one bad request."""
        try:
            if self._free:
                outcome = await self._ask(self._free.popleft())
            elif next(self._new) % 10:
                outcome = await self._half_handshake()
            else:
                async with asyncio.timeout(10):
                    caller = await self._open()
                outcome = await self._ask(caller)
        except OSError:
            outcome = "refused"
        self.outcomes[outcome] += 1

    async def _open(self) -> Caller:
        address = (f"127.2.{next(self._sources)}", 0)
        _, caller = await asyncio.get_running_loop().create_connection(
            Caller, "127.0.0.1", self._settings["port"], ssl=self._context, local_addr=address
        )
        return caller

    async def _ask(self, caller: Caller) -> str:
        outcome = await caller.ask(next(self._bad))
        if outcome != "lost":
            self._free.append(caller)
        return outcome

    async def _half_handshake(self) -> str:
        address = (f"127.2.{next(self._sources)}", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", self._settings["port"], local_addr=address)
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        await asyncio.sleep(0.1)
        writer.transport.abort()
        return "new connection"


async def run_flood(settings: dict[str, Any]) -> None:
    """Connect, print a line, and start requests at a fixed rate."""
    flood, tasks = Flood(settings), set[asyncio.Task[None]]()
    await flood.connect()
    print("{}", flush=True)
    began, sent = time.monotonic(), 0
    while (now := time.monotonic()) < began + settings["seconds"]:
        for _ in range(int((now - began) * settings["rate"]) - sent):
            sent += 1
            task = asyncio.create_task(flood.one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    print(json.dumps({"sent": sent, "outcomes": dict(flood.outcomes)}), flush=True)


async def run_slow(settings: dict[str, Any]) -> None:
    """Keep sockets open that stop half-way, and open a new one for each that ends."""
    context, until = trusting(Path(settings["certificates"])), time.monotonic() + settings["seconds"]
    path, ended, opened = "/v1/phases/1/attempts/1/reports", Counter[str](), Counter[str]()
    kinds: dict[str, tuple[bytes | None, bytes]] = {  # what is sent before the handshake, and after it
        "silent": (b"", b""),
        "half a handshake": (b"\x16\x03\x01\x02\x00\x01", b""),
        "half a head": (None, b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\nX: "),
        "one byte short": (None, post(path, "s" * 43, b"x" * 59_999, 60_000)),
        "huge": (None, post(path, "s" * 43, b"x" * 65_536, 1 << 20)),
    }

    print("{}", flush=True)

    async def one(kind: str) -> None:
        raw, sent = kinds[kind]
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
                tls = context if raw is None else None
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", settings["port"], ssl=tls, local_addr=("127.3.0.1", 0), limit=1024
                )
                opened[kind] += 1
                writer.write(raw or sent)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, until - time.monotonic())):
                        while await reader.read(1024):
                            pass
                ended[kind] += 1
                writer.transport.abort()
            await asyncio.sleep(random.random())

    names = itertools.islice(itertools.cycle(kinds), settings["sockets"])
    await asyncio.gather(*(one(kind) for kind in names))
    print(json.dumps({"opened": dict(opened), "ended": dict(ended)}), flush=True)


def main() -> None:
    """Run one kind of callers."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    settings = json.loads(Path(sys.argv[2]).read_text())
    asyncio.run({"clients": run_clients, "flood": run_flood, "slow": run_slow}[sys.argv[1]](settings))


if __name__ == "__main__":
    main()
