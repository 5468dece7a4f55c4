"""What a coordinator and a shuffler are told, besides the study: validated when built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpbandits._checks import one_of, positive, whole
from dpbandits.errors import InvalidValue
from dpbandits.rounds import Deadlines
from dpbandits.service.wire import MODES, checked_hash

ROLES = ("operator", "actuator", "coordinator")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one caller may ask for."""

    body_bytes: int = 1 << 20
    trusted_body_bytes: int = 1 << 28  # of a party with a role's token: lists of whole cohorts
    requests_per_second: float = 100.0
    burst: int = 200

    def __post_init__(self) -> None:
        whole(1024, body_bytes=self.body_bytes)
        whole(1024, trusted_body_bytes=self.trusted_body_bytes)
        positive(requests_per_second=self.requests_per_second)
        whole(1, burst=self.burst)


@dataclass(frozen=True, kw_only=True)
class Timing(Deadlines):
    """How long clients have, and how often they poll."""

    poll_seconds: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(poll_seconds=self.poll_seconds)


@dataclass(frozen=True, kw_only=True)
class ShufflerAddress:
    """Where a study's shuffler is, the public key that reports for it are sealed to, and how it works."""

    url: str
    key: str
    mode: str = "trusted"

    def __post_init__(self) -> None:
        one_of(MODES, mode=self.mode)
        if not re.fullmatch(r"[0-9a-f]{64}", str(self.key)):
            raise InvalidValue("key", self.key, "64 hexadecimal digits, as `dpbandits keys sealing` prints")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The hashes of the tokens of roles."""

    hashes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role, value in self.hashes.items():
            one_of(ROLES, role=role)
            checked_hash(**{role: value})
