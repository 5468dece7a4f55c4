"""Reads the bodies of requests in bounded memory.

The first 64 KiB of a body are read together with its head. The rest of a client's body is read only after the
client's ticket was found in the store. The rest of any body is read only while all such bodies together are
within a limit. Clients and roles have separate limits, so that neither can use up the memory of the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from dpbandits.errors import Refused

AT_ONCE = 1 << 16  # bytes that uvicorn reads before the application asks for them


class Bodies:
    """The memory for large bodies, of clients or of roles.

    Args:
        most: The bytes of all such bodies together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[int, tuple[str, int]] = {}
        self._total = 0

    def take(self, request: int, secret: str, size: int) -> None:
        """Reserve memory for the body of a request.

        Args:
            request: Identifies the request.
            secret: The caller's credential; it may send one large body at a time.
            size: The bytes to reserve.

        Raises:
            Refused: `unavailable` if there is no memory left or the caller is already sending a large body.
        """
        if self._total + size > self._most or any(secret == other for other, _ in self._held.values()):
            raise Refused("unavailable", "too many large bodies at once; try again later")
        self._held[request] = (secret, size)
        self._total += size

    def give(self, request: int) -> None:
        """Give back what was reserved for a request, if anything was."""
        if request in self._held:
            self._total -= self._held.pop(request)[1]


async def read_body(
    scope: Scope, receive: Receive, largest: int, admit: Callable[[int], Awaitable[None]] | None
) -> bytes:
    """Return the body of a request.

    Args:
        scope: The request.
        receive: Returns the next part of the body.
        largest: The largest body in bytes.
        admit: If given, called once, with the size of the body or an upper bound, before more than 64 KiB are
            read. It raises `Refused` if the caller may not send such a body.

    Raises:
        Refused: `too-large` if the body is larger than `largest`, or what `admit` raises.
        ClientDisconnect: The connection ended first.
    """
    announced = _announced(scope)
    size = announced or 0
    parts, received, more = list[bytes](), 0, True
    while True:
        if size > largest:
            raise Refused("too-large", f"expected a body of at most {largest:,} bytes")
        if not more:
            return b"".join(parts)
        if size > AT_ONCE and admit is not None:
            await admit(largest if announced is None else announced)
            admit = None
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        received += len(parts[-1])
        size, more = max(size, received), message.get("more_body", False)


def _announced(scope: Scope) -> int | None:
    """Return the Content-Length of a request; None if it has none."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)  # the server has checked that these are digits
    return None
