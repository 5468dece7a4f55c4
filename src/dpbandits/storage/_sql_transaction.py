"""`SqlTransaction`: a transaction in SQLAlchemy Core, so that both databases run the same statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, bindparam, delete, func, insert, select, tuple_, update

from dpbandits.errors import Refused
from dpbandits.storage._interface import ACCEPTED, CLOSED, DIFFERENT, REPEATED, UNKNOWN, Transaction
from dpbandits.storage._records import (
    Attempt,
    LedgerEntry,
    OrderRecord,
    PlanRecord,
    ProgressRecord,
    ReleaseRecord,
    StoredReport,
    StudyRecord,
    check_expiry,
)
from dpbandits.storage._sqlite_fast import take_all
from dpbandits.storage._tables import (
    ATTEMPTS,
    BATCHES,
    CODES,
    LEDGER,
    ORDERS,
    PLANS,
    PROGRESS,
    RELEASES,
    REPORTS,
    STUDY,
)

Record = TypeVar("Record", PlanRecord, ReleaseRecord, ProgressRecord)

_AT_ONCE = 500  # the most values in a list of a query, and the most reports in one statement

# The digest of a stored report is in its own row. It is copied to the ledger when the report is deleted. So
# accepting a report writes no page of the ledger, where the entries of a cohort are on many different pages.
_KEPT = REPORTS.c.pseudonym == LEDGER.c.pseudonym
_ENTRY = (
    *(column for column in LEDGER.c if column.name != "report"),
    func.coalesce(LEDGER.c.report, REPORTS.c.digest).label("report"),
)
_STANDING = (
    select(CODES.c.code, *_ENTRY)
    .select_from(CODES.outerjoin(LEDGER, LEDGER.c.client == CODES.c.code).outerjoin(REPORTS, _KEPT))
    .where(CODES.c.token == bindparam("given"))
)
_LATEST = select(ATTEMPTS).order_by(ATTEMPTS.c.phase.desc(), ATTEMPTS.c.number.desc()).limit(1)


class SqlTransaction(Transaction):
    """Reads and writes on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._latest: Attempt | None = None  # kept because many polls may share one transaction

    def study(self) -> StudyRecord | None:
        row = self._connection.execute(select(STUDY.c.digest, STUDY.c.body)).one_or_none()
        return None if row is None else StudyRecord(**row._mapping)

    def begin_study(self, record: StudyRecord) -> None:
        self._once(STUDY, {"only": 1}, {"only": 1, **asdict(record)}, "this store already has a study")

    def plans(self) -> tuple[PlanRecord, ...]:
        return self._records(PLANS, PlanRecord)

    def add_plan(self, record: PlanRecord) -> None:
        self._add(PLANS, record, "a plan")

    def releases(self) -> tuple[ReleaseRecord, ...]:
        return self._records(RELEASES, ReleaseRecord)

    def add_release(self, record: ReleaseRecord) -> None:
        self._add(RELEASES, record, "a release")

    def progress(self) -> tuple[ProgressRecord, ...]:
        return self._records(PROGRESS, ProgressRecord)

    def add_progress(self, record: ProgressRecord) -> None:
        self._add(PROGRESS, record, "a progress record")

    def _records(self, table: Table, kind: type[Record]) -> tuple[Record, ...]:
        rows = self._connection.execute(select(table).order_by(table.c.phase))
        return tuple(kind(**row._mapping) for row in rows)

    def _add(self, table: Table, record: PlanRecord | ReleaseRecord | ProgressRecord, what: str) -> None:
        why_not = f"phase {record.phase} already has {what}"
        self._once(table, {"phase": record.phase}, asdict(record), why_not)

    def orders(self) -> tuple[OrderRecord, ...]:
        rows = self._connection.execute(select(ORDERS).order_by(ORDERS.c.number))
        return tuple(OrderRecord(**row._mapping) for row in rows)

    def add_order(self, record: OrderRecord) -> None:
        why_not = f"there already is an order {record.number}"
        self._once(ORDERS, {"number": record.number}, asdict(record), why_not)

    def attempts(self) -> tuple[Attempt, ...]:
        rows = self._connection.execute(select(ATTEMPTS).order_by(ATTEMPTS.c.phase, ATTEMPTS.c.number))
        return tuple(Attempt(**row._mapping) for row in rows)

    def latest(self, *, lock: bool = False) -> Attempt | None:
        if self._latest is None or lock:
            row = self._connection.execute(_LATEST.with_for_update() if lock else _LATEST).one_or_none()
            self._latest = None if row is None else Attempt(**row._mapping)
        return self._latest

    def add_attempt(self, attempt: Attempt) -> None:
        self._latest = None
        key = {"phase": attempt.phase, "number": attempt.number}
        self._once(ATTEMPTS, key, asdict(attempt), "this attempt was already started")

    def change_attempt(self, before: Attempt, after: Attempt) -> None:
        self._latest = None
        unchanged = [ATTEMPTS.c[name].is_not_distinct_from(value) for name, value in asdict(before).items()]
        done = self._connection.execute(update(ATTEMPTS).where(*unchanged).values(**asdict(after)))
        if done.rowcount != 1:
            raise Refused("changed", "this attempt was changed after it was read")

    def add_codes(self, codes: Sequence[str], *, expires: float | None = None) -> None:
        known = self._present(CODES, "code", codes)
        rows = [{"code": code, "expires": expires} for code in dict.fromkeys(codes) if code not in known]
        if rows:
            self._connection.execute(insert(CODES), rows)

    def revoke_codes(self, codes: Sequence[str]) -> int:
        asked = select(LEDGER.c.client).where(LEDGER.c.client == CODES.c.code).exists()
        revoked = 0
        for start in range(0, len(codes), _AT_ONCE):
            given = CODES.c.code.in_(codes[start : start + _AT_ONCE])
            revoked += self._connection.execute(delete(CODES).where(given, ~asked)).rowcount
        return revoked

    def enrol(self, code: str, token: str, *, now: float | None = None) -> str:
        row = self._connection.execute(
            select(CODES.c.token, CODES.c.expires).where(CODES.c.code == code).with_for_update()
        ).one_or_none()
        if row is None:
            raise Refused("unknown-credential", "no such enrolment code")
        if row.token not in (None, token) or self.client_of(token) not in (None, code):
            raise Refused("already-enrolled", "this code or this token was already used by another client")
        if row.token is None:
            check_expiry(row.expires, now)
            self._connection.execute(update(CODES).where(CODES.c.code == code).values(token=token))
        return code

    def client_of(self, token: str) -> str | None:
        return self._connection.execute(
            select(CODES.c.code).where(CODES.c.token == token)
        ).scalar_one_or_none()

    def standing(self, token: str) -> tuple[str, LedgerEntry | None] | None:
        row = self._connection.execute(_STANDING, {"given": token}).one_or_none()
        if row is None or row.client is None:
            return None if row is None else (row.code, None)
        values = dict(row._mapping)
        return values.pop("code"), LedgerEntry(**values)

    def entry_of(self, *, client: str | None = None, pseudonym: str | None = None) -> LedgerEntry | None:
        wanted = LEDGER.c.client == client if client is not None else LEDGER.c.pseudonym == pseudonym
        query = select(*_ENTRY).select_from(LEDGER.outerjoin(REPORTS, _KEPT)).where(wanted)
        row = self._connection.execute(query).one_or_none()
        return None if row is None else LedgerEntry(**row._mapping)

    def burn(self, entries: Sequence[LedgerEntry]) -> None:
        clients, names = ([entry.client for entry in entries], [entry.pseudonym for entry in entries])
        used = self._present(LEDGER, "client", clients) or self._present(LEDGER, "pseudonym", names)
        if used or len(set(clients)) < len(clients) or len(set(names)) < len(names):
            raise Refused("already-asked", "a client or a pseudonym has already taken part")
        if entries:
            self._connection.execute(insert(LEDGER), [asdict(entry) for entry in entries])

    def members(self, phase: int, attempt: int) -> tuple[str, ...]:
        query = select(LEDGER.c.pseudonym).where(*_of(LEDGER, phase, attempt))
        return tuple(sorted(self._connection.execute(query).scalars()))

    def credentials(self, phase: int, attempt: int) -> dict[str, str]:
        members = LEDGER.join(CODES, CODES.c.code == LEDGER.c.client)
        query = select(LEDGER.c.pseudonym, CODES.c.token).select_from(members)
        rows = self._connection.execute(query.where(*_of(LEDGER, phase, attempt), CODES.c.token.is_not(None)))
        return {row.pseudonym: row.token for row in rows}

    def accept(self, reports: Sequence[StoredReport]) -> list[str]:
        outcomes = list[str]()
        for start in range(0, len(reports), _AT_ONCE):
            outcomes += self._accept(reports[start : start + _AT_ONCE])
        return outcomes

    def _accept(self, reports: Sequence[StoredReport]) -> list[str]:
        if self._connection.dialect.name == "sqlite" and take_all(self._connection, reports):
            return [ACCEPTED] * len(reports)
        collecting = self._collecting({(report.phase, report.attempt) for report in reports})
        entries = self._entries([report.pseudonym for report in reports])
        outcomes, fresh = list[str](), list[StoredReport]()
        for report in reports:
            outcome = _outcome(report, entries.get(report.pseudonym), collecting)
            outcomes.append(outcome)
            if outcome == ACCEPTED:
                fresh.append(report)
                entries[report.pseudonym] = (report.phase, report.attempt, report.digest)
        if fresh:
            self._connection.execute(insert(REPORTS), [asdict(report) for report in fresh])
        return outcomes

    def _collecting(self, attempts: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the attempts that are collecting, and lock them until the transaction ends."""
        wanted = tuple_(ATTEMPTS.c.phase, ATTEMPTS.c.number).in_(sorted(attempts))
        query = select(ATTEMPTS.c.phase, ATTEMPTS.c.number).where(wanted, ATTEMPTS.c.state == "collecting")
        rows = self._connection.execute(query.with_for_update(read=True))
        return {(row.phase, row.number) for row in rows}

    def _entries(self, pseudonyms: Sequence[str]) -> dict[str, tuple[int, int, str | None]]:
        query = select(LEDGER.c.pseudonym, LEDGER.c.phase, LEDGER.c.attempt, LEDGER.c.report)
        query = query.where(LEDGER.c.pseudonym.in_(pseudonyms)).order_by(LEDGER.c.pseudonym)
        rows = self._connection.execute(query.with_for_update()).all()
        kept = self._digests(pseudonyms)  # after locking, to see what other workers stored
        return {
            row.pseudonym: (row.phase, row.attempt, row.report or kept.get(row.pseudonym)) for row in rows
        }

    def _digests(self, pseudonyms: Sequence[str]) -> dict[str, str]:
        query = select(REPORTS.c.pseudonym, REPORTS.c.digest).where(REPORTS.c.pseudonym.in_(pseudonyms))
        return {row.pseudonym: row.digest for row in self._connection.execute(query)}

    def count_reports(self, phase: int, attempt: int) -> int:
        dropped = select(func.count()).where(*_of(LEDGER, phase, attempt), LEDGER.c.report.is_not(None))
        kept = select(func.count()).where(*_of(REPORTS, phase, attempt))
        return sum(int(self._connection.execute(query).scalar_one()) for query in (dropped, kept))

    def reports(self, phase: int, attempt: int, after: str = "") -> Iterator[StoredReport]:
        while rows := self._connection.execute(_next_reports(phase, attempt, after)).all():
            for row in rows:
                yield StoredReport(**row._mapping)
            after = rows[-1].pseudonym

    def drop_reports(self, phase: int, attempt: int) -> None:
        made = select(REPORTS.c.digest).where(_KEPT).scalar_subquery()
        marked = update(LEDGER).where(*_of(LEDGER, phase, attempt), LEDGER.c.report.is_(None))
        self._connection.execute(marked.values(report=made))
        self._connection.execute(delete(REPORTS).where(*_of(REPORTS, phase, attempt)))

    def batch(self, phase: int, attempt: int) -> bytes | None:
        query = select(BATCHES.c.body).where(*_of(BATCHES, phase, attempt))
        return self._connection.execute(query).scalar_one_or_none()

    def keep_batch(self, phase: int, attempt: int, body: bytes) -> None:
        key = {"phase": phase, "attempt": attempt}
        self._once(BATCHES, key, {**key, "body": body}, "this attempt already has a batch")

    def _once(self, table: Table, key: dict[str, Any], row: dict[str, Any], why_not: str) -> None:
        """Insert a row that must not exist yet. If two workers do this at once, the primary key stops one."""
        found = (
            select(func.count()).select_from(table).where(*(table.c[name] == v for name, v in key.items()))
        )
        if self._connection.execute(found).scalar_one():
            raise Refused("already-kept", why_not)
        self._connection.execute(insert(table).values(**row))

    def _present(self, table: Table, column: str, values: Sequence[str]) -> set[str]:
        found = set[str]()
        for start in range(0, len(values), _AT_ONCE):
            wanted = table.c[column].in_(values[start : start + _AT_ONCE])
            found.update(self._connection.execute(select(table.c[column]).where(wanted)).scalars())
        return found


def _outcome(
    report: StoredReport, entry: tuple[int, int, str | None] | None, collecting: set[tuple[int, int]]
) -> str:
    if entry is None or entry[:2] != (report.phase, report.attempt):
        return UNKNOWN
    if entry[2] is not None:
        return REPEATED if entry[2] == report.digest else DIFFERENT
    return ACCEPTED if entry[:2] in collecting else CLOSED


def _of(table: Table, phase: int, attempt: int) -> tuple[Any, Any]:
    return table.c.phase == phase, table.c.attempt == attempt


def _next_reports(phase: int, attempt: int, after: str) -> Select[Any]:
    query = select(REPORTS).where(*_of(REPORTS, phase, attempt), REPORTS.c.pseudonym > after)
    return query.order_by(REPORTS.c.pseudonym).limit(_AT_ONCE)
