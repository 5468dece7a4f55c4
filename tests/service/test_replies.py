"""Replies of a dishonest server: a compressed, endless or huge reply is refused, and takes little memory."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dpbandits.errors import Refused, Unreachable
from dpbandits.service.coordinator._http_link import HttpLink
from dpbandits.service.shared import AsyncTransport, Backoff, Transport, _transport, call
from dpbandits.service.shared._transport import deadline_for
from dpbandits.service.wire import StudyReply

MEGABYTE = bytes(1 << 20)
BOMB = gzip.compress(bytes(1 << 28), 1)  # 1 MB that expands to 256 MB
Reply = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def _dishonest_server(reply: Reply) -> Iterator[tuple[str, list[str]]]:
    """Serve one kind of reply; yield the URL and the Accept-Encoding headers of the requests."""
    asked = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Accept-Encoding", ""))
            with contextlib.suppress(OSError):  # the reader hangs up
                reply(self)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _compressed(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(BOMB)))
    handler.end_headers()
    handler.wfile.write(BOMB)


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(1024):
        handler.wfile.write(MEGABYTE)


def _announced(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 40))
    handler.end_headers()
    handler.wfile.write(MEGABYTE)


def _busy(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(503)
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(BOMB)


def _refusing(handler: BaseHTTPRequestHandler) -> None:
    body = b'{"error":"closed","message":"gone\\u001b[2J' + b"x" * 100_000 + b'"}'
    handler.send_response(410)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _trickling_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    _trickle(handler)


def _trickling_head(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    _trickle(handler)


def _trickling_error(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(503)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    _trickle(handler)


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, more often than any time limit of a single read."""
    for _ in range(1000):
        handler.wfile.write(b" ")
        time.sleep(0.01)


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("reply", "error"),
    [(_compressed, "compressed"), (_endless, "larger than 8,388,608"), (_announced, "larger than 8,388,608")],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_reply_that_would_fill_the_memory_is_refused(reply: Reply, error: str, kind: str) -> None:
    def ask_sync(url: str) -> None:
        with Transport(largest_reply=1 << 23) as transport:
            transport.hold(call("GET", url, StudyReply))

    async def ask(url: str) -> None:
        async with AsyncTransport(largest_reply=1 << 23) as transport:
            await transport.hold(call("GET", url, StudyReply))

    def refused() -> None:
        with pytest.raises(Refused, match=error):
            ask_sync(url) if kind == "sync" else asyncio.run(ask(url))

    with _dishonest_server(reply) as (url, asked):
        assert _peak(refused) < 32 << 20
    assert asked == ["identity"]


@pytest.mark.parametrize("reply", [_trickling_body, _trickling_head, _trickling_error])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_party_that_trickles_its_reply_is_unreachable(reply: Reply, kind: str) -> None:
    """Every read succeeds within its own time limit, so only the deadline of the whole try ends it."""
    settings: dict[str, Any] = {"patience": Backoff(tries=2, first_seconds=0.001), "deadline": 0.2}

    async def ask(url: str) -> None:
        async with AsyncTransport(**settings) as transport:
            await transport.hold(call("GET", url, StudyReply))

    def ask_sync(url: str) -> None:
        with Transport(**settings) as transport:
            transport.hold(call("GET", url, StudyReply))

    with _dishonest_server(reply) as (url, asked):
        began = time.monotonic()
        with pytest.raises(Unreachable, match=r"no complete reply within 0\.2 s"):
            ask_sync(url) if kind == "sync" else asyncio.run(ask(url))
        assert time.monotonic() - began < 5  # the server trickles for at least 10 s
    assert len(asked) == 2  # tried again, as after a time-out


def test_a_trickling_shuffler_lets_go_of_its_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "TIMEOUT", 0.1)
    monkeypatch.setattr(_transport, "_SLOWEST", 1 << 32)
    with _dishonest_server(_trickling_body) as (url, asked):
        with pytest.raises(Unreachable, match="no complete reply"):
            HttpLink(url, "token").look(1, 1)
        assert len(asked) == 3


def test_the_deadline_leaves_time_for_the_largest_reply() -> None:
    assert deadline_for(_transport.LARGEST_REPLY) == 30 + 128
    assert deadline_for(1 << 28) == 30 + 512


def test_time_in_the_queue_for_a_connection_is_not_part_of_the_deadline() -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(0.1)
        _refusing(handler)

    async def ask(url: str) -> list[BaseException | StudyReply]:
        patience = Backoff(tries=1)
        async with AsyncTransport(patience=patience, connections=1, deadline=0.5) as transport:
            asked = (transport.hold(call("GET", url, StudyReply)) for _ in range(8))
            return await asyncio.gather(*asked, return_exceptions=True)

    with _dishonest_server(slow) as (url, _):
        assert [type(one) for one in asyncio.run(ask(url))] == [Refused] * 8


def test_the_error_says_that_a_connection_was_refused() -> None:
    with socket.socket() as probe:  # bound, but nobody listens
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        refused = pytest.raises(Unreachable, match=f"{url}: Connection refused")
        with Transport(patience=Backoff(tries=1)) as transport, refused:
            transport.hold(call("GET", url, StudyReply))


def test_nobody_waits_after_the_last_try() -> None:
    assert list(Backoff(tries=1).waits()) == [0]
    first, *others = Backoff(tries=9).waits()
    assert first == 0
    assert len(others) == 8
    assert all(0.05 * 2**number <= wait <= 0.1 * 2**number for number, wait in enumerate(others[:6]))
    assert max(others) <= 5


def test_a_busy_party_that_sends_a_large_error_is_retried() -> None:
    def unreachable() -> None:
        with pytest.raises(Unreachable, match="status 503"), Transport(patience=patience) as transport:
            transport.hold(call("GET", url, StudyReply))

    patience = Backoff(tries=2, first_seconds=0.001)
    with _dishonest_server(_busy) as (url, asked):
        assert _peak(unreachable) < 32 << 20
    assert len(asked) == 2


def test_the_text_of_a_refusal_is_short_and_printable() -> None:
    caught = pytest.raises(Refused)
    with _dishonest_server(_refusing) as (url, _), Transport() as transport, caught as refused:
        transport.hold(call("GET", url, StudyReply))
    assert refused.value.reason == "closed"
    assert refused.value.message.startswith("gone [2Jxx")
    assert len(refused.value.message) == 1000


def test_a_shuffler_cannot_fill_the_memory_of_its_coordinator() -> None:
    def refused() -> None:
        with pytest.raises(Refused, match="compressed"):
            HttpLink(url, "token").look(1, 1)

    with _dishonest_server(_compressed) as (url, _):
        assert _peak(refused) < 32 << 20
