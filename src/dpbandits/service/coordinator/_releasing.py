"""The end of an attempt: one transaction that draws the noise, journals the release and deletes the reports.

If the process dies within it, nothing of it has happened and nothing has left the machine. The same reports
then give the same noise again, and so the same release (_fingerprint.py). If it dies after it, the release is
there and is never made again. What is about to be released is noted outside the store first (_watermark.py).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import replace

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
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._fingerprint import Fingerprint
from dpbandits.service.coordinator._watermark import Intent
from dpbandits.storage import Attempt, ReleaseRecord, StoredReport, Transaction

log = logging.getLogger("dpbandits.service")


def close_here(context: Context, transaction: Transaction) -> str:
    """Close an attempt whose reports came in here; the state that it is in now."""
    attempt = transaction.latest(lock=True)
    if attempt is None or attempt.state != "closed":
        return "changed" if attempt is None else attempt.state
    plan = context.course.plan(transaction, attempt.phase)
    count = transaction.count_reports(attempt.phase, attempt.number)
    if count < context.minimum(plan):
        return _fail(context, transaction, attempt)
    made_of = Fingerprint(context, plan, attempt.number)
    batch = _batch(context, transaction, attempt, plan, made_of)
    return _release(context, transaction, attempt, plan, batch, made_of)


def close_shuffled(context: Context, transaction: Transaction, closing: Attempt, sums: Sums | None) -> str:
    """Close an attempt whose shuffler has revealed the sums, or that there were too few for any."""
    attempt = transaction.latest(lock=True)
    if attempt is None or attempt.state != "collecting" or not _same(attempt, closing):
        return "changed" if attempt is None else attempt.state
    plan = context.course.plan(transaction, attempt.phase)
    if sums is None or sums.reports < context.minimum(plan):
        return _fail(context, transaction, attempt)
    made_of = Fingerprint(context, plan, attempt.number)
    made_of.add("sums", encode(sums))
    return _release(context, transaction, attempt, plan, sums, made_of)


def _same(attempt: Attempt, other: Attempt) -> bool:
    return (attempt.phase, attempt.number) == (other.phase, other.number)


def _batch(
    context: Context, transaction: Transaction, attempt: Attempt, plan: Plan, made_of: Fingerprint
) -> Batch | Sums:
    """In the order of pseudonyms, which says nothing of who came first."""
    stored = transaction.reports(attempt.phase, attempt.number)
    payloads = _opened(context, attempt, plan, stored, made_of)
    if summable(plan):
        return add_up(plan, nothing(plan), payloads)
    # All are in the fingerprint before anything is drawn.
    reports = [Report(plan=plan.digest, payload=payload) for payload in payloads]
    return shuffle(plan, reports, made_of.noise())


def _opened(
    context: Context, attempt: Attempt, plan: Plan, stored: Iterable[StoredReport], made_of: Fingerprint
) -> Iterable[bytes]:
    for report in stored:
        place = context.place(plan, attempt.number, report.pseudonym)
        opened = context.keys.open(report.sealed, place, "report")
        made_of.add(report.pseudonym, opened)
        yield opened


def _release(
    context: Context,
    transaction: Transaction,
    attempt: Attempt,
    plan: Plan,
    batch: Batch | Sums,
    made_of: Fingerprint,
) -> str:
    release = analyze(plan, batch, made_of.noise())
    if not plausible(plan, release):
        log.warning("implausible", extra={"phase": attempt.phase, "attempt": attempt.number})
    context.hook("release-noise-drawn")
    record = ReleaseRecord(phase=attempt.phase, attempt=attempt.number, body=encode(release))
    _intend(context, record, made_of)
    transaction.add_release(record)
    context.hook("release-journalled")
    transaction.drop_reports(attempt.phase, attempt.number)
    transaction.change_attempt(attempt, replace(attempt, state="released", seconds=None))
    return "released"


def _intend(context: Context, record: ReleaseRecord, made_of: Fingerprint) -> None:
    if context.watermark is None:
        return
    context.watermark.intend(
        Intent(
            phase=record.phase,
            attempt=record.attempt,
            reports=made_of.text,
            release=hashlib.sha256(record.body).hexdigest(),
        )
    )
    context.hook("release-intended")


def _fail(context: Context, transaction: Transaction, attempt: Attempt) -> str:
    if context.watermark is not None:
        context.watermark.fail(attempt.phase, attempt.number)
    transaction.drop_reports(attempt.phase, attempt.number)
    transaction.change_attempt(attempt, replace(attempt, state="failed", seconds=None))
    return "failed"
