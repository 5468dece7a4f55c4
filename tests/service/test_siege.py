"""Callers that stop half-way, send too much or guess credentials do not keep honest ones out."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import Limits, RoleTokens, StepTimes, self_signed
from dpbandits.service.shared._rates import Rates
from dpbandits.service.shared._transport import trusting
from dpbandits.service.shuffler import shuffler_app
from dpbandits.service.wire import hashed, new_secret

from .helpers import Deployment, Member, small_study
from .live import served

OPERATOR = new_secret()
ROLES = RoleTokens(hashes={"operator": hashed(OPERATOR)})
SHORT = StepTimes(handshake=0.4, head=0.4, body=0.5, rest=0.4, reply=1.0, idle=30.0)
LARGE = 1 << 20
REPORTS = "/v1/phases/1/attempts/1/reports"


@dataclass
class Besieged:
    """A coordinator over plain HTTP and over TLS, with one client that has joined."""

    deployed: Deployment
    app: Starlette
    http: httpx.Client
    port: int
    tls_port: int
    member: Member

    def served(self) -> None:
        reply = self.http.post("/v1/tasks", json={"pseudonym": self.member.pseudonym}, headers=self.token)
        assert reply.status_code == 200

    @property
    def token(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.member.token}"}

    @property
    def ticket(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.member.ticket}"}

    def metric(self, name: str) -> float:
        text = self.http.get("/metrics", headers={"Authorization": f"Bearer {OPERATOR}"}).text
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


@contextlib.contextmanager
def _besieged(directory: Path, limits: Limits) -> Iterator[Besieged]:
    deployed = Deployment(study=small_study("central"), mode=None)
    deployed.advance()
    (member,) = deployed.enrolled(1)
    deployed.task(member)
    app = coordinator_app(deployed.coordinator, ROLES, limits)
    app.router.lifespan_context = _no_lifespan  # two servers share the application
    pair = directory / "certificate.pem", directory / "key.pem"
    self_signed(*pair)
    with (
        served(app, steps=SHORT) as url,
        served(app, steps=SHORT, pair=pair) as secured,
        httpx.Client(base_url=url) as http,
    ):
        assert httpx.get(f"{secured}/healthz", verify=trusting(pair[0])).status_code == 200
        port, tls_port = (urlsplit(one).port or 0 for one in (url, secured))
        yield Besieged(deployed=deployed, app=app, http=http, port=port, tls_port=tls_port, member=member)
    deployed.coordinator.close()


@contextlib.asynccontextmanager
async def _no_lifespan(_app: object) -> Any:
    yield


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    with _besieged(tmp_path_factory.mktemp("siege"), Limits(all_body_bytes=LARGE)) as besieged:
        yield besieged


def _opened(port: int, sent: bytes) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=5)
    opened.sendall(sent)
    return opened


def _head(path: str, length: int, secret: str = "x" * 43, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {secret}\r\n{more}"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


def _seconds_until_closed(opened: socket.socket, trickle: bytes = b"") -> float:
    """Return how long the server keeps a connection while one byte of `trickle` is sent every 50 ms."""
    began = time.monotonic()
    opened.settimeout(0.05)
    rest = iter(trickle)
    while time.monotonic() < began + 5:
        try:
            if opened.recv(4096) == b"":
                break
        except TimeoutError:
            with contextlib.suppress(OSError):
                opened.sendall(bytes([next(rest)]) if trickle else b"")
        except OSError:
            break
    opened.close()
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("step", "sent", "trickle"),
    [
        ("head", b"", b""),  # never sends a request
        ("head", b"GET /v1/stu", b"dy?" + b"x" * 200),  # slow head
        ("head", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /", b"x" * 200),  # slow second head
        ("body", _head("/v1/tasks", 300), b"x" * 200),  # slow body
        ("rest", _head(REPORTS, 1000 * LARGE), b"x" * 200),  # goes on with a refused body
    ],
)
def test_a_slow_request_is_ended_in_time(live: Besieged, step: str, sent: bytes, trickle: bytes) -> None:
    before = live.metric(f'dpbandits_timeouts_total{{step="{step}"}}')
    live.served()
    lasted = _seconds_until_closed(_opened(live.port, sent), trickle)
    assert 0.3 < lasted < 2
    assert live.metric(f'dpbandits_timeouts_total{{step="{step}"}}') == before + 1
    live.served()  # on a connection that was idle for longer than the slow one was allowed to take


def test_a_handshake_that_stops_is_ended_in_time(live: Besieged) -> None:
    assert 0.3 < _seconds_until_closed(_opened(live.tls_port, b"\x16\x03\x01")) < 2
    live.served()


def test_a_large_body_is_read_after_its_ticket_is_known_and_in_bounded_memory(live: Besieged) -> None:
    """The credential is checked before the first byte of a body above 64 KiB arrives."""
    stranger = _opened(live.port, _head(REPORTS, LARGE))
    assert b" 401 " in stranger.recv(4096)
    client = _opened(live.port, _head(REPORTS, LARGE - 1, live.member.ticket))
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):  # the server waits for the body
        client.recv(4096)
    full = _opened(live.port, _head(REPORTS, LARGE - 1, live.member.ticket))
    assert b" 503 " in full.recv(4096)
    client.settimeout(5)
    client.sendall(b"x" * (LARGE - 1))
    assert b" 422 " in client.recv(4096)
    again = _opened(live.port, _head(REPORTS, LARGE - 1, live.member.ticket) + b"x" * (LARGE - 1))
    assert b" 422 " in again.recv(4096)  # the memory was given back
    for one in (stranger, client, full, again):
        one.close()


def test_large_bodies_with_a_token_share_bounded_memory() -> None:
    """A coordinator cannot fill the memory of its shuffler, with one token or with several."""
    deployed, tokens = Deployment(study=small_study("shuffle"), mode="split"), [new_secret(), new_secret()]
    deployed.collect()
    assert deployed.link is not None
    roles = RoleTokens(hashes={"coordinator": [hashed(token) for token in tokens]})
    app = shuffler_app(deployed.link.shuffler, roles, Limits(trusted_body_bytes=LARGE))
    path, body = "/v1/phases/1/attempts/9/collection/sums", b'{"without":[]}'.ljust(LARGE)
    with served(app) as url:
        port = urlsplit(url).port or 0
        first = _opened(port, _head(path, LARGE, tokens[0]))
        first.settimeout(0.2)
        with pytest.raises(TimeoutError):  # even the largest body is admitted while there is no other
            first.recv(4096)
        for token in tokens:
            with _opened(port, _head(path, 1 << 17, token)) as full:
                assert b" 503 " in full.recv(4096)
        with _opened(port, _head(path, len(body.strip()), tokens[1]) + body.strip()) as small:
            assert b" 404 " in small.recv(4096)  # a small body needs no room
        first.settimeout(5)
        first.sendall(body)
        assert b" 404 " in first.recv(4096)
        first.close()
        with _opened(port, _head(path, LARGE, tokens[1]) + body) as again:
            assert b" 404 " in again.recv(4096)  # the memory was given back
    deployed.coordinator.close()


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"POST /v1/tasks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def _reply(port: int, *parts: bytes) -> bytes:
    """Return all that a server replies until it ends the connection, or for a second."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=1)
    reply = b""
    with contextlib.suppress(ConnectionError):
        for part in parts:
            opened.sendall(part)
            time.sleep(0.05)  # so that the parts arrive separately
        with contextlib.suppress(TimeoutError):
            while received := opened.recv(4096):
                reply += received
            reply += b"<end>"
    opened.close()
    return reply


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            [_head("/v1/tasks", 5, more="Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n"], id="lengths"
        ),
        pytest.param([CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n"], id="encoding"),
        pytest.param([HEALTH + b"X: " + b"y" * 9000 + b"\r\n\r\n"], id="field"),
        pytest.param([HEALTH + b"X: y\r\n" * 2000], id="fields"),
        pytest.param([HEALTH + b"X: " + b"y" * 9000], id="unfinished"),
        pytest.param([HEALTH + b"X: " + b"y" * 5000, b"y" * 5000], id="unfinished in two"),
        pytest.param([CHUNKED + b"0\r\n" + b"X: y\r\n" * 3000], id="trailers"),
        pytest.param([CHUNKED + b"zz\r\n"], id="chunk"),
        pytest.param(
            [_head(REPORTS, 3, more="Connection: upgrade\r\nUpgrade: h2c\r\n") + b"abc"], id="upgrade"
        ),
    ],
)
def test_a_request_that_is_ambiguous_or_unbounded_is_refused_and_the_connection_ends(
    live: Besieged, sent: list[bytes]
) -> None:
    smuggled = HEALTH + b"\r\n"
    reply = _reply(live.port, *sent[:-1], sent[-1] + smuggled)
    assert reply.startswith(b"HTTP/1.1 400 ") or reply in (b"", b"<end>")
    assert reply.count(b"HTTP/1.1") <= 1  # what could be a smuggled request is not answered
    live.served()


def test_few_requests_may_wait_for_a_reply_and_garbage_ends_the_connection(live: Besieged) -> None:
    assert _reply(live.port, (HEALTH + b"\r\n") * 4).count(b"HTTP/1.1 200 ") == 4
    assert b" 200 " not in _reply(live.port, (HEALTH + b"\r\n") * 40)
    assert b" 200 " not in _reply(live.port, HEALTH + b"\r\n\0\0\0\0")
    assert b" 200 " not in _reply(live.port, HEALTH + b"\r\n" + HEALTH + b"X: " + b"y" * 9000)
    other = _reply(live.port, HEALTH + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert b" 200 " in other
    assert other.endswith(b"<end>")
    live.served()


def test_waiting_connections_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.service.shared._serving.most_connections", lambda _backlog: 6)
    with _besieged(tmp_path, Limits()) as small:
        small.served()
        silent = [_opened(small.port, b"GET /") for _ in range(20)]
        small.served()  # its connection was used before: it stays
        assert small.metric("dpbandits_refused_connections_total") >= 15
        with httpx.Client(base_url=small.http.base_url) as other:
            assert other.get("/healthz").status_code == 200
        for one in silent:
            one.close()


def test_a_flood_of_guessed_credentials_does_not_reach_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _besieged(tmp_path, Limits(burst=5, requests_per_second=1e-6)) as flooded:
        flooded.served()
        run, reads = flooded.deployed.coordinator.writer.run_async, list[str]()

        async def counted(name: str, *given: Any, **options: Any) -> Any:
            reads.append(name)
            return await run(name, *given, **options)

        monkeypatch.setattr(flooded.deployed.coordinator.writer, "run_async", counted)
        pauses = list[int]()

        async def pause() -> None:
            pauses.append(len(reads))

        monkeypatch.setattr("dpbandits.service.shared._refusing._pause", pause)
        body = {"json": {"pseudonym": "0" * 64}}
        guesses = [{"Authorization": f"Bearer {new_secret()}"} for _ in range(12)]
        with httpx.Client(base_url=flooded.http.base_url) as other:
            replies = [other.post("/v1/tasks", headers=one, **body) for one in guesses[:10]]
            assert [one.status_code for one in replies] == [401] * 10
            ends = ["connection" in one.headers for one in replies]
            assert ends == [False] * 5 + [True] * 5  # from the sixth bad request on, whatever its address
            with pytest.raises(httpx.TransportError):  # its connection has ended, and it gets no other
                other.post("/v1/tasks", headers=guesses[10], **body)
        assert len(reads) == 10
        assert pauses == [6, 7, 8, 9, 10]
        flooded.served()  # from the same address
        report = flooded.http.post(REPORTS, content=b"x", headers=flooded.ticket)
        assert report.status_code == 422  # read, on the connection of the poll
        with pytest.raises(httpx.TransportError):  # but it gets no further connections
            httpx.get(f"http://127.0.0.1:{flooded.port}/healthz")


def test_too_many_requests_without_a_credential_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are served, but a connection without an accepted request then ends."""
    with _besieged(tmp_path, Limits(burst=2, requests_per_second=1e-6)) as flooded:
        flooded.served()
        pauses = list[str]()

        async def pause() -> None:
            pauses.append("")

        monkeypatch.setattr("dpbandits.service.shared._refusing._pause", pause)
        flooded.app.mount("/pages", PlainTextResponse("a page"))  # not in the table of endpoints
        while flooded.app.state.guard.rates.calm_strangers():
            pass
        for method, path in (("GET", "/healthz"), ("OPTIONS", "/v1/study"), ("GET", "/pages/one")):
            with httpx.Client(base_url=flooded.http.base_url) as other:
                reply = other.request(method, path)
                assert reply.status_code in (200, 204)
                assert reply.headers["connection"] == "close"
        assert len(pauses) == 3
        reply = flooded.http.get("/healthz")
        assert reply.status_code == 200
        assert "connection" not in reply.headers
        assert len(pauses) == 3


def test_limits_per_address_and_per_study() -> None:
    now = [0.0]
    rates = Rates(Limits(burst=2, requests_per_second=1.0), clock=lambda: now[0])

    def guesses(address: str, count: int) -> int:
        allowed = 0
        for number in range(count):
            secret = f"{address} {now[0]} {number}"
            if rates.allow(secret, address):
                rates.wrong(secret, address)
                allowed += 1
        return allowed

    assert guesses("a", 100) == 4
    assert not rates.welcome("a")
    for number in range(500):  # honest callers use up nothing
        assert rates.allow(f"honest {number}", "b")
        rates.accepted(f"honest {number}")
    assert rates.allow("honest 0", "a")  # proven before, so the address does not matter
    assert [guesses(f"address {number}", 100) for number in range(5)] == [4, 4, 4, 4, 0]  # 20 per study
    assert not rates.allow("new", "b")
    assert rates.allow("new", "b", proven=True)
    now[0] += 3
    assert guesses("a", 100) == 3  # what was refilled
    assert rates.tidy()
    now[0] += 20
    assert not rates.tidy()  # nothing is remembered
    assert [rates.calm() for _ in range(3)] == [True, True, False]  # bad requests of all addresses together
    now[0] += 1
    assert rates.calm()
