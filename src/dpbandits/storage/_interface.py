"""The one interface to what a coordinator or a shuffler keeps; one conformance suite tests all that have it.

A `Store` gives transactions: all of one happens, durably, or nothing. What must hold, whatever crashes and
however many workers share a store:

- a client has one ledger entry in a study, a pseudonym belongs to one client, and `burn` refuses a second;
- an accepted report is durable once the transaction has ended, and is accepted once: the same bytes again are
  `repeated`, other bytes are `different`, an attempt that does not collect is `closed`;
- a phase has one plan, one release and one progress record;
- an attempt that is changed must be as it was when it was read.

A transaction that would break a rule raises `Refused` before it has written anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from dpbandits.storage._records import (
    Attempt,
    LedgerEntry,
    NewReport,
    PlanRecord,
    ProgressRecord,
    ReleaseRecord,
    StoredReport,
    StudyRecord,
)

ACCEPTED, REPEATED, DIFFERENT, CLOSED, UNKNOWN = "accepted", "repeated", "different", "closed", "unknown"


class Transaction(ABC):
    """What can be read and written, all or nothing. Reads see the transaction's own writes."""

    @abstractmethod
    def study(self) -> StudyRecord | None:
        """The study that this store belongs to."""

    @abstractmethod
    def begin_study(self, record: StudyRecord) -> None:
        """Make the store this study's; a second time is refused."""

    @abstractmethod
    def plans(self) -> tuple[PlanRecord, ...]:
        """All plans, by phase."""

    @abstractmethod
    def add_plan(self, record: PlanRecord) -> None:
        """Journal the plan of a phase; a second one for a phase is refused."""

    @abstractmethod
    def releases(self) -> tuple[ReleaseRecord, ...]:
        """All releases, by phase."""

    @abstractmethod
    def add_release(self, record: ReleaseRecord) -> None:
        """Journal the release of a phase; a second one for a phase is refused."""

    @abstractmethod
    def progress(self) -> tuple[ProgressRecord, ...]:
        """All progress records, by phase."""

    @abstractmethod
    def add_progress(self, record: ProgressRecord) -> None:
        """Journal what was learnt in a phase; a second record for a phase is refused."""

    @abstractmethod
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, by phase and number."""

    @abstractmethod
    def latest(self, *, lock: bool = False) -> Attempt | None:
        """The attempt that was begun last; with `lock` nobody else can change it till this ends."""

    @abstractmethod
    def add_attempt(self, attempt: Attempt) -> None:
        """Begin an attempt; one of the same number and phase is refused."""

    @abstractmethod
    def change_attempt(self, before: Attempt, after: Attempt) -> None:
        """Go on with an attempt; refused if it is not as it was `before`."""

    @abstractmethod
    def add_codes(self, codes: Sequence[str]) -> None:
        """Let the holders of enrolment codes, of which these are the hashes, become clients."""

    @abstractmethod
    def enrol(self, code: str, token: str) -> str:
        """The client of a code, which now has this token (both hashed). A code serves one token only."""

    @abstractmethod
    def client_of(self, token: str) -> str | None:
        """Whose token (hashed) this is."""

    def standing(self, token: str) -> tuple[str, LedgerEntry | None] | None:
        """Whose token (hashed) this is, and that client's ledger entry."""
        client = self.client_of(token)
        return None if client is None else (client, self.entry_of(client=client))

    @abstractmethod
    def entry_of(self, *, client: str | None = None, pseudonym: str | None = None) -> LedgerEntry | None:
        """The ledger entry of a client, or of a pseudonym."""

    @abstractmethod
    def burn(self, entries: Sequence[LedgerEntry]) -> None:
        """Spend clients' participation; refused if one was spent before."""

    @abstractmethod
    def members(self, phase: int, attempt: int) -> tuple[str, ...]:
        """The pseudonyms of an attempt's cohort, sorted."""

    @abstractmethod
    def credentials(self, phase: int, attempt: int) -> dict[str, str]:
        """The hashed token of each member of an attempt's cohort, by pseudonym."""

    @abstractmethod
    def accept(self, reports: Sequence[NewReport]) -> list[str]:
        """Take reports in: for each `accepted`, `repeated`, `different`, `closed` or `unknown`."""

    @abstractmethod
    def count_reports(self, phase: int, attempt: int) -> int:
        """How many were accepted in this attempt, whether or not they are still kept."""

    @abstractmethod
    def reports(self, phase: int, attempt: int, after: str = "") -> Iterator[StoredReport]:
        """Those still kept, in the order of their pseudonyms, from the one that follows `after`."""

    @abstractmethod
    def drop_reports(self, phase: int, attempt: int) -> None:
        """Forget them; that they were made stays in the ledger."""

    @abstractmethod
    def batch(self, phase: int, attempt: int) -> bytes | None:
        """What a shuffler has made of an attempt."""

    @abstractmethod
    def keep_batch(self, phase: int, attempt: int, body: bytes) -> None:
        """Journal what was made of an attempt; a second time is refused."""


class Store(ABC):
    """A place that outlives the process."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Everything done within is durable when it ends, or undone if it ends with an error."""

    def forget(self) -> bool:
        """Make sure that what was deleted cannot be found on the disk; whether that is so now.

        If it is not, because somebody else reads, the store catches up by itself as soon as it can.
        """
        return True  # nothing to do, unless a store says otherwise

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""
