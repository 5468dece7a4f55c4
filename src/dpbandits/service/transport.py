"""How dialogues travel: httpx, synchronously or not, over TLS, with patience."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import httpx

from dpbandits.service.dialogue import RETRIED, Dialogue, Incoming, Outgoing, Patience
from dpbandits.service.link import Unreachable

Value = TypeVar("Value")

TIMEOUT = 30.0


def trusting(certificates: Path | None) -> ssl.SSLContext:
    """Trust the system's authorities, or those of a file alone."""
    if certificates is None:
        return ssl.create_default_context()
    return ssl.create_default_context(cafile=str(certificates))


class Transport:
    """Synchronous."""

    def __init__(self, *, certificates: Path | None = None, patience: Patience | None = None) -> None:
        self._http = httpx.Client(verify=trusting(certificates), timeout=TIMEOUT)
        self._patience = patience or Patience()

    def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Hold a dialogue to its end."""
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
        """Close connections."""
        self._http.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTransport:
    """Asynchronous; many clients may share one."""

    def __init__(
        self,
        *,
        certificates: Path | None = None,
        patience: Patience | None = None,
        connections: int = 32,
    ) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        timeout = httpx.Timeout(TIMEOUT, pool=None)
        self._http = httpx.AsyncClient(verify=trusting(certificates), timeout=timeout, limits=limits)
        self._patience = patience or Patience()

    async def hold(self, dialogue: Dialogue[Value]) -> Value:
        """Hold a dialogue to its end."""
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
        """Close connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
