"""Connections: how long each step of a request may take, and which connection makes room for another.

uvicorn limits only the time between two requests. So `Connection`, a subclass of its protocol, adds the rest:

- a time for the head of a request, for its body, for the rest of a refused body and for reading the reply. A
  body may take longer the more of it has arrived;
- a limit on open connections. If it is reached, the connection that has waited longest without a successful
  request makes room. So sockets that only wait cannot lock anybody out.

What happens before a connection exists, including the TLS handshake, is in _accepting.py.

One timer per second checks all connections. A request itself sets no timer.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dpbandits._checks import positive
from dpbandits.service.shared._metrics import Metrics
from dpbandits.service.shared._process_limits import give_memory_back
from dpbandits.service.shared._rates import Rates

PROVEN = "dpbandits.proven"
"""The key that marks an accepted request. It is set in the scope of that request, and in the `state` of the
next request on the same connection."""

BODY_RATE = 16_384  # bytes of a body that extend its time by one second
HEAD_BYTES = 8_192  # the largest head of a request
_INVALID = "Invalid HTTP request received."
_BLANK = b"\r\n\r\n"  # the end of a head
_FRAMING = (b"content-length", b"transfer-encoding")
_WAITING = 8  # requests of one connection that may wait for the reply to an earlier one
_TLS_BUFFER = 32_768  # bytes that asyncio reserves per TLS connection: twice a TLS record, not 256 KiB
_ENDED = 500  # ended connections after which memory is given back to the system
_GIVE_BACK = 10.0  # the fewest seconds between two such steps: all requests wait while memory is given back


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """The longest time of each step of a connection, in seconds.

    Attributes:
        handshake: For the TLS handshake.
        head: For the head of a request, and until the first request of a connection.
        body: For the body of a request, plus one second per 16 KiB that have arrived.
        rest: For the rest of a body that was refused.
        reply: For the caller to read a reply.
        idle: Between two requests.
    """

    handshake: float = 10.0
    head: float = 10.0
    body: float = 20.0
    rest: float = 5.0
    reply: float = 30.0
    idle: float = 60.0

    def __post_init__(self) -> None:
        positive(handshake=self.handshake)
        positive(head=self.head)
        positive(body=self.body)
        positive(rest=self.rest)
        positive(reply=self.reply)
        positive(idle=self.idle)


class Door:
    """All connections of a server.

    Args:
        steps: The longest time of each step.
        tls: The TLS context; None without TLS.
        rates: The rate limits; None for a server without any.
        metrics: Counts ended and refused connections, if given.
        most: The largest number of open connections.
    """

    def __init__(
        self,
        *,
        steps: StepTimes,
        tls: ssl.SSLContext | None,
        rates: Rates | None,
        metrics: Metrics | None,
        most: int,
    ) -> None:
        self.steps = steps
        self.tls = tls
        self.rates = rates
        self._metrics = metrics
        self._most = most
        self._open: set[Connection] = set()
        self._unproven: dict[Connection, None] = {}  # the oldest first
        self._ended = 0
        self._given_back = float("-inf")
        self._watching = False
        if tls is not None:
            sslproto.SSLProtocol.max_size = _TLS_BUFFER

    def __call__(self, **given: Any) -> Connection:
        """Return a protocol for a new connection; uvicorn passes the arguments."""
        return Connection(self, **given)

    def welcome(self, address: str) -> bool:
        """Return whether an address may open a connection; count it if not."""
        if self.rates is None or self.rates.welcome(address):
            return True
        return self.refused("too-fast")

    def admit(self, connection: Connection) -> bool:
        """Return whether a new connection may stay; another one may have to make room for it."""
        if len(self._open) >= self._most:
            oldest = next(iter(self._unproven), None)
            if oldest is None:
                return self.refused("full")
            self.refused("made-room")
            oldest.end()
            self.forget(oldest)
        self._open.add(connection)
        self._unproven[connection] = None
        self._watch()
        return True

    def refused(self, reason: str) -> bool:
        """Count a refused connection, or one that was ended to make room; return False."""
        if self._metrics is not None:
            self._metrics.refused_connections.labels(reason).inc()
        return False

    def timed_out(self, step: str) -> None:
        """Count a connection that ends because a step took too long."""
        if self._metrics is not None:
            self._metrics.timeouts.labels(step).inc()

    def proven(self, connection: Connection) -> None:
        """Note that a request of this connection was accepted: it need not make room any more."""
        if connection in self._unproven:
            del self._unproven[connection]
            if self.tls is not None and self.rates is not None:
                self.rates.no_stranger()

    def invalid(self) -> None:
        """Count bytes that are not an HTTP request, or not a TLS handshake."""
        if self._metrics is not None:
            self._metrics.invalid_requests.inc()

    def bad(self, address: str) -> None:
        """Count a bad request of an address. A connection that ended without a request counts as one."""
        if self.rates is not None:
            self.rates.bad(address)
            self._watch()  # so that the address is forgotten in time

    def forget(self, connection: Connection) -> None:
        """Note that a connection has ended. If no request was answered on it, it counts as a bad request."""
        if connection in self._open:
            self._open.discard(connection)
            self._unproven.pop(connection, None)
            self._ended += 1
            if not connection.used:
                self.bad(connection.address)

    def _watch(self) -> None:
        """Check the connections every second, as long as there are any or an address is remembered."""
        if not self._watching:
            self._watching = True
            asyncio.get_running_loop().call_later(min(1.0, self.steps.head / 4), self._sweep)

    def _sweep(self) -> None:
        """End the connections whose step takes too long; give back the memory of those that have ended."""
        now = asyncio.get_running_loop().time()
        for connection in tuple(self._open):
            overdue = connection.overdue(now)
            if overdue:
                self.timed_out(overdue)
                if self.rates is not None and connection.used:
                    self.rates.bad(connection.address)
                connection.end()
        if self._metrics is not None:
            self._metrics.connections.set(len(self._open))
        if self._ended >= _ENDED and now - self._given_back >= _GIVE_BACK:
            self._ended, self._given_back = 0, now
            give_memory_back()
        self._watching = False
        if (self.rates is not None and self.rates.tidy()) or self._open:
            self._watch()


class _UnacceptableError(Exception):
    """A request that HTTP allows, but a party does not."""


class Connection(HttpToolsProtocol):
    """One connection of a caller. `door` has its limits; uvicorn passes the other arguments.

    The parser, httptools, bounds neither the head of a request nor its trailers nor the number of requests
    that wait for the reply to an earlier one. So these limits are here.
    """

    def __init__(self, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self._door = door
        self.begun = False  # whether requests can arrive: the handshake is over
        self._received = 0
        self._answered = 0
        self._part = "idle"  # the part of a request that arrives: its head, its body, or none
        self._head = 0  # bytes of an unfinished head
        self._fields = 0  # bytes of the path, the header fields and the trailers of one request
        self._ended = False  # whether a request ended in the current chunk of bytes
        self._unanswered = deque[Any]()  # the scopes of the requests whose reply is due, the oldest first
        self._step: tuple[str, int] = ("", 0)
        self._since = 0.0
        self._before = 0
        self.address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit or end a new connection, whose handshake is over."""
        self.begun = True
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if isinstance(peer, tuple) else ""
        super().connection_made(cast("asyncio.Transport", _OneWrite(transport, self.loop)))
        if not self._door.admit(self):
            transport.abort()

    @property
    def used(self) -> bool:
        """Whether a request was answered."""
        return self._answered > 0

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the caller."""
        self._received += len(data)
        self._ended = False
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # another protocol is not offered: reply, and end the connection
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self.send_400_response(_INVALID)
        else:
            if self._part == "head":
                self._check_unfinished(data)

    def _check_unfinished(self, data: bytes) -> None:
        """Limit the head that has not ended: the parser keeps a field without an end, and reports nothing."""
        self._head = len(data) - max(0, data.rfind(_BLANK) + 4) if self._ended else self._head + len(data)
        if self._head > HEAD_BYTES:
            self.send_400_response(_INVALID)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection at once, so that its memory can be freed."""
        self._door.forget(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._part, self._fields = "head", 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Receive a part of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header field. Trailers, which follow a body, only count: no handler looks at them."""
        self._count(len(name) + len(value))
        if self._part == "head":
            super().on_header(name, value)

    def _count(self, size: int) -> None:
        self._fields += size
        if self._fields > HEAD_BYTES:
            raise _UnacceptableError("the head is too large")

    def on_headers_complete(self) -> None:
        """Begin the request, or let it wait for the reply to an earlier one."""
        self._part, self._head = "body", 0
        if len(self.pipeline) >= _WAITING:
            raise _UnacceptableError("too many requests wait")
        if self.parser.should_upgrade() and any(name in _FRAMING for name, _ in self.headers):
            raise _UnacceptableError("the parser would skip the body of a request for another protocol")
        super().on_headers_complete()
        self._unanswered.append(self.scope)

    def on_message_complete(self) -> None:
        """End the request."""
        self._part, self._ended = "idle", True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not an HTTP request, unless the reply to an earlier request is still due."""
        self._door.invalid()
        self._door.bad(self.address)
        due = len(self._unanswered)
        broken_body = due == 1 and self._part == "body" and not self.cycle.response_started
        if not due or broken_body:
            super().send_400_response(msg)
        else:
            self.end()

    def on_response_complete(self) -> None:
        """Count the request, and remember whether it was accepted; a refused one ends what is remembered."""
        self._answered += 1
        proven = PROVEN in self._unanswered.popleft()
        if proven != (PROVEN in self.app_state):
            self.app_state = {PROVEN: True} if proven else {}
        if proven:
            self._door.proven(self)
        super().on_response_complete()

    def end(self) -> None:
        """End the connection without waiting for the caller."""
        self.transport.abort()

    def overdue(self, now: float) -> str:
        """Return the name of the current step if it takes too long, else an empty string."""
        step = (self._name(), self._answered)
        if step != self._step:
            self._step, self._since, self._before = step, now, self._received
            return ""
        allowed = getattr(self._door.steps, step[0], None)
        if allowed is None:
            return ""
        if step[0] == "body":
            allowed += (self._received - self._before) / BODY_RATE
        return step[0] if now - self._since > allowed else ""

    def _name(self) -> str:
        """Return the name of the current step: a field of `StepTimes`, or `work` during a request."""
        if self.flow.write_paused:
            return "reply"
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None:
            return "head"
        if not cycle.response_complete:
            return "body" if cycle.more_body else "work"
        return "rest" if self._part == "body" else self._part


class _OneWrite:
    """A transport that writes the head and the body of a reply together.

    uvicorn writes them separately, which takes two TLS records and two system calls.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts = list[bytes]()
        self.is_closing = transport.is_closing
        self.abort = transport.abort
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.get_extra_info = transport.get_extra_info

    def write(self, data: bytes) -> None:
        """Write later in this pass of the event loop, with what follows."""
        if data:
            if not self._parts:
                self._loop.call_soon(self._flush)
            self._parts.append(data)

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Close the connection after everything has been written."""
        self._flush()
        self._transport.close()
