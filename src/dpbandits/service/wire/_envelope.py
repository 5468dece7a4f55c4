"""A sealed report between its arrival and the store: what this party may open of it, and what is kept."""

from __future__ import annotations

import hashlib

import msgspec

from dpbandits.errors import Refused
from dpbandits.protocol import Plan
from dpbandits.service.wire._layout import body_size, check_report, share_size, unpack_share
from dpbandits.service.wire._sealing import OVERHEAD, Place
from dpbandits.storage import NewReport


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A body of the right length. Of a split one, this party may open the first share only."""

    plan: Plan
    place: Place
    body: bytes
    split: bool = False

    def __post_init__(self) -> None:
        if len(self.body) != body_size(self.plan, split=self.split):
            raise Refused("unreadable", "the report has another length than the plan's reports have")

    @property
    def sealed(self) -> bytes:
        """What this party opens."""
        return self.body[: share_size(self.plan) + OVERHEAD] if self.split else self.body

    @property
    def purpose(self) -> str:
        """What it was sealed for."""
        return "share-shuffler" if self.split else "report"

    def report(self, opened: bytes) -> NewReport:
        """What is stored, all as sealed as it came, if what was opened is in range."""
        if self.split:
            unpack_share(self.plan, opened)
        else:
            check_report(self.plan, opened)
        return NewReport(
            phase=self.plan.phase,
            attempt=self.place.attempt,
            pseudonym=self.place.pseudonym,
            digest=hashlib.sha256(self.body).hexdigest(),
            sealed=self.sealed,
            relayed=self.body[len(self.sealed) :],
        )
