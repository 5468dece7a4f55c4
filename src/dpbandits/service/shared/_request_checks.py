"""The checks of a request before its handler runs: role, rate limit, size and type of the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from dpbandits.errors import Refused
from dpbandits.service.shared._bodies import read_body
from dpbandits.service.shared._endpoint import PER_CLIENT, Call, Endpoint, Guard
from dpbandits.service.shared._refusing import address_of, proven
from dpbandits.service.wire import role_of

NUMBER_LIMIT = 10**6  # the largest phase or attempt number in a path
_SMALL = 1 << 14  # bytes of the largest JSON body of a client


async def checked(scope: Scope, receive: Receive, endpoint: Endpoint, guard: Guard) -> Call:
    """Check a request, and read its body.

    Raises:
        Refused: A check failed.
        ClientDisconnect: The caller ended the connection before the end of the body.
    """
    secret = _bearer(scope, endpoint)
    role = role_of(secret, guard.roles) if secret else None
    _check_role(endpoint, role)
    if role is None and not guard.rates.allow(secret, address_of(scope), proven=proven(scope)):
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
    """Read the body. More than 64 KiB are read only from a caller with a role's token or a known ticket."""

    async def admit(size: int) -> None:
        await guard.known(secret)
        guard.bodies.take(id(scope), secret, size)

    async def admit_trusted(size: int) -> None:
        guard.trusted_bodies.take(id(scope), secret, size)

    if endpoint.takes is None:
        return await read_body(scope, receive, 0, None)
    if role is not None:
        return await read_body(scope, receive, guard.limits.trusted_body_bytes, admit_trusted)
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


def _check_role(endpoint: Endpoint, role: str | None) -> None:
    """Check the role of the caller's token. The handler checks the credentials of single clients."""
    if endpoint.role is None or (role is None and endpoint.role in PER_CLIENT):
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
    """Return the start of a msgspec error, which is sent to the caller only."""
    if isinstance(error, UnicodeDecodeError):  # its own text has a byte of the request
        return "invalid UTF-8"
    return str(error).split("\n", maxsplit=1)[0][:200]


def _number(text: str | None) -> int:
    """Parse a phase or an attempt of the path; 0 if the path has none."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= NUMBER_LIMIT):
        raise Refused("not-found", "no such phase or attempt")
    return int(text)


def _query(scope: Scope, names: Sequence[str]) -> dict[str, str]:
    given = QueryParams(scope["query_string"])
    return {name: given.get(name, "") for name in names}
