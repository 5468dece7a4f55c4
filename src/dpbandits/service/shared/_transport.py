"""Transports, which carry out dialogues with httpx, over TLS, and retry with exponential backoff.

A reply may come from a hostile party. So a transport reads a reply only up to a limit, and refuses compressed
replies: a few bytes can expand to many gigabytes. Every try has a deadline as a whole: a party that sends a
byte now and then would satisfy any time limit of single reads, and hold its caller forever.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Coroutine, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dpbandits._checks import positive
from dpbandits.errors import Refused, Unreachable
from dpbandits.service.shared._dialogue import RETRIED, Backoff, Dialogue, Incoming, Outgoing
from dpbandits.service.shared._httpx import httpx

Value = TypeVar("Value")

TIMEOUT = 30.0  # seconds for one step of a try: to connect, or to wait for the next bytes
_SLOWEST = 1 << 19  # bytes per second at which an honest party sends even the largest reply
LARGEST_REPLY = 1 << 26  # bytes; the largest honest reply to a client is a plan
_ERROR_REPLY = 1 << 16  # bytes of the largest busy reply that is read, so that its connection stays usable


def trusting(certificates: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the system's authorities, or only the certificates of a file."""
    if certificates is None:
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=str(certificates))


def deadline_for(largest_reply: int) -> float:
    """Return the seconds that a whole try may take: one step, and the largest reply at the slowest rate."""
    return TIMEOUT + largest_reply / _SLOWEST


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL, for example `https://study.example:8443`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _request(outgoing: Outgoing) -> dict[str, Any]:
    """Return the arguments of httpx for a request whose reply must not be compressed."""
    headers = {"Accept-Encoding": "identity", **outgoing.headers}
    return {"method": outgoing.method, "url": outgoing.url, "headers": headers, "content": outgoing.content}


def _told(error: BaseException) -> str:
    """Return what went wrong. A failed connection says only in its cause that it was, say, refused."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):  # one error per address of the host
            cause = cause.exceptions[0]
        if isinstance(cause, ConnectionError) and cause.errno is not None:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


class _Content:
    """The body of a reply while it is read, at most `largest` bytes.

    `wanted` is whether to read the body. The body of a busy reply is only read if it is small.

    Raises:
        Refused: `unreadable` if the reply is compressed, or larger than `largest`.
    """

    def __init__(self, reply: httpx.Response, largest: int) -> None:
        self._status = reply.status_code
        self._largest = largest
        self._parts = list[bytes]()
        self._size = 0
        announced = reply.headers.get("Content-Length", "")
        plain = reply.headers.get("Content-Encoding", "identity").strip().lower() == "identity"
        if reply.status_code in RETRIED:
            self.wanted = plain and announced.isdigit() and int(announced) <= _ERROR_REPLY
            return
        self.wanted = True
        if not plain:
            raise Refused("unreadable", "the reply is compressed; expected Content-Encoding: identity")
        if announced.isdigit():
            self._check(int(announced))

    def add(self, part: bytes) -> None:
        """Add the next part of the body."""
        self._size += len(part)
        self._check(self._size)
        self._parts.append(part)

    def _check(self, size: int) -> None:
        if size > self._largest:
            raise Refused("unreadable", f"the reply is larger than {self._largest:,} bytes")

    def incoming(self) -> Incoming:
        """Return the whole reply."""
        return Incoming(status=self._status, content=b"".join(self._parts))


class AsyncTransport:
    """The transport for an event loop; many clients may share one.

    Args:
        certificates: As in `Transport`.
        per_party: As in `Transport`.
        patience: How often to retry.
        connections: The largest number of open connections.
        largest_reply: The largest accepted reply in bytes.
        deadline: The seconds that a whole try may take once it has a connection of its own, from connecting
            to the last byte of the reply; by default in proportion to `largest_reply`, 158 s for clients.

    Example:
        >>> import asyncio
        >>> from dpbandits.service.client import ClientCore
        >>> from dpbandits.service.shared import AsyncTransport, Backoff
        >>> async def main():
        ...     async with AsyncTransport(patience=Backoff(tries=1)) as transport:
        ...         try:
        ...             await transport.hold(ClientCore(url="http://127.0.0.1:9").agree())
        ...         except Exception as error:
        ...             return type(error).__name__
        >>> asyncio.run(main())
        'Unreachable'
    """

    def __init__(
        self,
        *,
        certificates: Path | None = None,
        per_party: Mapping[str, Path] | None = None,
        patience: Backoff | None = None,
        connections: int = 32,
        largest_reply: int = LARGEST_REPLY,
        deadline: float | None = None,
    ) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        timeout = httpx.Timeout(TIMEOUT, pool=None)
        mounts = {
            origin(url): httpx.AsyncHTTPTransport(verify=trusting(path), limits=limits)
            for url, path in (per_party or {}).items()
        }
        self._http = httpx.AsyncClient(
            verify=trusting(certificates), timeout=timeout, limits=limits, mounts=mounts
        )
        self._patience = patience or Backoff()
        self._largest = largest_reply
        self._deadline = deadline_for(largest_reply) if deadline is None else positive(deadline=deadline)
        self._free = asyncio.Semaphore(connections)  # the time in this queue is not part of the deadline

    async def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Carry out a dialogue.

        Args:
            dialogue: The dialogue, for example `ClientCore.enrol(code)`.

        Returns:
            The result of the dialogue.

        Raises:
            Unreachable: A party did not respond in time, or was busy, at every try.
            Refused: A party refused a request, or its reply is too large or compressed.
        """
        try:
            outgoing = next(dialogue)
            while True:
                outgoing = dialogue.send(await self.exchange(outgoing))
        except StopIteration as end:
            value: Value = end.value
            return value

    async def exchange(self, outgoing: Outgoing) -> Incoming:
        """Send one request of a dialogue, and retry it if it fails.

        Args:
            outgoing: The request.

        Returns:
            The reply.

        Raises:
            Unreachable: A party did not respond in time, or was busy, at every try.
            Refused: The reply is too large or compressed.
        """
        trouble = ""
        for wait in self._patience.waits():
            await asyncio.sleep(wait)
            try:
                async with self._free, asyncio.timeout(self._deadline):
                    reply = await self._tried(outgoing)
                if reply.status not in RETRIED:
                    return reply
                trouble = f"status {reply.status}"
            except TimeoutError:
                trouble = f"no complete reply within {self._deadline:g} s"
            except httpx.TransportError as error:
                trouble = _told(error)
        raise Unreachable(f"{outgoing.url}: {trouble}")

    async def _tried(self, outgoing: Outgoing) -> Incoming:
        async with self._http.stream(**_request(outgoing)) as reply:
            content = _Content(reply, self._largest)
            if content.wanted:
                async for part in reply.aiter_bytes():
                    content.add(part)
        return content.incoming()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


_starting = threading.Lock()


@cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of the synchronous transports of a process. It runs in a thread of its own.

    Only an event loop can abandon an exchange at any point, for example while the headers of a reply come in.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="dpbandits-transport", daemon=True).start()
    return loop


def _result(work: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine in the loop of the synchronous transports, and return its result."""
    with _starting:
        loop = _loop(os.getpid())
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    finally:
        future.cancel()  # after Ctrl-C; has no effect on what is done


class Transport:
    """The synchronous transport. Use it in a `with` statement, or call `close`. Threads may share one.

    Args:
        certificates: A PEM file with the certificates to trust; by default the system's authorities.
        per_party: A separate PEM file per URL of a party, used in place of `certificates`. With one file for
            all parties, each party could present a certificate with the other party's host name.
        patience: How often to retry.
        largest_reply: The largest accepted reply in bytes.
        deadline: As in `AsyncTransport`.

    Example:
        >>> from dpbandits.service.client import ClientCore
        >>> from dpbandits.service.shared import Backoff, Transport
        >>> with Transport(patience=Backoff(tries=1)) as transport:
        ...     try:
        ...         transport.hold(ClientCore(url="http://127.0.0.1:9").agree())
        ...     except Exception as error:
        ...         print(type(error).__name__)
        Unreachable
    """

    def __init__(
        self,
        *,
        certificates: Path | None = None,
        per_party: Mapping[str, Path] | None = None,
        patience: Backoff | None = None,
        largest_reply: int = LARGEST_REPLY,
        deadline: float | None = None,
    ) -> None:
        self._transport = AsyncTransport(
            certificates=certificates,
            per_party=per_party,
            patience=patience,
            largest_reply=largest_reply,
            deadline=deadline,
        )

    def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Carry out a dialogue. The dialogue itself runs in the caller's thread.

        Args:
            dialogue: The dialogue, for example `ClientCore.enrol(code)`.

        Returns:
            The result of the dialogue.

        Raises:
            Unreachable: A party did not respond in time, or was busy, at every try.
            Refused: A party refused a request, or its reply is too large or compressed.
        """
        try:
            outgoing = next(dialogue)
            while True:
                outgoing = dialogue.send(_result(self._transport.exchange(outgoing)))
        except StopIteration as end:
            value: Value = end.value
            return value

    def close(self) -> None:
        """Close all connections."""
        _result(self._transport.close())

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
