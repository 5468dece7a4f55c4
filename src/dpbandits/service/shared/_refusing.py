"""Refusals of bad requests. They take tokens of the caller's address, and some of them wait (_rates.py)."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Scope

from dpbandits.errors import Refused
from dpbandits.service.shared._connections import PROVEN
from dpbandits.service.shared._endpoint import Guard
from dpbandits.service.shared._replies import refusal_reply

LAST = "dpbandits.last"
"""The key that a request's scope has if its connection ends after the reply."""

_PAUSE = 1.0  # seconds for which the refusal of a caller that is too fast waits


async def refused(refusal: Refused, scope: Scope, guard: Guard) -> Response:
    """Return the refusal of a bad request, which takes a token of its address.

    If the address has no token left, the reply waits for a second. Then the connection ends, unless the
    previous request on it was accepted. Its address gets no other connection for a while (`Door.welcome`),
    which costs less than refusing its requests.
    """
    if refusal.reason == "unavailable":
        return refusal_reply(refusal)
    if refusal.reason != "too-fast" and not guard.rates.bad(address_of(scope)):
        refusal = Refused("too-fast", "too many bad requests; wait")
    if refusal.reason != "too-fast":
        await slow_down(scope, guard)
    else:
        await _pause()
        _end_unproven(scope)
    return refusal_reply(refusal)


def close_after(response: Response, scope: Scope) -> None:
    """Tell the caller if its connection ends after this response."""
    if LAST in scope:
        response.headers["Connection"] = "close"


async def slow_down(scope: Scope, guard: Guard) -> None:
    """Let the sender of a bad request wait if the party gets too many bad requests, from any addresses.

    Then the connection ends, unless the previous request on it was accepted. So each further bad request
    needs a handshake, and the number of handshakes is limited (_accepting.py).
    """
    if not guard.rates.calm():
        await _pause()
        _end_unproven(scope)


async def slow_stranger(scope: Scope, guard: Guard) -> None:
    """Do the same for requests without a credential, unless the previous request was accepted."""
    if not proven(scope) and not guard.rates.calm_strangers():
        await _pause()
        _end_unproven(scope)


def _end_unproven(scope: Scope) -> None:
    """End the connection after the reply, unless the previous request on it was accepted."""
    if not proven(scope):
        scope[LAST] = True


def proven(scope: Scope) -> bool:
    """Return whether the previous request on the same connection had a credential and was accepted."""
    return PROVEN in scope.get("state", ())


def address_of(scope: Scope) -> str:
    """Return the address of the caller; empty if it is unknown."""
    client = scope.get("client")
    return "" if client is None else client[0]


async def _pause() -> None:
    await asyncio.sleep(_PAUSE)
