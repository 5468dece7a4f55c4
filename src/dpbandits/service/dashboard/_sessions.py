"""Sessions of the dashboard: signed cookies, so that every worker accepts them and a restart ends none.

A session is a role, an end and a random number, with an HMAC under a key that is derived from the
coordinator's private key. The HMAC covers the hash of the role's token, too: a new token ends all sessions
of the old one. Forms that change something carry a second HMAC of the random number (CSRF), which another
site cannot know.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpbandits.service.shared import RoleTokens
from dpbandits.service.wire import KeyPair, role_of

COOKIE = "dpbandits_session"
SECONDS = {"reader": 7 * 24 * 3600, "operator": 3600}
"""How long a session of each role lasts."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """A session that was checked.

    Attributes:
        role: `reader` or `operator`.
        until: When it ends, in seconds since 1970.
        nonce: A random number that identifies it.
    """

    role: str
    until: int
    nonce: str

    @property
    def operates(self) -> bool:
        """Whether the session may give orders."""
        return self.role == "operator"

    @property
    def text(self) -> str:
        """The signed text."""
        return f"{self.role} {self.until} {self.nonce}"


class Sessions:
    """Makes and checks sessions.

    Args:
        keys: The coordinator's key pair.
        roles: The hashes of the tokens of each role.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(self, keys: KeyPair, roles: RoleTokens, clock: Callable[[], float] = time.time) -> None:
        info = b"dpbandits v1 sessions of the dashboard"
        self._key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(keys.private_bytes())
        self._roles = {name: roles.of(name) for name in SECONDS if roles.of(name)}
        self._clock = clock

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that may see the dashboard."""
        return tuple(self._roles)

    def begin(self, token: str, *, role: str | None = None) -> tuple[Login, str] | None:
        """Return a new session and its cookie for a token; None if the token is not known.

        Args:
            token: The secret of a role.
            role: If given, only the token of this role is accepted.
        """
        found = role_of(token, {one: name for name, hashes in self._roles.items() for one in hashes})
        if found is None or role not in (None, found):
            return None
        until = int(self._clock()) + SECONDS[found]
        session = Login(role=found, until=until, nonce=secrets.token_hex(16))
        text = base64.urlsafe_b64encode(session.text.encode()).decode()
        return session, f"{text}.{self._mac('session', session)}"

    def find(self, cookie: str) -> Login | None:
        """Return the session of a cookie; None if it is forged, malformed or over."""
        text, _, mac = cookie.partition(".")
        try:
            role, until, nonce = base64.urlsafe_b64decode(text.encode()).decode("ascii").split(" ")
            session = Login(role=role, until=int(until), nonce=nonce)
        except (ValueError, binascii.Error):
            return None
        if role not in self._roles or not mac.isascii():
            return None
        fits = hmac.compare_digest(mac, self._mac("session", session))
        return session if fits and self._clock() < session.until else None

    def csrf(self, session: Login) -> str:
        """Return the token that the forms of a session carry."""
        return self._mac("form", session)

    def same_form(self, session: Login, token: str) -> bool:
        """Return whether a form carries the token of the session."""
        return token.isascii() and hmac.compare_digest(token, self.csrf(session))

    def _mac(self, purpose: str, session: Login) -> str:
        # A session ends when the tokens of its role change.
        text = f"{purpose}\n{' '.join(self._roles[session.role])}\n{session.text}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()
