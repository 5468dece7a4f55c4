"""Connections: how long each step of a request may take, and which connection makes room for another.

uvicorn limits only the time between two requests. So `Connection`, a subclass of its protocol, adds the rest:

- a time for the TLS handshake, for the head of a request, for its body, for the rest of a refused body and
  for reading the reply. A body may take longer the more of it has arrived;
- a limit on open connections. If it is reached, the connection that has waited longest without a successful
  request makes room. So sockets that only wait cannot lock anybody out;
- no new connections for addresses that sent too many bad requests (_rates.py), before the TLS handshake;
- one TLS handshake per pass of the event loop, of each address in turn. A handshake takes as much time as
  several requests, so a flood of them would delay everybody.

One timer per second checks all connections. A request itself sets no timer.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import ssl
from asyncio import sslproto
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from dpbandits._checks import positive
from dpbandits.service.shared._metrics import Metrics
from dpbandits.service.shared._rates import Rates

PROVEN = "dpbandits.proven"
"""A key of a request's scope if the request was accepted, and of its state if an earlier one was."""

BODY_RATE = 16_384  # bytes of a body that extend its time by one second
HEAD_BYTES = 8_192  # the largest head of a request
_TLS_BUFFER = 32_768  # bytes that asyncio reserves per TLS connection: twice a TLS record, not 256 KiB
_RESERVE = 64  # open files for stores, helper processes and calls to the shuffler
_ENDED = 500  # ended connections after which memory is given back to the system


@dataclass(frozen=True, kw_only=True)
class Steps:
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
        steps: Steps,
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
        self._shaking: dict[str, deque[Connection]] = {}  # those that wait for a handshake, by address
        self._ended = 0
        self._watching = False
        if tls is not None:
            sslproto.SSLProtocol.max_size = _TLS_BUFFER

    def __call__(self, **given: Any) -> Connection:
        """Return a protocol for a new connection; uvicorn passes the arguments."""
        return Connection(self, **given)

    def admit(self, connection: Connection) -> bool:
        """Return whether a new connection may stay; another one may have to make room for it."""
        if self.rates is not None and not self.rates.welcome(connection.address):
            return self._refused("too-fast")
        if len(self._open) >= self._most:
            oldest = next(iter(self._unproven), None)
            if oldest is None:
                return self._refused("full")
            self._refused("made-room")
            oldest.end()
            self.forget(oldest)
        self._open.add(connection)
        self._unproven[connection] = None
        if not self._watching:
            self._watch(connection.loop)
        return True

    def shake_hands(self, connection: Connection) -> None:
        """Begin the handshake of a connection when it is the turn of its address."""
        if not self._shaking:
            connection.loop.call_soon(self._next_handshake, connection.loop)
        self._shaking.setdefault(connection.address, deque()).append(connection)

    def _next_handshake(self, loop: asyncio.AbstractEventLoop) -> None:
        address = next(iter(self._shaking))
        waiting = self._shaking.pop(address)
        waiting.popleft().shake_hands()
        if waiting:
            self._shaking[address] = waiting  # now the last one
        if self._shaking:
            loop.call_soon(self._next_handshake, loop)

    def _refused(self, reason: str) -> bool:
        if self._metrics is not None:
            self._metrics.refused_connections.labels(reason).inc()
        return False

    def proven(self, connection: Connection) -> None:
        """Note that a request of this connection was accepted: it need not make room any more."""
        self._unproven.pop(connection, None)

    def invalid(self, address: str) -> None:
        """Count bytes that are no HTTP request, or no TLS handshake."""
        if self._metrics is not None:
            self._metrics.invalid_requests.inc()
        if self.rates is not None:
            self.rates.bad(address)

    def forget(self, connection: Connection) -> None:
        """Note that a connection has ended. Without a request it counts as a bad one."""
        if connection in self._open:
            self._open.discard(connection)
            self._unproven.pop(connection, None)
            self._ended += 1
            if self.rates is not None and not connection.used:
                self.rates.bad(connection.address)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        remembered = self.rates is not None and self.rates.tidy()
        self._watching = bool(self._open) or remembered
        if self._watching:
            loop.call_later(min(1.0, self.steps.head / 4), self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the connections whose step takes too long; give back the memory of those that have ended."""
        for connection in tuple(self._open):
            overdue = connection.overdue(loop.time())
            if overdue:
                if self._metrics is not None:
                    self._metrics.timeouts.labels(overdue).inc()
                if self.rates is not None and connection.used:
                    self.rates.bad(connection.address)
                connection.end()
        if self._metrics is not None:
            self._metrics.connections.set(len(self._open))
        if self._ended >= _ENDED:
            self._ended = 0
            give_memory_back()
        self._watch(loop)


class Connection(H11Protocol):
    """One connection of a caller. `door` has its limits; uvicorn passes the other arguments."""

    def __init__(self, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self._door = door
        self._begun = False  # whether requests can arrive: the handshake is over
        self._early = list[bytes]()
        self._raw: asyncio.Transport | None = None
        self._securing: asyncio.Task[None] | None = None
        self._received = 0
        self._answered = 0
        self._step: tuple[str, int] = ("", 0)
        self._since = 0.0
        self._before = 0
        self.address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit or end a new connection; with TLS the handshake follows."""
        self._raw = transport
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if isinstance(peer, tuple) else ""
        if not self._door.admit(self):
            transport.abort()
            return
        self.connections.add(self)  # uvicorn ends them when it shuts down
        if self._door.tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()  # `start_tls` resumes it
            self._door.shake_hands(self)

    def shake_hands(self) -> None:
        """Begin the handshake, unless the connection has ended while it waited for its turn."""
        raw, tls = self._raw, self._door.tls
        if raw is not None and tls is not None and not raw.is_closing():
            self._securing = self.loop.create_task(self._secure(raw, tls))

    def _begin(self, transport: asyncio.Transport) -> None:
        self._begun = True
        super().connection_made(cast("asyncio.Transport", _OneWrite(transport, self.loop)))

    @property
    def used(self) -> bool:
        """Whether a request was answered."""
        return self._answered > 0

    async def _secure(self, raw: asyncio.Transport, tls: ssl.SSLContext) -> None:
        times = {"ssl_handshake_timeout": self._door.steps.handshake, "ssl_shutdown_timeout": 5.0}
        try:
            secured = await self.loop.start_tls(raw, self, tls, server_side=True, **times)  # type: ignore[arg-type]
        except (OSError, asyncio.CancelledError) as error:  # also TimeoutError and ssl.SSLError
            secured = None
            if isinstance(error, ssl.SSLError):
                self._door.invalid(self.address)
        finally:
            self._securing = None
        if secured is None or raw.is_closing():
            raw.abort()
            self._forget()  # asyncio does not report the end of a connection during its handshake
            return
        self._begin(secured)
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the caller. Those that came with the end of the handshake wait for its result."""
        if not self._begun:
            self._early.append(data)
            return
        self._received += len(data)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection at once, so that its memory can be freed."""
        self._forget()
        if self._begun:
            super().connection_lost(exc)
            self._unset_keepalive_if_required()

    def _forget(self) -> None:
        self._door.forget(self)
        self.connections.discard(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP request, unless a reply has already begun."""
        self._door.invalid(self.address)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.end()

    def on_response_complete(self) -> None:
        """Count the request, and remember whether it was accepted; a refused one ends what is remembered."""
        self._answered += 1
        proven = PROVEN in self.scope
        if proven != (PROVEN in self.app_state):
            self.app_state = {PROVEN: True} if proven else {}
        if proven:
            self._door.proven(self)
        super().on_response_complete()

    def shutdown(self) -> None:
        """End gracefully, or at once during the handshake."""
        if not self._begun:
            self.end()
        else:
            super().shutdown()

    def end(self) -> None:
        """End the connection without waiting for the caller."""
        if self._securing is not None:
            self._securing.cancel()
        transport = self.transport if self._begun else self._raw
        if transport is not None:
            transport.abort()

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
        """Return the name of the current step: a field of `Steps`, or `work` while a request is handled."""
        if not self._begun:
            return "handshake"
        if self.flow.write_paused:
            return "reply"
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None:
            return "head"
        if not cycle.response_complete:
            return "body" if cycle.more_body else "work"
        if self.conn.their_state is h11.SEND_BODY:
            return "rest"
        return "head" if self.conn.trailing_data[0] else "idle"


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


def most_connections(backlog: int, *, limit: int | None = None) -> int:
    """Return how many connections may be open, so that open files suffice.

    Args:
        backlog: How many connections the event loop may accept before it calls `Door.admit`.
        limit: The number of open files; by default the limit of this process.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    return max(limit - backlog - _RESERVE, limit // 2, 1)


def _trimmer() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim`, or None on other systems."""
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):
        return None


def give_memory_back() -> None:
    """Free what ended connections used, and give it back to the system."""
    gc.collect()
    trim = _trimmer()
    if trim is not None:
        trim(0)
