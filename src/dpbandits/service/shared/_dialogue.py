"""What callers say and hear, apart from how it travels: the synchronous and the asynchronous client share it.

A dialogue is a generator that yields requests and is sent replies. `Patience` says how long a caller tries
again when the network fails or the server is busy; every request of the protocol may be repeated safely.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from dpbandits._checks import positive, whole
from dpbandits.errors import Refused
from dpbandits.service.wire import ErrorReply

Value = TypeVar("Value")

# What bytes that are no message of this version may lead to: deep nesting and invalid UTF-8 included.
_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)

RETRIED = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A request to a party's URL; `secret` goes into the header and nowhere else."""

    method: str
    url: str
    secret: str = field(default="", repr=False)
    content: bytes = field(default=b"", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The bearer, if any."""
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A reply."""

    status: int
    content: bytes = field(repr=False)


Dialogue = Generator[Outgoing, Incoming, Value]


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Try so often, waiting twice as long each time, with a random part so that callers spread out."""

    tries: int = 10
    first_seconds: float = 0.1
    longest_seconds: float = 5.0

    def __post_init__(self) -> None:
        whole(1, tries=self.tries)
        positive(first_seconds=self.first_seconds)
        positive(longest_seconds=self.longest_seconds)

    def waits(self) -> Iterator[float]:
        """How long to wait after each try that failed."""
        for number in range(self.tries):
            longest = min(self.longest_seconds, self.first_seconds * 2**number)
            yield longest * (0.5 + random.random() / 2)


def call(method: str, url: str, kind: type[Value], *, secret: str = "", body: Any = None) -> Dialogue[Value]:
    """One request and its reply; a refusal is raised."""
    content = b"" if body is None else msgspec.json.encode(body)
    reply = yield from _ask(Outgoing(method=method, url=url, secret=secret, content=content), 200)
    return _read(reply, kind)


def tell(url: str, content: bytes, *, secret: str) -> Dialogue[None]:
    """Send bytes that are answered by nothing but that they were taken; a refusal is raised."""
    yield from _ask(Outgoing(method="POST", url=url, secret=secret, content=content), 204)


def _ask(outgoing: Outgoing, expected: int) -> Dialogue[bytes]:
    incoming = yield outgoing
    if incoming.status == expected:
        return incoming.content
    try:
        told = msgspec.json.decode(incoming.content, type=ErrorReply)
    except _UNREADABLE:
        told = ErrorReply(error="unavailable", message=f"status {incoming.status}")
    raise Refused(told.error, told.message)


def _read(content: bytes, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(content, type=kind)
    except _UNREADABLE:
        raise Refused("unreadable", f"the reply is no {kind.__name__} of this version") from None
