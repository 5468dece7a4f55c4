"""The end of an attempt: one transaction that draws the noise, journals the release and deletes the reports.

If the process dies within it, nothing of it has happened and nothing has left the machine. If it dies after
it, the release is there and is never made again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from dpbandits.protocol import (
    Batch,
    Plan,
    Sums,
    add_up,
    analyze,
    batch_of,
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


class Releasing:
    """Ends attempts with a release, or without one if there are too few reports."""

    def __init__(
        self,
        journal: Journal,
        custody: Callable[[Plan, int], Custody],
        minimum: Callable[[Plan], int],
        hook: Hook,
    ) -> None:
        self._journal = journal
        self._custody = custody
        self._minimum = minimum
        self._hook = hook

    def end_closed(self, transaction: Transaction) -> None:
        """End the latest attempt with the reports that were taken in here, unless another worker did."""
        attempt = transaction.latest(lock=True)
        if attempt is None or attempt.state != "closed":
            return
        plan = self._journal.plan(transaction, attempt.phase)
        custody = self._custody(plan, attempt.number)
        if transaction.count_reports(attempt.phase, attempt.number) < self._minimum(plan):
            self._fail(transaction, attempt, custody)
            return
        # In the order of pseudonyms, which says nothing of who came first.
        reports = map(custody.open, transaction.reports(attempt.phase, attempt.number))
        if summable(plan):
            batch = batch_of(plan, add_up(plan, nothing(plan), reports))
        else:
            kept = list(reports)  # all are opened before any noise is drawn
            batch = shuffle(plan, kept, custody.noise())
        self._release(transaction, attempt, plan, batch, custody)

    def end_revealed(self, transaction: Transaction, closing: Attempt, sums: Sums | None) -> None:
        """End `closing` with the sums of a collector, or None if too few reported."""
        attempt = transaction.latest(lock=True)
        if attempt is None or attempt.state != "collecting" or not _same(attempt, closing):
            return
        plan = self._journal.plan(transaction, attempt.phase)
        custody = self._custody(plan, attempt.number)
        if sums is None or sums.reports < self._minimum(plan):
            self._fail(transaction, attempt, custody)
            return
        custody.revealed(sums)
        self._release(transaction, attempt, plan, batch_of(plan, sums), custody)

    def _release(
        self, transaction: Transaction, attempt: Attempt, plan: Plan, batch: Batch, custody: Custody
    ) -> None:
        release = analyze(plan, batch, custody.noise())
        if not plausible(plan, release):
            log.warning("implausible", extra={"phase": attempt.phase, "attempt": attempt.number})
        self._hook("release-noise-drawn")
        record = ReleaseRecord(phase=attempt.phase, attempt=attempt.number, body=encode(release))
        custody.intend(record)
        transaction.add_release(record)
        self._hook("release-journalled")
        self._end(transaction, attempt, "released")

    def _fail(self, transaction: Transaction, attempt: Attempt, custody: Custody) -> None:
        custody.give_up()
        self._end(transaction, attempt, "failed")

    def _end(self, transaction: Transaction, attempt: Attempt, state: str) -> None:
        transaction.drop_reports(attempt.phase, attempt.number)
        transaction.change_attempt(attempt, replace(attempt, state=state, seconds=None))


def _same(attempt: Attempt, other: Attempt) -> bool:
    return (attempt.phase, attempt.number) == (other.phase, other.number)
