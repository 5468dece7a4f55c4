"""The settings of a coordinator or a shuffler in addition to the study. Constructors check the values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpbandits._checks import one_of, positive, whole
from dpbandits.errors import InvalidValue
from dpbandits.rounds import Deadlines
from dpbandits.service.wire import MODES, checked_hash

ROLES = ("operator", "actuator", "coordinator", "reader")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on requests.

    Attributes:
        body_bytes: The largest body of a client's request.
        all_body_bytes: The memory for all bodies above 64 KiB that clients send at a time.
        trusted_body_bytes: The largest body of a request with a role's token; it may list a whole cohort. All
            such bodies above 64 KiB together are at most this large as well.
        requests_per_second: The rate at which a caller may send requests.
        burst: The number of requests that a caller may send at once. The limits per address and for the whole
            study follow from `burst` and `requests_per_second` (_rates.py).
    """

    body_bytes: int = 1 << 20
    all_body_bytes: int = 1 << 26
    trusted_body_bytes: int = 1 << 28
    requests_per_second: float = 100.0
    burst: int = 200

    def __post_init__(self) -> None:
        whole(1024, body_bytes=self.body_bytes)
        whole(self.body_bytes, all_body_bytes=self.all_body_bytes)
        whole(1024, trusted_body_bytes=self.trusted_body_bytes)
        positive(requests_per_second=self.requests_per_second)
        whole(1, burst=self.burst)

    def check_report(self, size: int, phase: int) -> None:
        """Check that the reports of a plan are accepted.

        Args:
            size: The length of a report's request body in bytes.
            phase: The phase of the plan.

        Raises:
            InvalidValue: The body is larger than `body_bytes`.
        """
        if size > self.body_bytes:
            expected = f"at least {size}: the bytes of a report of phase {phase} ([limits])"
            raise InvalidValue("body_bytes", self.body_bytes, expected)


@dataclass(frozen=True, kw_only=True)
class Timing(Deadlines):
    """The deadlines of clients, and how often they poll.

    Attributes:
        poll_seconds: The least number of seconds between two polls of a client. With many clients it is more.
    """

    poll_seconds: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(poll_seconds=self.poll_seconds)


@dataclass(frozen=True, kw_only=True)
class ShufflerAddress:
    """The address, the public key and the mode of a study's shuffler.

    Attributes:
        url: The shuffler's URL.
        key: The public key that reports are sealed to, 64 hexadecimal digits.
        mode: `trusted`, `split` or `verified`.
    """

    url: str
    key: str
    mode: str = "trusted"

    def __post_init__(self) -> None:
        one_of(MODES, mode=self.mode)
        if not re.fullmatch(r"[0-9a-f]{64}", str(self.key)):
            # The error does not repeat the text: it may be a secret.
            expected = "64 hexadecimal digits, as `dpbandits keys sealing` prints"
            raise InvalidValue("key", "another text", expected)


@dataclass(frozen=True, kw_only=True)
class RoleTokens:
    """The hash of the token of each role.

    Attributes:
        hashes: Maps `operator`, `actuator`, `coordinator` or `reader` to the SHA-256 of its token, or to
            several while one token replaces another.
    """

    hashes: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = dict[str, str]()
        for role in self.hashes:
            one_of(ROLES, role=role)
            for value in self.of(role):
                checked_hash(**{role: value})
                if known.setdefault(value, role) != role:
                    expected = "a token of its own: each token has one role"
                    raise InvalidValue(role, f"the token of {known[value]}", expected)

    def of(self, role: str) -> tuple[str, ...]:
        """Return the hashes of a role's tokens; empty if nobody has the role.

        Args:
            role: The name of the role.
        """
        found = self.hashes.get(role, ())
        return tuple(found) if isinstance(found, list | tuple) else (str(found),)

    def by_hash(self) -> dict[str, str]:
        """Return the role of each hash."""
        return {one: role for role in self.hashes for one in self.of(role)}
