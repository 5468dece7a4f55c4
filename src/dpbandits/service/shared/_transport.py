"""Transports, which carry out dialogues with httpx, over TLS, and retry with exponential backoff.

A reply may come from a hostile party. So a transport reads a reply only up to a limit, and refuses compressed
replies: a few bytes can expand to many gigabytes.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dpbandits.errors import Refused, Unreachable
from dpbandits.service.shared._dialogue import RETRIED, Backoff, Dialogue, Incoming, Outgoing
from dpbandits.service.shared._httpx import httpx

Value = TypeVar("Value")

TIMEOUT = 30.0  # seconds
LARGEST_REPLY = 1 << 26  # bytes; the largest honest reply to a client is a plan
_ERROR_REPLY = 1 << 16  # bytes of the largest busy reply that is read, so that its connection stays usable


def trusting(certificates: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the system's authorities, or only the certificates of a file."""
    if certificates is None:
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=str(certificates))


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL, for example `https://study.example:8443`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _request(outgoing: Outgoing) -> dict[str, Any]:
    """Return the arguments of httpx for a request whose reply must not be compressed."""
    headers = {"Accept-Encoding": "identity", **outgoing.headers}
    return {"method": outgoing.method, "url": outgoing.url, "headers": headers, "content": outgoing.content}


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


class Transport:
    """The synchronous transport. Use it in a `with` statement, or call `close`.

    Args:
        certificates: A PEM file with the certificates to trust; by default the system's authorities.
        per_party: A separate PEM file per URL of a party, used in place of `certificates`. With one file for
            all parties, each party could present a certificate with the other party's host name.
        patience: How often to retry.
        largest_reply: The largest accepted reply in bytes.

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
    ) -> None:
        mounts = {
            origin(url): httpx.HTTPTransport(verify=trusting(path)) for url, path in (per_party or {}).items()
        }
        self._http = httpx.Client(verify=trusting(certificates), timeout=TIMEOUT, mounts=mounts)
        self._patience = patience or Backoff()
        self._largest = largest_reply

    def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Carry out a dialogue.

        Args:
            dialogue: The dialogue, for example `ClientCore.enrol(code)`.

        Returns:
            The result of the dialogue.

        Raises:
            Unreachable: A party did not respond, or was busy, at every try.
            Refused: A party refused a request, or its reply is too large or compressed.
        """
        try:
            outgoing = next(dialogue)
            while True:
                outgoing = dialogue.send(self._exchange(outgoing))
        except StopIteration as end:
            value: Value = end.value
            return value

    def _exchange(self, outgoing: Outgoing) -> Incoming:
        trouble = ""
        for wait in self._patience.waits():
            try:
                with self._http.stream(**_request(outgoing)) as reply:
                    content = _Content(reply, self._largest)
                    for part in reply.iter_bytes() if content.wanted else ():
                        content.add(part)
                if reply.status_code not in RETRIED:
                    return content.incoming()
                trouble = f"status {reply.status_code}"
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
            time.sleep(wait)
        raise Unreachable(f"{outgoing.url}: {trouble}")

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTransport:
    """The transport for an event loop; many clients may share one.

    Args:
        certificates: As in `Transport`.
        per_party: As in `Transport`.
        patience: How often to retry.
        connections: The largest number of open connections.
        largest_reply: The largest accepted reply in bytes.

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

    async def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Carry out a dialogue.

        Args:
            dialogue: The dialogue, for example `ClientCore.enrol(code)`.

        Returns:
            The result of the dialogue.

        Raises:
            Unreachable: A party did not respond, or was busy, at every try.
            Refused: A party refused a request, or its reply is too large or compressed.
        """
        try:
            outgoing = next(dialogue)
            while True:
                outgoing = dialogue.send(await self._exchange(outgoing))
        except StopIteration as end:
            value: Value = end.value
            return value

    async def _exchange(self, outgoing: Outgoing) -> Incoming:
        trouble = ""
        for wait in self._patience.waits():
            try:
                async with self._http.stream(**_request(outgoing)) as reply:
                    content = _Content(reply, self._largest)
                    if content.wanted:
                        async for part in reply.aiter_bytes():
                            content.add(part)
                if reply.status_code not in RETRIED:
                    return content.incoming()
                trouble = f"status {reply.status_code}"
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
            await asyncio.sleep(wait)
        raise Unreachable(f"{outgoing.url}: {trouble}")

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
