"""The checks and replies of HTTP endpoints: from a table of endpoints to an application.

Before a handler runs, these checks pass: the token belongs to the endpoint's role, the caller is within its
rate limit, the body is within the caller's size limit, and a JSON body has the expected type. The roles of
single clients (`client`, `enrolment`, `ticket`) are checked by the handler, against the store. A large body
is read after that check (_bodies.py). The log has only the method, route, status and duration of a request.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpbandits.errors import InvalidValue, Refused, StorageError, Unreachable
from dpbandits.service.shared._bodies import read_body
from dpbandits.service.shared._connections import PROVEN
from dpbandits.service.shared._endpoint import PER_CLIENT, Call, Endpoint, Guard
from dpbandits.service.wire import ErrorReply, role_of

log = logging.getLogger("dpbandits.service")

STATUS = {
    "ambiguous": 400,
    "unknown-credential": 401,
    "wrong-role": 403,
    "not-found": 404,
    "no-collection": 404,
    "wrong-method": 405,
    "closed": 410,
    "code-expired": 410,
    "too-large": 413,
    "unreadable": 422,
    "too-many-rounds": 422,
    "too-fast": 429,
    "unavailable": 503,
}
"""The HTTP status of each reason of a refusal; every other reason is 409 Conflict."""

_NUMBER_LIMIT = 10**6  # the largest phase or attempt number in a path
_SMALL = 1 << 14  # bytes of the largest JSON body of a client
_LAST = "dpbandits.last"  # a key of a request's scope if its connection ends after the reply
_PAUSE = 1.0  # seconds that a caller that is too fast waits for the refusal


class _Application(Starlette):
    """Starlette with a shortcut for the table of endpoints.

    Endpoints skip Starlette's middleware and its search for a route, which take longer than the checks of an
    endpoint. They do not need the middleware, which turns exceptions into responses: `_Dispatch` itself turns
    every exception into a response. Other paths, such as those of the dashboard, take the usual way.
    """

    def shorten(self, routes: Sequence[Route], nowhere: ASGIApp) -> None:
        """Take the shortcut for these routes, whose paths all differ, and for paths of no route."""
        self._fixed = {one.path: one.app for one in routes if not one.param_convertors}
        self._patterns = [one for one in routes if one.param_convertors]
        self._table, self._nowhere = len(routes), nowhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif _encoded(scope):
            await _ENCODED(scope, receive, send)
        else:
            found = self._found(scope)
            await (self._elsewhere if found is None else found)(scope, receive, send)

    async def _elsewhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the usual way. Its callers show no credential in a header, so they count as strangers."""
        await _slowed_stranger(scope, self.state.guard)

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await super().__call__(scope, receive, last if _LAST in scope else send)

    def _found(self, scope: Scope) -> ASGIApp | None:
        """Return the endpoints of a path, and note its parameters; None if other routes may have it."""
        path: str = scope["path"]
        fixed = self._fixed.get(path)
        if fixed is not None:
            scope["path_params"] = {}
            return fixed
        for route in self._patterns:
            found = route.path_regex.match(path)
            if found is not None:
                scope["path_params"] = found.groupdict()
                return route.app
        others = self.router.routes[self._table :]
        return None if any(path.startswith(getattr(one, "path", "")) for one in others) else self._nowhere


def _encoded(scope: Scope) -> bool:
    """Return whether a body has another encoding than chunks: a proxy could disagree where it ends."""
    named = (value for name, value in scope["headers"] if name == b"transfer-encoding")
    return any(value.lower() != b"chunked" for value in named)


def application(endpoints: Sequence[Endpoint], guard: Guard, **options: Any) -> Starlette:
    """Build an ASGI application from a table of endpoints. Its errors are JSON and never a traceback.

    Args:
        endpoints: The endpoints, the most frequent one first.
        guard: What the checks share.
        **options: Further arguments of `Starlette`, for example `lifespan`.

    Returns:
        The application.
    """
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [Route(path, _Dispatch(path, methods, guard)) for path, methods in by_path.items()]

    async def not_found(scope: Scope) -> Response:
        response = await _refused(Refused("not-found", "no such path"), scope, guard)
        _close_after(response, scope)
        return response

    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        await (await not_found(scope))(scope, receive, send)

    async def handled(request: Request, _error: Exception) -> Response:
        return await not_found(request.scope)

    app = _Application(routes=routes, exception_handlers={404: handled}, **options)
    app.shorten(routes, nowhere)
    app.router.redirect_slashes = False  # `/v1/study/` is no path of the API
    app.state.guard = guard
    return app


class _Dispatch:
    """The ASGI application of one path. It parses only those parts of a request that it uses."""

    def __init__(self, path: str, methods: dict[str, Endpoint], guard: Guard) -> None:
        self._path = path
        self._methods = methods
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        endpoint = self._methods.get(scope["method"])
        if endpoint is None:
            response: Response | None = await _wrong_method(self._methods, scope, self._guard)
        else:
            response = await _answer(scope, receive, endpoint, self._guard)
        if response is not None and endpoint is not None and endpoint.browsers:
            response.headers.update(_ANY_ORIGIN)
        took = time.perf_counter() - began
        if response is not None:
            _close_after(response, scope)
            await response(scope, receive, send)
        else:
            await send(_NOTHING_TO_ANY if endpoint is not None and endpoint.browsers else _NOTHING)
            await send(_END)
        method = "other" if endpoint is None else endpoint.method
        status = 204 if response is None else response.status_code
        self._guard.metrics.requested(method, self._path, status, took)
        if log.isEnabledFor(logging.DEBUG):
            extra = {"method": method, "route": self._path, "status": status, "took": took}
            log.debug("request", extra=extra)


# Any page may read these replies. Browsers attach no cookie or stored password: the secret of a request is in
# its `Authorization` header, which only a script that knows the secret can set.
_ANY_ORIGIN = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}
_NOTHING: Message = {"type": "http.response.start", "status": 204, "headers": []}
_NOTHING_TO_ANY: Message = {
    **_NOTHING,
    "headers": [(name.lower().encode(), value.encode()) for name, value in _ANY_ORIGIN.items()],
}
_END: Message = {"type": "http.response.body"}


async def _answer(scope: Scope, receive: Receive, endpoint: Endpoint, guard: Guard) -> Response | None:
    """Check and handle a request; None means 204 No Content."""
    if endpoint.role is None:
        await _slowed_stranger(scope, guard)
    try:
        call = await _checked(scope, receive, endpoint, guard)
    except Refused as refusal:
        return await _refused(refusal, scope, guard)
    except ClientDisconnect:
        return _refusal(Refused("unreadable", "the request ended early"))
    else:
        return await _handled(call, scope, endpoint, guard)
    finally:
        guard.bodies.give(id(scope))


async def _handled(call: Call, scope: Scope, endpoint: Endpoint, guard: Guard) -> Response | None:
    """Handle a checked request, and tell the rate limiter whether the credential is known."""
    try:
        reply = _reply(await endpoint.handler(call))
    except Refused as refusal:
        if refusal.reason == "unknown-credential":
            guard.rates.wrong(call.secret, _address(scope))
            await _slowed(scope, guard)
        return _refusal(refusal)
    except InvalidValue as error:
        return _refusal(Refused("unreadable", f"{error.field}: expected {error.expected}"))
    except (StorageError, Unreachable):
        return _refusal(Refused("unavailable", "try again later"))
    except Exception as error:  # a bug: log its type and place, but not its text, which may have private data
        extra = {"route": endpoint.path, "kind": type(error).__name__, "at": _where(error)}
        log.error("failure", extra=extra)
        guard.metrics.failures.inc()
        return _json(500, ErrorReply(error="failure", message="internal server error"))
    else:
        if endpoint.role is not None:
            scope[PROVEN] = True
        if endpoint.role == "client":  # other clients' credentials are used once
            guard.rates.accepted(call.secret)
        return reply


async def _refused(refusal: Refused, scope: Scope, guard: Guard) -> Response:
    """Refuse a bad request, at the cost of its address.

    A caller that is too fast waits for the reply. If no request on its connection was accepted, the
    connection then ends: its address gets no other one for a while (`Door.welcome`), which costs less.
    """
    if refusal.reason == "unavailable":
        return _refusal(refusal)
    if refusal.reason != "too-fast" and not guard.rates.bad(_address(scope)):
        refusal = Refused("too-fast", "too many bad requests; wait")
    if refusal.reason != "too-fast":
        await _slowed(scope, guard)
    else:
        await _pause()
        _end_unproven(scope)
    return _refusal(refusal)


def _close_after(response: Response, scope: Scope) -> None:
    if _LAST in scope:
        response.headers["Connection"] = "close"


async def _slowed(scope: Scope, guard: Guard) -> None:
    """Let the sender of a bad request wait if the party gets too many of them, from any addresses.

    Then the connection ends, unless a request on it was accepted. So each further bad request needs a
    handshake, and their number is limited (_accepting.py).
    """
    if not guard.rates.calm():
        await _pause()
        _end_unproven(scope)


async def _slowed_stranger(scope: Scope, guard: Guard) -> None:
    """Do the same for a request without a credential, if the party gets too many of them."""
    if not _proven(scope) and not guard.rates.calm_strangers():
        await _pause()
        _end_unproven(scope)


def _end_unproven(scope: Scope) -> None:
    """End the connection after the reply, unless an earlier request on it was accepted."""
    if not _proven(scope):
        scope[_LAST] = True


def _proven(scope: Scope) -> bool:
    """Return whether an earlier request on the same connection was accepted."""
    return PROVEN in scope.get("state", ())


async def _pause() -> None:
    await asyncio.sleep(_PAUSE)


async def _checked(scope: Scope, receive: Receive, endpoint: Endpoint, guard: Guard) -> Call:
    secret = _bearer(scope, endpoint)
    role = role_of(secret, guard.roles) if secret else None
    _check_role(endpoint, role, bool(secret))
    if role is None and not guard.rates.allow(secret, _address(scope), proven=_proven(scope)):
        raise Refused("too-fast", "too many requests; wait")
    data = await _body(scope, receive, endpoint, guard, secret, role)
    parameters: Mapping[str, str] = scope["path_params"]
    return Call(
        secret=secret,
        body=_decoded(data, endpoint),
        phase=_number(parameters.get("phase")),
        attempt=_number(parameters.get("attempt")),
        query=_query(scope, endpoint.query) if endpoint.query else {},
    )


async def _body(
    scope: Scope, receive: Receive, endpoint: Endpoint, guard: Guard, secret: str, role: str | None
) -> bytes:
    """Read the body. More than 64 KiB of it are read only from a role, or from a known ticket."""

    async def admit(size: int) -> None:
        await guard.known(secret)
        guard.bodies.take(id(scope), secret, size)

    if endpoint.takes is None:
        return await read_body(scope, receive, 0, None)
    if role is not None:
        return await read_body(scope, receive, guard.limits.trusted_body_bytes, None)
    if endpoint.takes is bytes:
        return await read_body(scope, receive, guard.limits.body_bytes, admit)
    return await read_body(scope, receive, min(_SMALL, guard.limits.body_bytes), None)


def _bearer(scope: Scope, endpoint: Endpoint) -> str:
    if endpoint.role is None:
        return ""
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    kind, _, secret = given.partition(b" ")
    if kind.lower() != b"bearer" or not 16 <= len(secret) <= 200 or not secret.isascii():
        raise Refused("unknown-credential", "expected a header `Authorization: Bearer …`")
    text: str = secret.decode("ascii")
    return text


def _check_role(endpoint: Endpoint, role: str | None, given: bool) -> None:
    if endpoint.role is None or (role is None and endpoint.role in PER_CLIENT and given):
        return
    if role is None:
        raise Refused("unknown-credential", "the token is not known")
    if role != endpoint.role:
        raise Refused("wrong-role", f"role: got {role}, expected {endpoint.role}")


def _decoded(data: bytes, endpoint: Endpoint) -> Any:
    if endpoint.takes in (None, bytes):
        return data
    try:
        return msgspec.json.decode(data, type=endpoint.takes)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused("unreadable", f"expected {endpoint.takes.__name__} ({_safe(error)})") from None


def _safe(error: Exception) -> str:
    """Return the first line of a msgspec error. It names a field and a type, never a value."""
    if isinstance(error, UnicodeDecodeError):  # its own text has a byte of the request
        return "invalid UTF-8"
    return str(error).split("\n", maxsplit=1)[0][:200]


def _number(text: str | None) -> int:
    """Parse a phase or an attempt of the path; 0 if the path has none."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= _NUMBER_LIMIT):
        raise Refused("not-found", "no such phase or attempt")
    return int(text)


def _query(scope: Scope, names: Sequence[str]) -> dict[str, str]:
    given = QueryParams(scope["query_string"])
    return {name: given.get(name, "") for name in names}


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else client[0]


def _where(error: Exception) -> str:
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    return f"{frame.f_code.co_filename}:{line}"


def _reply(value: Any) -> Response | None:
    return value if value is None or isinstance(value, Response) else _json(200, value)


def _json(status: int, value: Any) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def _refusal(refusal: Refused) -> Response:
    reply = ErrorReply(error=refusal.reason, message=refusal.message)
    response = _json(STATUS.get(refusal.reason, 409), reply)
    if response.status_code in (429, 503):
        response.headers["Retry-After"] = "1"
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _wrong_method(methods: Mapping[str, Endpoint], scope: Scope, guard: Guard) -> Response:
    """Refuse a method or, if it is the preflight of a browser, say which ones scripts may use."""
    allowed = sorted(name for name, endpoint in methods.items() if endpoint.browsers)
    if scope["method"] == "OPTIONS" and allowed:
        await _slowed_stranger(scope, guard)
        headers = {
            **_ANY_ORIGIN,
            "Access-Control-Allow-Methods": ", ".join(allowed),
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Max-Age": "7200",
        }
        return Response(status_code=204, headers=headers)
    expected = ", ".join(sorted(methods))
    response = await _refused(Refused("wrong-method", f"expected {expected}"), scope, guard)
    response.headers["Allow"] = expected
    return response


_ENCODED = _refusal(Refused("ambiguous", "Transfer-Encoding: expected chunked"))
_ENCODED.headers["Connection"] = "close"
