"""Dialogues: sequences of requests and replies, independent of the transport.

A dialogue is a generator that yields requests and receives replies. Synchronous and asynchronous callers run
the same dialogues (_transport.py). `Backoff` sets how often a request is retried when the network fails or
the server is busy. Every request of the protocol is idempotent, so a retry is safe.
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

# The errors that decoding a malformed message can raise, including deep nesting and invalid UTF-8.
_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)

RETRIED = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A request to a party; `secret` is sent in the `Authorization` header only."""

    method: str
    url: str
    secret: str = field(default="", repr=False)
    content: bytes = field(default=b"", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The `Authorization` header, if there is a secret."""
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A reply: the HTTP status and the body."""

    status: int
    content: bytes = field(repr=False)


Dialogue = Generator[Outgoing, Incoming, Value]


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How often and how fast to retry: exponential backoff, with jitter so that callers spread out.

    Example: by default the waits are at most 0.1, 0.2, 0.4, … 5 seconds, over 10 tries.

    Attributes:
        tries: The number of tries.
        first_seconds: The longest wait after the first failed try; it doubles with every further try.
        longest_seconds: The upper bound of every wait.
    """

    tries: int = 10
    first_seconds: float = 0.1
    longest_seconds: float = 5.0

    def __post_init__(self) -> None:
        whole(1, tries=self.tries)
        positive(first_seconds=self.first_seconds)
        positive(longest_seconds=self.longest_seconds)

    def waits(self) -> Iterator[float]:
        """Yield the wait in seconds before each try: 0, then 50 to 100 % of the longest wait."""
        yield 0.0
        for number in range(self.tries - 1):
            longest = min(self.longest_seconds, self.first_seconds * 2**number)
            yield longest * (0.5 + random.random() / 2)


def call(method: str, url: str, kind: type[Value], *, secret: str = "", body: Any = None) -> Dialogue[Value]:
    """Send one request and decode its JSON reply.

    Args:
        method: The HTTP method.
        url: The full URL.
        kind: The type of the reply.
        secret: The bearer token, if the endpoint needs one.
        body: The message to send as JSON, if any.

    Returns:
        The reply, when a transport carries out the dialogue.

    Raises:
        Refused: The party refused the request, or the reply is not a message of this type.
    """
    content = b"" if body is None else msgspec.json.encode(body)
    reply = yield from _ask(Outgoing(method=method, url=url, secret=secret, content=content), 200)
    return _read(reply, kind)


def send(url: str, content: bytes, *, secret: str) -> Dialogue[None]:
    """Post bytes to an endpoint that replies with 204 No Content.

    Args:
        url: The full URL.
        content: The body.
        secret: The bearer token.

    Raises:
        Refused: The party refused the request.
    """
    yield from _ask(Outgoing(method="POST", url=url, secret=secret, content=content), 204)


def _ask(outgoing: Outgoing, expected: int) -> Dialogue[bytes]:
    incoming = yield outgoing
    if incoming.status == expected:
        return incoming.content
    try:
        reply = msgspec.json.decode(incoming.content, type=ErrorReply)
    except _UNREADABLE:
        reply = ErrorReply(error="unavailable", message=f"status {incoming.status}")
    raise reply.refusal()


def _read(content: bytes, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(content, type=kind)
    except _UNREADABLE:
        raise Refused("unreadable", f"the reply is not a {kind.__name__} of this version") from None
