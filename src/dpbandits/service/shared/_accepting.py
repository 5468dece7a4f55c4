"""`Acceptor` accepts the connections of a server, at a cost that a flood of connections cannot raise.

asyncio creates a task, a transport, a protocol and TLS buffers for each connection that it accepts. The
handshake takes longer than several requests. So a party accepts connections itself, and does as little as
possible for a caller that may be hostile:

1. An address that sent too many bad requests (_rates.py) is refused at once, which takes about 20 µs.
2. The socket waits until the whole first message of a handshake, the ClientHello, has arrived. Until then
   nothing but the socket exists. If too many sockets wait, the oldest one is closed.
3. The handshake begins when it is the turn of the caller's address (_turns.py), one per pass of the event
   loop. `Rates.stranger` limits how many handshakes may begin: each takes a token. A connection gives its
   token back with its first accepted request, so only callers that never send one use up tokens. If too many
   sockets wait for their turn, one of the address with the most waiting sockets is closed.

At most 32 connections are accepted in 5 ms; the others wait in the system's queue. Requests on open
connections come first. Without TLS there is no handshake to wait for, and only the first rule applies.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpbandits.service.shared._connections import Connection, Door
from dpbandits.service.shared._turns import Turns

_AT_ONCE = 32  # connections that are accepted in one pass of the event loop
_BREAK = 0.005  # seconds until more are accepted, after that number in one pass
_FULL_BREAK = 1.0  # seconds until more are accepted, after an error, for example no more open files
_LEAST = 16  # bytes to wait for at first: less than the length of any ClientHello or HTTP request
_LOOKS = 3  # reads of a ClientHello; the kernel reports it when all of it has arrived, so two suffice
_GOODBYE = 5.0  # seconds that a caller has to confirm the end of a TLS connection
_RECORD_HEAD = 5  # bytes of a TLS record before its content
_HANDSHAKE = 22  # the type of the record
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_ESTABLISHED = 1
_LARGEST_LOOK = 4096  # bytes of a ClientHello to wait for, at most

log = logging.getLogger("dpbandits.service")


@dataclass(eq=False, slots=True, kw_only=True)
class _Caller:
    """An accepted socket before its handshake."""

    socket: socket.socket
    address: str
    since: float
    looks: int = 0
    round: int = 0
    connecting: bool = False


class Acceptor:
    """Accepts the connections of a server.

    Args:
        door: The open connections, with their limits.
        most: The largest number of sockets that wait for their handshake, or are in it.
    """

    def __init__(self, door: Door, most: int) -> None:
        self._door = door
        self._most = most
        self._listeners: Sequence[socket.socket] = ()
        self._unfinished: dict[_Caller, None] = {}  # without a whole ClientHello, the oldest first
        self._turns = Turns[_Caller]()
        self._held: dict[_Caller, None] = {}  # all that wait, the oldest first
        self._connecting: dict[asyncio.Task[None], _Caller] = {}
        self._planned = False  # whether `_next_handshake` will be called
        self._watching = False

    def begin(self, listeners: Sequence[socket.socket], connection: Callable[[], Connection]) -> None:
        """Accept connections in the running event loop.

        Args:
            listeners: The listening sockets; `close` closes them.
            connection: Returns the protocol of a new connection.
        """
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._listeners = listeners
        for listener in listeners:
            listener.setblocking(False)
            self._listen(listener)

    def close(self) -> None:
        """Stop accepting; end the connections that have not finished their handshake."""
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            self._loop.remove_reader(listener)
            listener.close()
        for caller in tuple(self._held):
            self._discard(caller)
        for task in tuple(self._connecting):
            task.cancel()

    def _listen(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _rest(self, listener: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listener)
        self._loop.call_later(seconds, self._listen, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept what waits, but not too much at once."""
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                kind = f"OSError {errno.errorcode.get(error.errno or 0, error.errno)}"
                log.error("not-accepted", extra={"kind": kind})
                self._rest(listener, _FULL_BREAK)
                return
            self._arrived(accepted, peer[0])
        self._rest(listener, _BREAK)

    def _arrived(self, accepted: socket.socket, address: str) -> None:
        if not self._door.welcome(address):
            accepted.close()
            return
        accepted.setblocking(False)
        caller = _Caller(socket=accepted, address=address, since=self._loop.time())
        if self._door.tls is None:
            self._connect(caller)
        elif self._make_room():
            self._held[caller] = self._unfinished[caller] = None
            _wait_for(accepted, _LEAST)
            self._loop.add_reader(accepted.fileno(), self._look, caller)
            self._watch()
        else:
            accepted.close()

    def _make_room(self) -> bool:
        """Return whether another socket may wait. If too many wait, close one of them."""
        if len(self._held) + len(self._connecting) < self._most:
            return True
        if self._unfinished:
            self._drop(next(iter(self._unfinished)))
        elif self._turns:
            self._drop(self._turns.last())
        else:
            return self._door.refused("full")
        self._door.refused("made-room")
        return True

    def _look(self, caller: _Caller) -> None:
        """Check whether the ClientHello has arrived, without taking it from the socket."""
        seen = _seen(caller.socket)
        if seen is None:
            return
        caller.looks += 1
        length = _length(seen)
        if length is None or caller.looks > _LOOKS:
            if seen:
                self._door.invalid()
            self._drop(caller)
        elif len(seen) < length:
            _wait_for(caller.socket, length)
        else:
            self._loop.remove_reader(caller.socket.fileno())
            del self._unfinished[caller]
            self._turns.add(caller)
            self._plan_handshake()

    def _plan_handshake(self, seconds: float = 0.0) -> None:
        if not self._planned and self._turns:
            self._planned = True
            if seconds:
                self._loop.call_later(min(seconds, 1.0), self._next_handshake)
            else:
                self._loop.call_soon(self._next_handshake)

    def _next_handshake(self) -> None:
        self._planned = False
        if self._turns:
            caller = self._turns.first()
            if not _seen(caller.socket):  # the caller has ended the connection meanwhile
                self._drop(caller)
                self._plan_handshake()
                return
            wait = 0.0 if self._door.rates is None else self._door.rates.stranger()
            if not wait:
                self._release(caller)
                self._connect(caller)
            self._plan_handshake(wait)

    def _connect(self, caller: _Caller) -> None:
        task = self._loop.create_task(self._begin_connection(caller))
        self._connecting[task] = caller
        task.add_done_callback(self._connected)

    async def _begin_connection(self, caller: _Caller) -> None:
        caller.connecting = True  # from here on, asyncio closes the socket
        _wait_for(caller.socket, 1)
        connection, tls = self._connection(), self._door.tls
        longest = self._door.steps.handshake
        times = {} if tls is None else {"ssl_handshake_timeout": longest, "ssl_shutdown_timeout": _GOODBYE}
        try:
            await self._loop.connect_accepted_socket(lambda: connection, caller.socket, ssl=tls, **times)
        except OSError as error:  # also ssl.SSLError, and ConnectionAbortedError after too long a handshake
            if isinstance(error, ssl.SSLError):
                self._door.invalid()
            elif isinstance(error, ConnectionAbortedError):
                self._door.timed_out("handshake")
        if not connection.begun:
            self._door.bad(caller.address)

    def _connected(self, task: asyncio.Task[None]) -> None:
        caller = self._connecting.pop(task)
        if not caller.connecting:  # cancelled before it began
            caller.socket.close()

    def _watch(self) -> None:
        if not self._watching and self._held:
            self._watching = True
            self._loop.call_later(min(1.0, self._door.steps.handshake / 4), self._end_overdue)

    def _end_overdue(self) -> None:
        self._watching = False
        before = self._loop.time() - self._door.steps.handshake
        while self._held and (oldest := next(iter(self._held))).since < before:
            self._door.timed_out("handshake")
            self._drop(oldest)
        self._watch()

    def _drop(self, caller: _Caller) -> None:
        """End a connection that waits. Without a ClientHello it counts as a bad request of its address."""
        if caller in self._unfinished:
            self._door.bad(caller.address)
        self._discard(caller)

    def _discard(self, caller: _Caller) -> None:
        if caller in self._unfinished:
            self._loop.remove_reader(caller.socket.fileno())
        self._release(caller)
        caller.socket.close()

    def _release(self, caller: _Caller) -> None:
        del self._held[caller]
        if caller in self._unfinished:
            del self._unfinished[caller]
        else:
            self._turns.remove(caller)


def _seen(accepted: socket.socket) -> bytes | None:
    """Return the first bytes in a socket: b"" if the caller has ended it, None if nothing has arrived yet."""
    try:
        if _ended(accepted):
            return b""
        return accepted.recv(_LARGEST_LOOK, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def _ended(accepted: socket.socket) -> bool:
    """Return whether the caller has closed or reset the connection; bytes that it sent before may still wait.

    The first byte of TCP_INFO is the state of the connection. Systems without it find out when they read.
    """
    if _TCP_INFO is None:
        return False
    state: int = accepted.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    return state != _ESTABLISHED


def _wait_for(accepted: socket.socket, size: int) -> None:
    """Let the kernel report the socket when this many bytes have arrived, or when the caller has ended it.

    Otherwise each byte of an unfinished message would wake the event loop.
    """
    with contextlib.suppress(OSError):  # the connection has ended; the next look notices
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)


def _length(seen: bytes) -> int | None:
    """Return the length of a ClientHello from its first bytes; None if they do not begin a handshake.

    Of a ClientHello in several records only the first record counts, and of a very large one the first 4 KiB.
    """
    if not seen or seen[0] != _HANDSHAKE:
        return None
    if len(seen) < _RECORD_HEAD:
        return _LEAST
    return min(_RECORD_HEAD + int.from_bytes(seen[3:_RECORD_HEAD], "big"), _LARGEST_LOOK)
