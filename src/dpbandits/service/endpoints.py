"""One table of endpoints makes the routes, the checks before them, and the OpenAPI description.

Before a handler runs: the body is no longer than its caller may send, the caller is within its rate, the
token is of the endpoint's role, and a JSON body is of its type. Roles of single clients (`client`,
`enrolment`, `ticket`) are checked by the handler, against the store. Nothing of a request is logged but its
route, status and time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from dpbandits.errors import InvalidValue, Refused, StorageError
from dpbandits.service.link import Unreachable
from dpbandits.service.messages import ErrorReply
from dpbandits.service.metrics import Metrics
from dpbandits.service.rates import Rates
from dpbandits.service.settings import Limits
from dpbandits.service.tokens import role_of

log = logging.getLogger("dpbandits.service")

PER_CLIENT = ("client", "enrolment", "ticket")
"""Roles that single clients have; the store knows their secrets' hashes."""

STATUS = {
    "unknown-credential": 401,
    "wrong-role": 403,
    "not-found": 404,
    "no-collection": 404,
    "wrong-method": 405,
    "closed": 410,
    "too-large": 413,
    "unreadable": 422,
    "too-many-rounds": 422,
    "too-fast": 429,
    "unavailable": 503,
}
"""By reason; every other refusal is a conflict, 409."""

_NUMBER_LIMIT = 10**6  # of phases and attempts in paths


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request that passed the checks."""

    secret: str
    body: Any
    phase: int
    attempt: int
    query: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A method and path, who may call it, what it takes and gives. `takes` is a type, `bytes`, or None."""

    method: str
    path: str
    role: str | None
    summary: str
    gives: Any
    handler: Callable[[Call], Awaitable[Any]]
    takes: Any = None
    query: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What all endpoints of a party share."""

    roles: Mapping[str, str]
    limits: Limits
    rates: Rates
    metrics: Metrics


class _Application(Starlette):
    """Starlette, but its first route, reports, is looked at before everything else.

    So the busiest requests pass by layers that turn errors into answers: what handles them lets no error out.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = self.router.routes[0]
        if scope["type"] == "http" and isinstance(first, Route):
            match, found = first.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                response: Response = await first.endpoint(Request(scope, receive))
                await response(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def application(endpoints: Sequence[Endpoint], guard: Guard, **options: Any) -> Starlette:
    """The routes of a table, the busiest first, and errors that are JSON and never a traceback."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [
        Route(path, _dispatch(path, methods, guard), methods=["GET", "PUT", "POST", "DELETE", "PATCH"])
        for path, methods in by_path.items()
    ]

    async def nowhere(_request: Request, _error: Exception) -> Response:
        return _refusal(Refused("not-found", "no such path"))

    async def no_such_method(_request: Request, _error: Exception) -> Response:
        return _refusal(Refused("wrong-method", "another method would do"))

    return _Application(routes=routes, exception_handlers={404: nowhere, 405: no_such_method}, **options)


def _dispatch(
    path: str, methods: dict[str, Endpoint], guard: Guard
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        began = time.perf_counter()
        endpoint = methods.get(request.method)
        if endpoint is None:
            response = _refusal(Refused("wrong-method", "expected " + ", ".join(sorted(methods))))
            response.headers["Allow"] = ", ".join(sorted(methods))
        else:
            response = await _answer(request, endpoint, guard)
        took = time.perf_counter() - began
        guard.metrics.requested(request.method if endpoint else "other", path, response.status_code, took)
        log.debug(
            "request",
            extra={"method": request.method, "route": path, "status": response.status_code, "took": took},
        )
        return response

    return handle


async def _answer(request: Request, endpoint: Endpoint, guard: Guard) -> Response:
    try:
        return _reply(await endpoint.handler(await _checked(request, endpoint, guard)))
    except Refused as refusal:
        if refusal.reason == "unknown-credential" and not guard.rates.allow_failure(_address(request)):
            refusal = Refused("too-fast", "too many failed attempts; wait")
        return _refusal(refusal)
    except InvalidValue as error:
        return _refusal(Refused("unreadable", f"{error.field}: expected {error.expected}"))
    except (StorageError, Unreachable):
        return _refusal(Refused("unavailable", "try again later"))
    except ClientDisconnect:
        return _refusal(Refused("unreadable", "the request ended early"))
    except Exception as error:  # a mistake of ours: where it was is logged, what it was about is not
        log.error(
            "failure", extra={"route": endpoint.path, "kind": type(error).__name__, "at": _where(error)}
        )
        guard.metrics.failures.inc()
        return _json(500, ErrorReply(error="failure", message="this is a mistake of the server"))


async def _checked(request: Request, endpoint: Endpoint, guard: Guard) -> Call:
    secret = _bearer(request, endpoint)
    role = role_of(secret, guard.roles) if secret else None
    _check_role(endpoint, role, bool(secret))
    if role is None and not guard.rates.allow(secret, _address(request)):
        raise Refused("too-fast", "too many requests; wait")
    largest = guard.limits.body_bytes if role is None else guard.limits.trusted_body_bytes
    data = await _body(request, largest if endpoint.takes is not None else 0)
    return Call(
        secret=secret,
        body=_decoded(data, endpoint),
        phase=_number(request, "phase"),
        attempt=_number(request, "attempt"),
        query={name: request.query_params.get(name, "") for name in endpoint.query},
    )


def _bearer(request: Request, endpoint: Endpoint) -> str:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if endpoint.role is None:
        return ""
    if kind.lower() != "bearer" or not 16 <= len(secret) <= 200 or not secret.isascii():
        raise Refused("unknown-credential", "expected a header `Authorization: Bearer …`")
    return secret


def _check_role(endpoint: Endpoint, role: str | None, given: bool) -> None:
    if endpoint.role is None or (role is None and endpoint.role in PER_CLIENT and given):
        return
    if role is None:
        raise Refused("unknown-credential", "no such token")
    if role != endpoint.role:
        raise Refused("wrong-role", f"this is for the {endpoint.role}")


async def _body(request: Request, largest: int) -> bytes:
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > largest:
            raise Refused("too-large", f"expected a body of at most {largest:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _decoded(data: bytes, endpoint: Endpoint) -> Any:
    if endpoint.takes in (None, bytes):
        return data
    try:
        return msgspec.json.decode(data, type=endpoint.takes)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused("unreadable", f"expected {endpoint.takes.__name__} ({_safe(error)})") from None


def _safe(error: Exception) -> str:
    """What msgspec says names a field and a type, never a value."""
    return str(error).split("\n", maxsplit=1)[0][:200]


def _number(request: Request, name: str) -> int:
    """A phase or an attempt of the path; none is 0."""
    text = request.path_params.get(name)
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= _NUMBER_LIMIT):
        raise Refused("not-found", "no such phase or attempt")
    return int(text)


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _where(error: Exception) -> str:
    trace, place = error.__traceback__, "nowhere"
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _reply(value: Any) -> Response:
    return value if isinstance(value, Response) else _json(200, value)


def _json(status: int, value: Any) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def _refusal(refusal: Refused) -> Response:
    response = _json(
        STATUS.get(refusal.reason, 409), ErrorReply(error=refusal.reason, message=refusal.message)
    )
    if response.status_code in (429, 503):
        response.headers["Retry-After"] = "1"
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
