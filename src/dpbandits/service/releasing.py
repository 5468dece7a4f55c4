"""The end of an attempt: one transaction that draws the noise, journals the release and deletes the reports.

If the process dies within it, nothing of it has happened and nothing has left the machine: the noise that was
drawn is forgotten, and drawn anew. If it dies after it, the release is there and is never made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpbandits.protocol import (
    Batch,
    Plan,
    Report,
    Sums,
    add_up,
    analyze,
    batch_of,
    encode,
    nothing,
    shuffle,
    summable,
)
from dpbandits.service.context import Context
from dpbandits.service.wire import unpack_report
from dpbandits.storage import Attempt, ReleaseRecord, StoredReport, Transaction


def close_here(context: Context, transaction: Transaction) -> str:
    """Close an attempt whose reports came in here; the state that it is in now."""
    attempt = transaction.latest(lock=True)
    if attempt is None or attempt.state != "collecting":
        return "changed" if attempt is None else attempt.state
    plan = context.course.plan(transaction, attempt.phase)
    count = transaction.count_reports(attempt.phase, attempt.number)
    if count < context.minimum(plan):
        return _fail(transaction, attempt)
    return _release(context, transaction, attempt, plan, _batch(context, transaction, attempt, plan))


def close_shuffled(context: Context, transaction: Transaction, closing: Attempt, sums: Sums | None) -> str:
    """Close an attempt whose shuffler has revealed the sums, or that there were too few for any."""
    attempt = transaction.latest(lock=True)
    if attempt is None or attempt.state != "collecting" or not _same(attempt, closing):
        return "changed" if attempt is None else attempt.state
    plan = context.course.plan(transaction, attempt.phase)
    if sums is None or sums.reports < context.minimum(plan):
        return _fail(transaction, attempt)
    return _release(context, transaction, attempt, plan, batch_of(plan, sums))


def _same(attempt: Attempt, other: Attempt) -> bool:
    return (attempt.phase, attempt.number) == (other.phase, other.number)


def _batch(context: Context, transaction: Transaction, attempt: Attempt, plan: Plan) -> Batch:
    """In the order of pseudonyms, which says nothing of who came first."""
    stored = transaction.reports(attempt.phase, attempt.number)
    reports = _opened(context, attempt, plan, stored)
    if summable(plan):
        return batch_of(plan, add_up(plan, nothing(plan), reports))
    return shuffle(plan, list(reports), context.noise)


def _opened(
    context: Context, attempt: Attempt, plan: Plan, stored: Iterable[StoredReport]
) -> Iterable[Report]:
    for report in stored:
        place = context.place(plan, attempt.number, report.pseudonym)
        yield unpack_report(plan, context.keys.open(report.sealed, place, "report"))


def _release(context: Context, transaction: Transaction, attempt: Attempt, plan: Plan, batch: Batch) -> str:
    release = analyze(plan, batch, context.noise)
    context.hook("release-noise-drawn")
    record = ReleaseRecord(phase=attempt.phase, attempt=attempt.number, body=encode(release))
    transaction.add_release(record)
    context.hook("release-journalled")
    transaction.drop_reports(attempt.phase, attempt.number)
    transaction.change_attempt(attempt, replace(attempt, state="released", seconds=None))
    return "released"


def _fail(transaction: Transaction, attempt: Attempt) -> str:
    transaction.drop_reports(attempt.phase, attempt.number)
    transaction.change_attempt(attempt, replace(attempt, state="failed", seconds=None))
    return "failed"
