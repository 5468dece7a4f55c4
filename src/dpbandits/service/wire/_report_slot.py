"""How a party checks a received report before it stores it.

The party opens the sealed report once to check it, and stores it sealed. In split mode the body has two
sealed shares: the shuffler opens the first one, and relays the second one unread.
"""

from __future__ import annotations

import hashlib

import msgspec

from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import Message
from dpbandits.protocol import Plan, share_message
from dpbandits.service.wire._binding import TAG
from dpbandits.service.wire._sealing import OVERHEAD, Place
from dpbandits.storage import StoredReport


class ReportSlot(msgspec.Struct, frozen=True, kw_only=True):
    """The expected report of one client. All request bodies for one plan have the same length.

    Attributes:
        plan: The plan that the report belongs to.
        place: The study, phase, attempt, plan and pseudonym that the report must be sealed for.
        split: Whether the body has two sealed shares.
    """

    plan: Plan
    place: Place
    split: bool = False

    @property
    def message(self) -> Message:
        """The format of what this party opens: the report, or its share of it."""
        return share_message(self.plan) if self.split else self.plan.asked_mechanism.message

    @property
    def purpose(self) -> str:
        """The purpose that this party's part is sealed for; see _sealing.py."""
        return "share-shuffler" if self.split else "report"

    @property
    def body_size(self) -> int:
        """The length of a body in bytes: one sealed report, or two sealed shares, the second with a tag."""
        sealed = self.message.size + OVERHEAD
        return 2 * sealed + TAG if self.split else sealed

    def received(self, body: bytes) -> StoredReport:
        """Split a request body into the part that this party opens and the part that it relays.

        Args:
            body: The body of the client's request.

        Returns:
            The report to store.

        Raises:
            Refused: The body has the wrong length.
        """
        if len(body) != self.body_size:
            raise Refused(
                "unreadable", f"report length: got {len(body):,} bytes, expected {self.body_size:,} bytes"
            )
        size = self.message.size + OVERHEAD
        return StoredReport(
            phase=self.plan.phase,
            attempt=self.place.attempt,
            pseudonym=self.place.pseudonym,
            digest=hashlib.sha256(body).hexdigest(),
            sealed=body[:size],
            relayed=body[size:],
        )

    def check(self, opened: bytes) -> None:
        """Check the decrypted part of a report. The error never includes the content.

        Args:
            opened: The plaintext of the part that this party opens.

        Raises:
            Refused: No honest client sends this: the report is out of range, or the share is not a residue.
        """
        try:
            self.message.unpack([opened])
        except InvalidValue:
            refused = "the report is not one that the plan's mechanism can produce"
            raise Refused("unreadable", refused) from None
