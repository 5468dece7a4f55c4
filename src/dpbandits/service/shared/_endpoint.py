"""`Endpoint`: a row of a party's table, from which routes, checks and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_type_hints

import msgspec

from dpbandits.errors import InvalidValue
from dpbandits.service.shared._bodies import Bodies
from dpbandits.service.shared._metrics import Metrics
from dpbandits.service.shared._rates import Rates
from dpbandits.service.shared._settings import Limits

PER_CLIENT = ("client", "enrolment", "ticket")
"""The roles of single clients; the store has the hashes of their secrets."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request that passed the checks.

    Attributes:
        secret: The bearer token; empty for endpoints without a role.
        body: The decoded body: a message, `bytes`, or `b""`.
        phase: The phase in the path; 0 if the path has none.
        attempt: The attempt in the path; 0 if the path has none.
        query: The query parameters that the endpoint declares; empty strings for missing ones.
    """

    secret: str
    body: Any
    phase: int
    attempt: int
    query: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One endpoint of a party.

    Attributes:
        method: The HTTP method.
        path: The path, for example `/v1/phases/{phase}/attempts/{attempt}/reports`.
        role: The role that may call it; None for everybody.
        summary: One line for the OpenAPI document.
        gives: The type of the reply; None for 204 No Content.
        handler: The function that handles a checked request.
        takes: The type of the body: a message type, `bytes`, or None for no body.
        query: The names of the query parameters.
        refusals: The statuses of refusals in addition to those that every endpoint has.
        browsers: Whether scripts of any web page may call it (CORS). Only for the endpoints of clients.
    """

    method: str
    path: str
    role: str | None
    summary: str
    gives: Any
    handler: Callable[[Call], Awaitable[Any]]
    takes: Any = None
    query: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()
    browsers: bool = False

    def __post_init__(self) -> None:
        if self.browsers and self.role not in (None, *PER_CLIENT):
            raise InvalidValue("browsers", self.role, "an endpoint of clients, not of another role")


def endpoint(
    route: str,
    role: str | None,
    handler: Callable[[Call], Awaitable[Any]],
    summary: str,
    **options: Any,
) -> Endpoint:
    """Return an endpoint. By default, its reply has the type that its handler is declared to return.

    Args:
        route: The method and the path, for example `GET /v1/study`.
        role: The role that may call it; None for everybody.
        handler: The function that handles a checked request; its result must be annotated.
        summary: One line for the OpenAPI document.
        **options: Further fields of `Endpoint`: `takes`, `gives`, `query`, `refusals` or `browsers`.
    """
    (method, path), declared = route.split(), get_type_hints(handler)["return"]
    options.setdefault("gives", None if declared is NoneType else declared)
    return Endpoint(method=method, path=path, role=role, summary=summary, handler=handler, **options)


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What the checks of all endpoints of a party share.

    Attributes:
        roles: The role of each hashed token.
        limits: The sizes and rates that callers are limited to.
        rates: The rate limiter.
        metrics: The party's Prometheus metrics.
        bodies: The memory for large bodies of clients.
        trusted_bodies: The memory for large bodies with a role's token.
        known: Raises `Refused` if a ticket is not in the store.
    """

    roles: Mapping[str, str]
    limits: Limits
    rates: Rates
    metrics: Metrics
    bodies: Bodies
    trusted_bodies: Bodies
    known: Callable[[str], Awaitable[None]]
