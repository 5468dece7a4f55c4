"""`SealedReports`: opens the sealed reports of an attempt, and derives the noise of its release from them.

If the process crashes before the release is committed, the same reports give the same noise again, and so the
same release (_fingerprint.py). A digest of the release is written outside the store first (_watermark.py).
"""

from __future__ import annotations

import hashlib

from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Batch, Plan, Sums, encode
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._fingerprint import Fingerprint
from dpbandits.service.coordinator._watermark import Intent
from dpbandits.storage import ReleaseRecord, StoredReport


class SealedReports:
    """The sealed reports of one attempt at its end (implements `dpbandits.rounds.Custody`)."""

    def __init__(self, context: Context, plan: Plan, attempt: int) -> None:
        self._context = context
        self._plan = plan
        self._attempt = attempt
        self._made_of = Fingerprint(context, plan, attempt)

    def open(self, report: StoredReport) -> bytes:
        """Decrypt a report, and add it to the fingerprint."""
        place = self._context.place(self._plan, self._attempt, report.pseudonym)
        opened = self._context.keys.open(report.sealed, place, "report")
        self._made_of.add(report.pseudonym, opened)
        return opened

    def revealed(self, batch: Batch | Sums) -> None:
        """Add the sums of a shuffler to the fingerprint."""
        self._made_of.add("sums", encode(batch))

    def noise(self) -> NoiseSource:
        """Return noise that is a function of the fingerprint and of the coordinator's key."""
        return self._made_of.noise()

    def intend(self, record: ReleaseRecord) -> None:
        """Record the release in the progress file, if there is one."""
        if self._context.watermark is None:
            return
        self._context.watermark.intend(
            Intent(
                phase=record.phase,
                attempt=record.attempt,
                reports=self._made_of.text,
                release=hashlib.sha256(record.body).hexdigest(),
            )
        )
        self._context.hook("release-intended")

    def give_up(self) -> None:
        """Raise `StoreWentBack` if the progress file says that the phase was released or about to be."""
        if self._context.watermark is not None:
            self._context.watermark.fail(self._plan.phase, self._attempt)
