"""Transports: they carry out dialogues with httpx, over TLS, and retry with exponential backoff."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from urllib.parse import urlsplit

from dpbandits.errors import Unreachable
from dpbandits.service.shared._dialogue import RETRIED, Dialogue, Incoming, Outgoing, Patience
from dpbandits.service.shared._httpx import httpx

Value = TypeVar("Value")

TIMEOUT = 30.0  # seconds


def trusting(certificates: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the system's authorities, or only the certificates of a file."""
    if certificates is None:
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=str(certificates))


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL, for example `https://study.example:8443`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class Transport:
    """The synchronous transport. Use it in a `with` statement, or call `close`.

    Args:
        certificates: A PEM file with the certificates to trust; by default the system's authorities.
        per_party: A separate PEM file per URL. With one file for all parties, each party could present a
            certificate with the other party's host name.
        patience: How often to retry.
    """

    def __init__(
        self,
        *,
        certificates: Path | None = None,
        per_party: Mapping[str, Path] | None = None,
        patience: Patience | None = None,
    ) -> None:
        mounts = {
            origin(url): httpx.HTTPTransport(verify=trusting(path)) for url, path in (per_party or {}).items()
        }
        self._http = httpx.Client(verify=trusting(certificates), timeout=TIMEOUT, mounts=mounts)
        self._patience = patience or Patience()

    def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Carry out a dialogue.

        Args:
            dialogue: The dialogue, for example `ClientCore.enrol(code)`.

        Returns:
            The result of the dialogue.

        Raises:
            Unreachable: A party did not respond, or was busy, at every try.
            Refused: A party refused a request.
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
                reply = self._http.request(
                    outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.content
                )
                if reply.status_code not in RETRIED:
                    return Incoming(status=reply.status_code, content=reply.content)
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
    """

    def __init__(
        self,
        *,
        certificates: Path | None = None,
        per_party: Mapping[str, Path] | None = None,
        patience: Patience | None = None,
        connections: int = 32,
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
        self._patience = patience or Patience()

    async def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Carry out a dialogue.

        Args:
            dialogue: The dialogue, for example `ClientCore.enrol(code)`.

        Returns:
            The result of the dialogue.

        Raises:
            Unreachable: A party did not respond, or was busy, at every try.
            Refused: A party refused a request.
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
                reply = await self._http.request(
                    outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.content
                )
                if reply.status_code not in RETRIED:
                    return Incoming(status=reply.status_code, content=reply.content)
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
