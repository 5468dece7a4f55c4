"""Bearer secrets. Whoever checks one keeps its hash only, and compares in constant time.

A secret is 256 random bits, so a plain SHA-256 cannot be searched; nothing slower is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping

from dpbandits.errors import InvalidValue

_HASH = re.compile(r"[0-9a-f]{64}")


def new_secret() -> str:
    """Of the operating system's generator, in letters that fit a header."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """What may be stored, or told to others, of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_hash(**named: str) -> str:
    """The hexadecimal SHA-256 of something."""
    ((field, value),) = named.items()
    if not _HASH.fullmatch(str(value)):  # a file may have a number here
        raise InvalidValue(field, "another text", "64 hexadecimal digits, a SHA-256")
    return value


def role_of(secret: str, roles: Mapping[str, str]) -> str | None:
    """The role whose token this is; every role is compared, so that the time tells nothing."""
    given, found = hashed(secret), None
    for role, expected in roles.items():
        if hmac.compare_digest(given, expected):
            found = role
    return found
