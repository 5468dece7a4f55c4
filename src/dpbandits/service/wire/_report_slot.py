"""A report on its way from the network into the store: what a party opens of it, checks, and keeps.

The party opens the sealed report once to check it, and keeps it sealed. In split mode the body has two sealed
shares; the party opens the first one, and passes the second one on unread.
"""

from __future__ import annotations

import hashlib

import msgspec

from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import Message
from dpbandits.protocol import Plan, share_message
from dpbandits.service.wire._binding import TAG
from dpbandits.service.wire._sealing import OVERHEAD, Place
from dpbandits.storage import NewReport


class ReportSlot(msgspec.Struct, frozen=True, kw_only=True):
    """Where one client's report is expected. All bodies for one plan have the same length."""

    plan: Plan
    place: Place
    split: bool = False

    @property
    def message(self) -> Message:
        """What this party opens: the report, or its share of it."""
        return share_message(self.plan) if self.split else self.plan.asked_mechanism.message

    @property
    def purpose(self) -> str:
        """What it is sealed for."""
        return "share-shuffler" if self.split else "report"

    @property
    def body_size(self) -> int:
        """The length of every body: one sealed report, or two sealed shares, the second one with a tag."""
        sealed = self.message.size + OVERHEAD
        return 2 * sealed + TAG if self.split else sealed

    def received(self, body: bytes) -> NewReport:
        """Divide a body into what this party opens and what it passes on.

        Raises:
            Refused: The body has another length.
        """
        if len(body) != self.body_size:
            raise Refused("unreadable", "the report has another length than the plan's reports have")
        size = self.message.size + OVERHEAD
        return NewReport(
            phase=self.plan.phase,
            attempt=self.place.attempt,
            pseudonym=self.place.pseudonym,
            digest=hashlib.sha256(body).hexdigest(),
            sealed=body[:size],
            relayed=body[size:],
        )

    def check(self, opened: bytes) -> None:
        """Refuse what no honest client sends; the refusal says nothing about the content.

        Raises:
            Refused: The report is out of its range, or the share is not a residue.
        """
        try:
            self.message.unpack([opened])
        except InvalidValue:
            refused = "the report is not one that the plan's mechanism can make"
            raise Refused("unreadable", refused) from None
