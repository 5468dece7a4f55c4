"""Bad requests: they take tokens of their address, and wait if a party gets too many of them (_rates.py)."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Scope

from dpbandits.errors import Refused
from dpbandits.service.shared._connections import PROVEN
from dpbandits.service.shared._endpoint import Guard
from dpbandits.service.shared._replies import refusal_reply

LAST = "dpbandits.last"
"""A key of a request's scope if its connection ends after the reply."""

_PAUSE = 1.0  # seconds that a caller that is too fast waits for the refusal


async def refused(refusal: Refused, scope: Scope, guard: Guard) -> Response:
    """Refuse a bad request, at the cost of its address.

    A caller that is too fast waits for the reply. If no request on its connection was accepted, the
    connection then ends: its address gets no other one for a while (`Door.welcome`), which costs less.
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
    """Tell the caller that its connection ends, if it does."""
    if LAST in scope:
        response.headers["Connection"] = "close"


async def slow_down(scope: Scope, guard: Guard) -> None:
    """Let the sender of a bad request wait if the party gets too many of them, from any addresses.

    Then the connection ends, unless a request on it was accepted. So each further bad request needs a
    handshake, and their number is limited (_accepting.py).
    """
    if not guard.rates.calm():
        await _pause()
        _end_unproven(scope)


async def slow_stranger(scope: Scope, guard: Guard) -> None:
    """Do the same for a request without a credential, if the party gets too many of them."""
    if not proven(scope) and not guard.rates.calm_strangers():
        await _pause()
        _end_unproven(scope)


def _end_unproven(scope: Scope) -> None:
    """End the connection after the reply, unless an earlier request on it was accepted."""
    if not proven(scope):
        scope[LAST] = True


def proven(scope: Scope) -> bool:
    """Return whether an earlier request on the same connection was accepted."""
    return PROVEN in scope.get("state", ())


def address_of(scope: Scope) -> str:
    """Return the address of the caller; empty if it is unknown."""
    client = scope.get("client")
    return "" if client is None else client[0]


async def _pause() -> None:
    await asyncio.sleep(_PAUSE)
