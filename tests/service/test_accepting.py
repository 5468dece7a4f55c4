"""A flood of new connections delays new callers only, each address in turn, and uses bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette

from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import Limits, Metrics, RoleTokens, StepTimes, self_signed
from dpbandits.service.shared._accepting import Acceptor
from dpbandits.service.shared._connections import Door
from dpbandits.service.shared._rates import Rates
from dpbandits.service.shared._transport import trusting
from dpbandits.service.shared._turns import Turns
from dpbandits.service.wire import hashed, new_secret

from .helpers import Deployment, small_study
from .live import served

OPERATOR = new_secret()
STEPS = StepTimes()


@dataclass
class Live:
    """A coordinator over TLS."""

    app: Starlette
    port: int
    trusted: ssl.SSLContext

    def opened(self, address: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=5, source_address=(address, 0))

    def secured(self, address: str = "127.0.0.1") -> ssl.SSLSocket:
        return self.trusted.wrap_socket(self.opened(address), server_hostname="127.0.0.1")

    def ask(self, address: str = "127.0.0.1") -> float:
        """Send an honest request on a new connection; return the seconds that it took."""
        began = time.monotonic()
        with self.secured(address) as connection:
            connection.sendall(b"GET /v1/status HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ")
            connection.sendall(OPERATOR.encode() + b"\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        return time.monotonic() - began

    def metric(self, name: str) -> float:
        lines = self.app.state.guard.metrics.text().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@contextlib.contextmanager
def _live(directory: Path, limits: Limits) -> Iterator[Live]:
    deployed = Deployment(study=small_study("central"), mode=None)
    app = coordinator_app(deployed.coordinator, RoleTokens(hashes={"operator": hashed(OPERATOR)}), limits)
    pair = directory / "certificate.pem", directory / "key.pem"
    self_signed(*pair)
    with served(app, steps=STEPS, pair=pair) as url:
        yield Live(app=app, port=urlsplit(url).port or 0, trusted=trusting(pair[0]))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with _live(tmp_path_factory.mktemp("accepting"), Limits(burst=5, requests_per_second=5)) as running:
        yield running


@pytest.fixture
def rested(live: Live) -> Live:
    """Return the server with full buckets."""
    live.app.state.guard.rates.__init__(Limits(burst=5, requests_per_second=5))
    return live


def _hello(trusted: ssl.SSLContext) -> bytes:
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusted.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1").do_handshake()
    return sent.read()


def test_honest_callers_use_up_no_handshakes(rested: Live) -> None:
    """Each returns its token with its first accepted request: 30 connections, 5 tokens, 5 more a second."""
    began = time.monotonic()
    for _ in range(30):
        rested.ask()
    assert time.monotonic() - began < 4  # without returned tokens it takes at least 5 seconds


def test_handshakes_are_limited_and_each_address_has_its_turn(rested: Live) -> None:
    """An attacker asks for 15 handshakes at once and never sends a request. 5 begin, then 5 a second."""
    hello, opened = _hello(rested.trusted), list[socket.socket]()
    for _ in range(15):
        opened.append(rested.opened("127.0.0.2"))
        opened[-1].sendall(hello)
    time.sleep(0.1)
    assert 1 <= _answered(opened) <= 7
    rested.ask("127.0.0.3")
    assert _answered(opened) < 12  # the caller's turn was the second one, not the 16th
    rested.ask("127.0.0.2")  # an honest caller at the attacker's address waits for its turn
    assert _answered(opened) == 15
    for one in opened:
        one.close()


def _answered(opened: list[socket.socket]) -> int:
    """Return in how many sockets a reply waits."""
    found = 0
    for one in opened:
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            found += one.recv(1, socket.MSG_PEEK) != b""
    return found


def test_a_hello_may_arrive_in_parts(rested: Live) -> None:
    hello = _hello(rested.trusted)
    with rested.opened() as slow:
        for part in (hello[:3], hello[3:100], hello[100:]):
            slow.sendall(part)
            time.sleep(0.05)
        assert slow.recv(1) == b"\x16"  # the server's part of the handshake


def test_what_is_no_handshake_is_ended_before_tls(rested: Live) -> None:
    before = rested.metric("dpbandits_invalid_requests_total")
    with rested.opened() as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    assert rested.metric("dpbandits_invalid_requests_total") == before + 1
    rested.ask()


def test_unfinished_hellos_make_room(rested: Live) -> None:
    """At most 4 sockets are held. Those without a whole hello end first, then those of the longest queue."""
    metrics, rates = Metrics(), Rates(Limits(burst=1000, requests_per_second=1e-6))
    while not rates.stranger():
        pass  # no handshake can begin
    door = Door(steps=STEPS, tls=rested.trusted, rates=rates, metrics=metrics, most=100)
    acceptor, hello = Acceptor(door, 4), _hello(rested.trusted)

    async def run() -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        acceptor.begin([listener], lambda: None)  # type: ignore[arg-type, return-value]
        opened = []
        for address, sent in [("127.0.1.1", b"\x16\x03"), *[("127.0.1.2", hello)] * 9, ("127.0.1.3", hello)]:
            opened.append(socket.create_connection(listener.getsockname(), source_address=(address, 0)))
            opened[-1].sendall(sent)
            await asyncio.sleep(0.01)
        held = sorted(caller.address for caller in acceptor._held)
        assert held == ["127.0.1.2", "127.0.1.2", "127.0.1.2", "127.0.1.3"]
        for one in opened:
            one.close()
        await asyncio.sleep(1.1)  # no token: the next look at the one whose turn it is
        assert len(acceptor._held) < 4
        acceptor.close()
        for one in opened:
            one.close()

    asyncio.run(run())
    assert b'refused_connections_total{reason="made-room"} 7.0' in metrics.text()


@dataclass(eq=False)
class Named:
    """A caller that waits for its turn."""

    name: str
    address: str
    round: int = 0


def test_each_address_has_one_turn_per_round() -> None:
    turns = Turns[Named]()
    many = [Named(f"a{number}", "a") for number in range(5)]
    for one in many:
        turns.add(one)
    turns.add(Named("b0", "b"))
    assert turns.last() is many[4]  # makes room: its address has most of those that wait
    turns.remove(many[4])
    turns.remove(many[2])  # it has ended
    order = list[str]()
    while turns:
        first = turns.first()
        turns.remove(first)
        order.append(first.name)
        if first.name == "b0":
            turns.add(Named("c0", "c"))
    assert order == ["a0", "b0", "a1", "c0", "a3"]
    assert not turns._addresses  # nothing is remembered
    assert not turns._rounds


def test_tokens_of_handshakes_and_of_strangers() -> None:
    now = [0.0]
    rates = Rates(Limits(burst=2, requests_per_second=4.0), clock=lambda: now[0])
    assert [rates.stranger() for _ in range(3)] == [0.0, 0.0, 0.25]
    rates.no_stranger()
    assert [rates.stranger(), rates.stranger()] == [0.0, 0.25]
    now[0] += 10
    for _ in range(9):
        rates.no_stranger()  # never more than the bucket holds
    assert sum(rates.stranger() == 0.0 for _ in range(9)) == 2
    assert sum(rates.calm_strangers() for _ in range(30)) == 20
    now[0] += 1
    assert sum(rates.calm_strangers() for _ in range(30)) == 20


def test_an_ipv6_network_counts_as_one_address() -> None:
    rates = Rates(Limits(burst=1, requests_per_second=1e-6))
    for number in range(2):
        assert rates.bad(f"2001:db8:0:1::{number}")
    assert not rates.welcome("2001:db8:0:1:ffff::1")
    assert rates.welcome("2001:db8:0:2::1")
    for address in ("::ffff:192.0.2.1", "no:address"):
        assert rates.bad(address)
        assert rates.bad(address)
        assert not rates.welcome(address)
    assert rates.welcome("::ffff:192.0.2.2")
