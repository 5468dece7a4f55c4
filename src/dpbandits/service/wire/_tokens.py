"""Bearer tokens and their hashes.

A party that checks tokens stores only their hashes, and compares the hashes of roles in constant time. A
token that dpbandits creates has 256 random bits. Nobody can find it from its SHA-256 by search, so a slow
password hash is not needed.
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
    """Return a new random secret of 256 bits, in characters that are allowed in an HTTP header."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal digits; it may be stored and sent to other parties.

    Args:
        secret: The secret.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def checked_hash(**named: str) -> str:
    """Check that a value is a SHA-256 in hexadecimal digits.

    Args:
        **named: One value, passed under the name of its field: `checked_hash(terms=text)`.

    Returns:
        The value.

    Raises:
        InvalidValue: The value is something else. The error does not repeat it: it may be a secret.
    """
    ((field, value),) = named.items()
    if not _HASH.fullmatch(str(value)):  # the value may come from a TOML file, and be a number there
        raise InvalidValue(field, "another text", "64 hexadecimal digits, a SHA-256")
    return value


def role_of(secret: str, roles: Mapping[str, str]) -> str | None:
    """Return the role that a token belongs to, or None.

    Args:
        secret: The token of a request.
        roles: The role of each hashed token.

    Returns:
        The role. Every hash is compared, so that the time does not depend on the role.
    """
    given, found = hashed(secret), None
    for expected, role in roles.items():
        if hmac.compare_digest(given, expected):
            found = role
    return found
