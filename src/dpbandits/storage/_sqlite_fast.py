"""Accepts many reports on SQLite with two statements, in the usual case that all of them are new.

The driver releases Python's global interpreter lock for every row that it reads or writes, and the thread
that serves requests takes the lock each time. One statement for all rows avoids most of these switches. This
code locks no rows, so it needs a transaction with exclusive write access, which `BEGIN IMMEDIATE` gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from dpbandits.storage._records import StoredReport

# The unary plus keeps SQLite from using the index on (phase, attempt), which would scan the whole attempt.
_FRESH = (
    "SELECT count(*) FROM ledger WHERE +phase = ? AND +attempt = ? AND report IS NULL AND pseudonym IN ({}) "
    "AND NOT EXISTS (SELECT 1 FROM reports WHERE reports.pseudonym = ledger.pseudonym) "
    "AND EXISTS (SELECT 1 FROM attempts WHERE phase = ? AND number = ? AND state = 'collecting')"
)
_KEEP = "INSERT INTO reports (pseudonym, phase, attempt, sealed, relayed, digest) VALUES {}"


def take_all(connection: Connection, reports: Sequence[StoredReport]) -> bool:
    """Accept all reports if all are new and belong to one collecting attempt; otherwise do nothing.

    Args:
        connection: A connection whose transaction has the write lock.
        reports: The reports.

    Returns:
        Whether the reports were accepted.
    """
    attempts = {(report.phase, report.attempt) for report in reports}
    names = {report.pseudonym for report in reports}
    if len(attempts) != 1 or len(names) < len(reports):
        return False
    (attempt,), count = attempts, len(reports)
    fresh = connection.exec_driver_sql(_FRESH.format(_list("?", count)), (*attempt, *names, *attempt))
    if fresh.scalar_one() != count:
        return False
    rows = tuple(
        part
        for report in reports
        for part in (report.pseudonym, *attempt, report.sealed, report.relayed, report.digest)
    )
    connection.exec_driver_sql(_KEEP.format(_list("(?, ?, ?, ?, ?, ?)", count)), rows)
    return True


def _list(one: str, count: int) -> str:
    return ", ".join([one] * count)
