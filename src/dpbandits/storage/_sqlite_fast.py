"""Taking many reports in at once, the usual case, on SQLite: two statements whatever their number.

The driver hands Python's lock over for every row that it writes or reads, and the thread that answers
requests takes it each time. One statement for all rows spares both threads most of that. It may only be done
where the transaction has the store to itself, as `BEGIN IMMEDIATE` gives: nothing is locked row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from dpbandits.storage._records import NewReport

# A plus keeps SQLite from going through the whole attempt by the index of its phase and number.
_FRESH = (
    "SELECT count(*) FROM ledger WHERE +phase = ? AND +attempt = ? AND report IS NULL AND pseudonym IN ({}) "
    "AND NOT EXISTS (SELECT 1 FROM reports WHERE reports.pseudonym = ledger.pseudonym)"
)
_KEEP = "INSERT INTO reports (pseudonym, phase, attempt, sealed, relayed, digest) VALUES {}"


def take_all(connection: Connection, reports: Sequence[NewReport], collecting: set[tuple[int, int]]) -> bool:
    """Accept all of them if every one is fresh and of one attempt that collects; otherwise do nothing."""
    attempts = {(report.phase, report.attempt) for report in reports}
    names = {report.pseudonym for report in reports}
    if len(attempts) != 1 or not attempts <= collecting or len(names) < len(reports):
        return False
    (attempt,), count = attempts, len(reports)
    fresh = connection.exec_driver_sql(_FRESH.format(_list("?", count)), (*attempt, *names))
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
