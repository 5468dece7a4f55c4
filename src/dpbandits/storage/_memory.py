"""`MemoryStore`: a store in memory, for tests and short runs. It is the simplest implementation."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from dpbandits.errors import Refused
from dpbandits.storage._interface import ACCEPTED, CLOSED, DIFFERENT, REPEATED, UNKNOWN, Store, Transaction
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

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass
class _Tables:
    study: dict[str, StudyRecord] = field(default_factory=dict)
    plans: dict[int, PlanRecord] = field(default_factory=dict)
    releases: dict[int, ReleaseRecord] = field(default_factory=dict)
    progress: dict[int, ProgressRecord] = field(default_factory=dict)
    orders: dict[int, OrderRecord] = field(default_factory=dict)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    codes: dict[str, str | None] = field(default_factory=dict)
    expiry: dict[str, float | None] = field(default_factory=dict)
    ledger: dict[str, LedgerEntry] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=dict)  # by pseudonym
    reports: dict[str, StoredReport] = field(default_factory=dict)
    batches: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def copy(self) -> _Tables:
        return _Tables(**{one.name: dict(getattr(self, one.name)) for one in fields(self)})


class MemoryStore(Store):
    """A store in memory that ends with its process. Each transaction works on copies of all tables.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.rounds import Rounds
        >>> from dpbandits.storage import MemoryStore
        >>> Rounds(examples.study(), MemoryStore()).settle().state
        'gathering'
    """

    def __init__(self) -> None:
        self._tables = _Tables()
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run one transaction at a time; its changes are kept unless it ends with an error."""
        with self._lock:
            tables = self._tables.copy()
            yield _MemoryTransaction(tables)
            self._tables = tables

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class _MemoryTransaction(Transaction):
    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def study(self) -> StudyRecord | None:
        return self._tables.study.get("study")

    def begin_study(self, record: StudyRecord) -> None:
        _once(self._tables.study, "study", record, "this store already has a study")

    def plans(self) -> tuple[PlanRecord, ...]:
        return tuple(plan for _, plan in sorted(self._tables.plans.items()))

    def add_plan(self, record: PlanRecord) -> None:
        _once(self._tables.plans, record.phase, record, f"phase {record.phase} already has a plan")

    def releases(self) -> tuple[ReleaseRecord, ...]:
        return tuple(release for _, release in sorted(self._tables.releases.items()))

    def add_release(self, record: ReleaseRecord) -> None:
        _once(self._tables.releases, record.phase, record, f"phase {record.phase} already has a release")

    def progress(self) -> tuple[ProgressRecord, ...]:
        return tuple(record for _, record in sorted(self._tables.progress.items()))

    def add_progress(self, record: ProgressRecord) -> None:
        why_not = f"phase {record.phase} already has a progress record"
        _once(self._tables.progress, record.phase, record, why_not)

    def orders(self) -> tuple[OrderRecord, ...]:
        return tuple(record for _, record in sorted(self._tables.orders.items()))

    def add_order(self, record: OrderRecord) -> None:
        _once(self._tables.orders, record.number, record, f"there already is an order {record.number}")

    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(attempt for _, attempt in sorted(self._tables.attempts.items()))

    def latest(self, *, lock: bool = False) -> Attempt | None:  # noqa: ARG002
        return max(self._tables.attempts.items(), default=(None, None))[1]

    def add_attempt(self, attempt: Attempt) -> None:
        key = (attempt.phase, attempt.number)
        _once(self._tables.attempts, key, attempt, "this attempt was already started")

    def change_attempt(self, before: Attempt, after: Attempt) -> None:
        if self._tables.attempts.get((before.phase, before.number)) != before:
            raise Refused("changed", "this attempt was changed after it was read")
        self._tables.attempts[after.phase, after.number] = after

    def add_codes(self, codes: Sequence[str], *, expires: float | None = None) -> None:
        for code in codes:
            self._tables.codes.setdefault(code, None)
            self._tables.expiry.setdefault(code, expires)

    def revoke_codes(self, codes: Sequence[str]) -> int:
        revoked = {code for code in codes if code in self._tables.codes} - set(self._tables.ledger)
        for code in revoked:
            del self._tables.codes[code], self._tables.expiry[code]
        return len(revoked)

    def enrol(self, code: str, token: str, *, now: float | None = None) -> str:
        if code not in self._tables.codes:
            raise Refused("unknown-credential", "no such enrolment code")
        if self._tables.codes[code] not in (None, token) or self.client_of(token) not in (None, code):
            raise Refused("already-enrolled", "this code or this token was already used by another client")
        if self._tables.codes[code] is None:
            check_expiry(self._tables.expiry[code], now)
        self._tables.codes[code] = token
        return code

    def client_of(self, token: str) -> str | None:
        return next((code for code, given in self._tables.codes.items() if given == token), None)

    def entry_of(self, *, client: str | None = None, pseudonym: str | None = None) -> LedgerEntry | None:
        found = client if client is not None else self._tables.clients.get(pseudonym or "")
        return None if found is None else self._tables.ledger.get(found)

    def burn(self, entries: Sequence[LedgerEntry]) -> None:
        clients = {entry.client: entry for entry in entries}
        names = {entry.pseudonym: entry.client for entry in entries}
        used = clients.keys() & self._tables.ledger.keys() or names.keys() & self._tables.clients.keys()
        if used or len(clients) < len(entries) or len(names) < len(entries):
            raise Refused("already-asked", "a client or a pseudonym has already taken part")
        self._tables.ledger.update(clients)
        self._tables.clients.update(names)

    def members(self, phase: int, attempt: int) -> tuple[str, ...]:
        return tuple(sorted(entry.pseudonym for entry in self._of(phase, attempt)))

    def credentials(self, phase: int, attempt: int) -> dict[str, str]:
        tokens = {entry.pseudonym: self._tables.codes.get(entry.client) for entry in self._of(phase, attempt)}
        return {pseudonym: token for pseudonym, token in tokens.items() if token is not None}

    def _of(self, phase: int, attempt: int) -> list[LedgerEntry]:
        entries = self._tables.ledger.values()
        return [entry for entry in entries if (entry.phase, entry.attempt) == (phase, attempt)]

    def accept(self, reports: Sequence[StoredReport]) -> list[str]:
        return [self._accept(report) for report in reports]

    def _accept(self, report: StoredReport) -> str:
        entry = self.entry_of(pseudonym=report.pseudonym)
        if entry is None or (entry.phase, entry.attempt) != (report.phase, report.attempt):
            return UNKNOWN
        if entry.report is not None:
            return REPEATED if entry.report == report.digest else DIFFERENT
        attempt = self._tables.attempts.get((entry.phase, entry.attempt))
        if attempt is None or attempt.state != "collecting":
            return CLOSED
        self._tables.ledger[entry.client] = replace(entry, report=report.digest)
        self._tables.reports[report.pseudonym] = report
        return ACCEPTED

    def count_reports(self, phase: int, attempt: int) -> int:
        return sum(entry.report is not None for entry in self._of(phase, attempt))

    def reports(self, phase: int, attempt: int, after: str = "") -> Iterator[StoredReport]:
        for pseudonym, kept in sorted(self._tables.reports.items()):
            if (kept.phase, kept.attempt) == (phase, attempt) and pseudonym > after:
                yield kept

    def drop_reports(self, phase: int, attempt: int) -> None:
        for report in list(self.reports(phase, attempt)):
            del self._tables.reports[report.pseudonym]

    def batch(self, phase: int, attempt: int) -> bytes | None:
        return self._tables.batches.get((phase, attempt))

    def keep_batch(self, phase: int, attempt: int, body: bytes) -> None:
        _once(self._tables.batches, (phase, attempt), body, "this attempt already has a batch")


def _once(table: dict[Key, Value], key: Key, value: Value, why_not: str) -> None:
    if key in table:
        raise Refused("already-kept", why_not)
    table[key] = value
