"""`application` makes an ASGI application from a table of endpoints: routes, handlers, and replies to errors.

A request first has to pass the checks of _request_checks.py. Then its handler runs. The handler checks the
roles of single clients (`client`, `enrolment`, `ticket`) against the store. A large body is read only after
its ticket was found in the store (_bodies.py). The log has only the method, route, status and duration of a
request.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpbandits.errors import InvalidValue, Refused, StorageError, Unreachable
from dpbandits.service.shared._connections import PROVEN
from dpbandits.service.shared._endpoint import Call, Endpoint, Guard
from dpbandits.service.shared._refusing import (
    LAST,
    address_of,
    close_after,
    refused,
    slow_down,
    slow_stranger,
)
from dpbandits.service.shared._replies import json_reply, refusal_reply, reply_of
from dpbandits.service.shared._request_checks import checked
from dpbandits.service.wire import ErrorReply

log = logging.getLogger("dpbandits.service")


class _Application(Starlette):
    """Starlette with a shortcut for the table of endpoints.

    Endpoints skip Starlette's middleware and its search for a route, which take longer than the checks of an
    endpoint. They do not need the middleware, which turns exceptions into responses: `_Dispatch` itself turns
    every exception into a response. Other paths, such as those of the dashboard, are handled by Starlette.
    """

    def shorten(self, routes: Sequence[Route], nowhere: ASGIApp) -> None:
        """Take the shortcut for these routes, whose paths all differ, and for paths without a route."""
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
        """Let Starlette handle a request. It has no credential in a header, so its caller is a stranger."""
        await slow_stranger(scope, self.state.guard)

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await super().__call__(scope, receive, last if LAST in scope else send)

    def _found(self, scope: Scope) -> ASGIApp | None:
        """Return the endpoints of a path, and set its parameters; None if another route may have the path."""
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
    """Return whether a body has an encoding other than chunks: a proxy could disagree about where it ends."""
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
        response = await refused(Refused("not-found", "no such path"), scope, guard)
        close_after(response, scope)
        return response

    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        await (await not_found(scope))(scope, receive, send)

    async def handled(request: Request, _error: Exception) -> Response:
        return await not_found(request.scope)

    app = _Application(routes=routes, exception_handlers={404: handled}, **options)
    app.shorten(routes, nowhere)
    app.router.redirect_slashes = False  # `/v1/study/` is not a path of the API
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
            close_after(response, scope)
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
    """Check and handle a request, and turn every exception into a response; None means 204 No Content."""
    if endpoint.role is None:
        await slow_stranger(scope, guard)
    try:
        try:
            call = await checked(scope, receive, endpoint, guard)
        except Refused as refusal:
            return await refused(refusal, scope, guard)
        return await _handled(call, scope, endpoint, guard)
    except ClientDisconnect:
        return refusal_reply(Refused("unreadable", "the request ended early"))
    except (StorageError, Unreachable) as error:
        if isinstance(error, StorageError):  # an unreachable party is reported by the one who needs it
            log.warning("storage", extra={"route": endpoint.path, "told": str(error)})
        return refusal_reply(Refused("unavailable", "try again later"))
    except Exception as error:  # a bug: log its type and place, but not its text, which may have private data
        extra = {"route": endpoint.path, "kind": type(error).__name__, "at": _where(error)}
        log.error("failure", extra=extra)
        guard.metrics.failures.inc()
        return json_reply(500, ErrorReply(error="failure", message="internal server error"))
    finally:
        guard.bodies.give(id(scope))
        guard.trusted_bodies.give(id(scope))


async def _handled(call: Call, scope: Scope, endpoint: Endpoint, guard: Guard) -> Response | None:
    """Handle a checked request, and tell the rate limiter whether the credential is known."""
    try:
        reply = reply_of(await endpoint.handler(call))
    except Refused as refusal:
        if refusal.reason == "unknown-credential":
            guard.rates.wrong(call.secret, address_of(scope))
            await slow_down(scope, guard)
        return refusal_reply(refusal)
    except InvalidValue as error:
        return refusal_reply(Refused("unreadable", f"{error.field}: expected {error.expected}"))
    if endpoint.role is not None:
        scope[PROVEN] = True
    if endpoint.role == "client":  # the other credentials of clients are used once
        guard.rates.accepted(call.secret)
    return reply


def _where(error: Exception) -> str:
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    return f"{frame.f_code.co_filename}:{line}"


async def _wrong_method(methods: Mapping[str, Endpoint], scope: Scope, guard: Guard) -> Response:
    """Refuse a method. Reply to the preflight request of a browser with the methods that scripts may use."""
    allowed = sorted(name for name, endpoint in methods.items() if endpoint.browsers)
    if scope["method"] == "OPTIONS" and allowed:
        await slow_stranger(scope, guard)
        headers = {
            **_ANY_ORIGIN,
            "Access-Control-Allow-Methods": ", ".join(allowed),
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Max-Age": "7200",
        }
        return Response(status_code=204, headers=headers)
    expected = ", ".join(sorted(methods))
    response = await refused(Refused("wrong-method", f"expected {expected}"), scope, guard)
    response.headers["Allow"] = expected
    return response


_ENCODED = refusal_reply(Refused("ambiguous", "Transfer-Encoding: expected chunked"))
_ENCODED.headers["Connection"] = "close"
