"""The reports of an attempt, sealed to the coordinator's key, and the noise that their release draws.

If the process dies before the release is committed, the same reports give the same noise again, and so the
same release (_fingerprint.py). What is about to be released is noted outside the store first (_watermark.py).
"""

from __future__ import annotations

import hashlib

from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Plan, Sums, encode
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._fingerprint import Fingerprint
from dpbandits.service.coordinator._watermark import Intent
from dpbandits.storage import ReleaseRecord, StoredReport


class SealedReports:
    """Of one attempt at its end (`dpbandits.rounds.Custody`)."""

    def __init__(self, context: Context, plan: Plan, attempt: int) -> None:
        self._context = context
        self._plan = plan
        self._attempt = attempt
        self._made_of = Fingerprint(context, plan, attempt)

    def open(self, report: StoredReport) -> bytes:
        """Decrypt a report; it becomes part of the fingerprint."""
        place = self._context.place(self._plan, self._attempt, report.pseudonym)
        opened = self._context.keys.open(report.sealed, place, "report")
        self._made_of.add(report.pseudonym, opened)
        return opened

    def revealed(self, sums: Sums) -> None:
        """The sums of a shuffler become part of the fingerprint."""
        self._made_of.add("sums", encode(sums))

    def noise(self) -> NoiseSource:
        """A function of the fingerprint and of the coordinator's key."""
        return self._made_of.noise()

    def intend(self, record: ReleaseRecord) -> None:
        """Note the release outside the store."""
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
        """Refuse to let the attempt fail once its phase was released, or was about to be."""
        if self._context.watermark is not None:
            self._context.watermark.fail(self._plan.phase, self._attempt)
