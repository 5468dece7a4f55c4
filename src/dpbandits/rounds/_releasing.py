"""Ends an attempt in one transaction, which draws the noise, journals the release and deletes the reports.

If the process crashes during the transaction, nothing is stored and nothing has left the machine. If it
crashes after the transaction, the release is stored and is never computed again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpbandits.protocol import (
    Batch,
    Plan,
    Report,
    Sums,
    add_up,
    analyze,
    encode,
    nothing,
    plausible,
    shuffle,
    summable,
)
from dpbandits.rounds._carrier import Custody
from dpbandits.rounds._journal import Journal
from dpbandits.rounds._transactions import Hook
from dpbandits.storage import Attempt, ReleaseRecord, Transaction

log = logging.getLogger("dpbandits.rounds")


@dataclass(frozen=True, kw_only=True)
class Releasing:
    """Ends attempts with a release, or without one if there are too few reports.

    Attributes:
        journal: The plans of the study.
        custody: Creates the `Custody` of an attempt from its plan and number.
        minimum: Returns the smallest number of reports with which a phase is released.
        hook: Called with the name of each journal step.
    """

    journal: Journal
    custody: Callable[[Plan, int], Custody]
    minimum: Callable[[Plan], int]
    hook: Hook

    def end(self, transaction: Transaction, closing: Attempt, revealed: Batch | Sums | None = None) -> None:
        """Release an attempt or let it fail, unless another worker has done so.

        Args:
            transaction: The transaction in which everything happens.
            closing: The attempt, in state `closed`, or in state `collecting` if a collector has the reports.
            revealed: The sums or the batch of the collector; None if too few clients reported, or if there is
                no collector.
        """
        attempt = transaction.latest(lock=True)
        if attempt is None or not _same(attempt, closing):
            return
        plan = self.journal.plan(transaction, attempt.phase)
        custody = self.custody(plan, attempt.number)
        if attempt.state == "closed":
            reports = transaction.count_reports(attempt.phase, attempt.number)
        else:
            reports = 0 if revealed is None else revealed.reports
        if reports < self.minimum(plan):
            custody.give_up()
            self._end(transaction, attempt, "failed")
            return
        if revealed is None:
            batch = self._batch(transaction, attempt, plan, custody)
        else:
            custody.revealed(revealed)
            batch = revealed
        release = analyze(plan, batch, custody.noise())
        if not plausible(plan, release):
            log.warning("implausible", extra={"phase": attempt.phase, "attempt": attempt.number})
        self.hook("release-noise-drawn")
        record = ReleaseRecord(phase=attempt.phase, attempt=attempt.number, body=encode(release))
        custody.intend(record)
        transaction.add_release(record)
        self.hook("release-journalled")
        self._end(transaction, attempt, "released")

    def _batch(
        self, transaction: Transaction, attempt: Attempt, plan: Plan, custody: Custody
    ) -> Batch | Sums:
        """Process the reports in the order of pseudonyms, which does not reveal the order of arrival."""
        payloads = map(custody.open, transaction.reports(attempt.phase, attempt.number))
        if summable(plan):
            return add_up(plan, nothing(plan), payloads)
        # Open all reports before drawing any noise, since the noise may be a function of them.
        reports = [Report(plan=plan.digest, payload=payload) for payload in payloads]
        return shuffle(plan, reports, custody.noise())

    def _end(self, transaction: Transaction, attempt: Attempt, state: str) -> None:
        transaction.drop_reports(attempt.phase, attempt.number)
        transaction.change_attempt(attempt, replace(attempt, state=state, seconds=None))


def _same(attempt: Attempt, other: Attempt) -> bool:
    """Return whether two values are the same attempt in the same state."""
    return (attempt.phase, attempt.number, attempt.state) == (other.phase, other.number, other.state)
