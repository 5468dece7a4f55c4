"""HTTP replies: JSON, and the status and headers of each refusal."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from dpbandits.errors import Refused
from dpbandits.service.wire import ErrorReply

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


def reply_of(value: Any) -> Response | None:
    """Return the response with the result of a handler; None means 204 No Content."""
    return value if value is None or isinstance(value, Response) else json_reply(200, value)


def json_reply(status: int, value: Any) -> Response:
    """Return a response with a message as JSON."""
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def refusal_reply(refusal: Refused) -> Response:
    """Return the response of a refusal."""
    reply = ErrorReply(error=refusal.reason, message=refusal.message)
    response = json_reply(STATUS.get(refusal.reason, 409), reply)
    if response.status_code in (429, 503):
        response.headers["Retry-After"] = "1"
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
