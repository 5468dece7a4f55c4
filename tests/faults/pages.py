"""Replies that are not part of the protocol: error pages, unexpected JSON, and bytes that are not JSON."""

from __future__ import annotations

import json
import random

from dpbandits.service.shared._dialogue import Incoming

_STATUSES = (301, 400, 401, 403, 404, 409, 410, 418, 422, 503)
_REASONS = ("closed", "unknown-credential", "already-asked", "no-consent", "failure", "", "x" * 5000)
_JSON = (
    b"{}",
    b"[]",
    b"null",
    b"1e999",
    b'"x"',
    b'{"study":1}',
    b"[" * 5000 + b"]" * 5000,
    b'{"shares":[[1]]}',
)
_BYTES = (b"", b"\xff\xfe\x00", b"<html>busy</html>", b"{", b"NaN", b'{"study":"' + b"0" * 70)


def page_for(lie: str, dice: random.Random) -> Incoming:
    """Return a random reply for a lie of `lies.ANY_PAGE`."""
    if lie == "random-json":
        return Incoming(status=200, content=dice.choice(_JSON))
    if lie == "no-json":
        return Incoming(status=200, content=dice.choice((*_BYTES, dice.randbytes(200))))
    told = json.dumps({"error": dice.choice(_REASONS), "message": "a lie"}).encode()
    return Incoming(status=dice.choice(_STATUSES), content=dice.choice((told, told, *_BYTES)))
