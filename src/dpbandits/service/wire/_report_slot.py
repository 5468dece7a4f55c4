"""`ReportSlot`: how a party checks a received report before it stores the report.

The party opens the sealed report once to check it, and stores it sealed. In the modes `split` and `verified`
the body has two sealed parts: the shuffler opens the first part, and relays the second part unread. Whether a
report of mode `verified` is in range is known only after both parties have verified it.
"""

from __future__ import annotations

import hashlib

import msgspec

from dpbandits.errors import Refused
from dpbandits.privacy import Message
from dpbandits.protocol import Plan, share_message
from dpbandits.service.wire._binding import TAG
from dpbandits.service.wire._modes import SHARED_MODES
from dpbandits.service.wire._proofs import ProvedReports
from dpbandits.service.wire._sealing import OVERHEAD, Place
from dpbandits.storage import StoredReport


class ReportSlot(msgspec.Struct, frozen=True, kw_only=True):
    """The expected report of one client. All request bodies for one plan have the same length.

    Attributes:
        plan: The plan that the report belongs to.
        place: The study, phase, attempt, plan and pseudonym that the report must be sealed for.
        mode: The shuffler's mode; empty without a shuffler.
    """

    plan: Plan
    place: Place
    mode: str = ""

    @property
    def message(self) -> Message:
        """The format of what this party opens if reports have no proofs: the report, or a share of it."""
        return share_message(self.plan) if self.mode == "split" else self.plan.asked_mechanism.message

    @property
    def proved(self) -> ProvedReports | None:
        """The proof system; None if reports have no proofs."""
        return ProvedReports.of(self.plan, self.place) if self.mode == "verified" else None

    @property
    def purpose(self) -> str:
        """The purpose that this party's part is sealed for; see _sealing.py."""
        return "share-shuffler" if self.mode in SHARED_MODES else "report"

    @property
    def sizes(self) -> tuple[int, int]:
        """The lengths of the part that this party opens and of the part that it relays, both sealed."""
        proved = self.proved
        if proved is not None:
            return proved.part_size(0) + OVERHEAD, proved.part_size(1) + TAG + OVERHEAD
        own = self.message.size + OVERHEAD
        return own, own + TAG if self.mode in SHARED_MODES else 0

    @property
    def body_size(self) -> int:
        """The length of a body in bytes: one sealed report, or two sealed parts, the second with a tag."""
        return sum(self.sizes)

    def received(self, body: bytes) -> StoredReport:
        """Split a request body into the part that this party opens and the part that it relays.

        Args:
            body: The body of the client's request.

        Returns:
            The report to store.

        Raises:
            Refused: The body has the wrong length.
        """
        size, relayed = self.sizes
        if len(body) != size + relayed:
            raise Refused(
                "unreadable", f"report length: got {len(body):,} bytes, expected {size + relayed:,} bytes"
            )
        return StoredReport(
            phase=self.plan.phase,
            attempt=self.place.attempt,
            pseudonym=self.place.pseudonym,
            digest=hashlib.sha256(body).hexdigest(),
            sealed=body[:size],
            relayed=body[size:],
        )

    def check(self, opened: bytes) -> None:
        """Check the decrypted part of a report, if it has no proof. The error never includes the content.

        Args:
            opened: The plaintext of the part that this party opens.

        Raises:
            Refused: No honest client sends this: the report is out of range, or the share is not a residue.
        """
        if self.mode == "verified":
            return
        if not self.message.accepts(opened):
            raise Refused("unreadable", "the report is not one that the plan's mechanism can produce")
