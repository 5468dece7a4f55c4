"""The interface of a store, in which a coordinator or a shuffler keeps its data.

A `Store` provides transactions, which are atomic and durable. The following rules must hold after any crash
and with any number of workers on one store. tests/storage/test_conformance.py tests them with every store.

- A client has one ledger entry per study, and a pseudonym belongs to one client. `burn` refuses a second
  entry.
- A report is accepted once, and is durable when the transaction has ended. A second report of the same client
  is `repeated` if it has the same digest, otherwise `different`. A report to an attempt that is not
  collecting is `closed`.
- A phase has one plan, one release and one progress record. An order of the operator has its own number.
- An attempt can be changed only if it has not changed since it was read.

A call that would break a rule raises `Refused` and writes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from dpbandits.errors import Refused
from dpbandits.storage._records import (
    Attempt,
    LedgerEntry,
    OrderRecord,
    PlanRecord,
    ProgressRecord,
    ReleaseRecord,
    StoredReport,
    StudyRecord,
)

ACCEPTED, REPEATED, DIFFERENT, CLOSED, UNKNOWN = "accepted", "repeated", "different", "closed", "unknown"


class Transaction(ABC):
    """An atomic set of reads and writes. Reads see the earlier writes of the same transaction.

    Example:
        >>> from dpbandits.storage import MemoryStore
        >>> with MemoryStore().transaction() as transaction:
        ...     transaction.add_codes(["code " + "0" * 59])
        ...     client = transaction.enrol("code " + "0" * 59, "token " + "0" * 58)
        ...     print(transaction.client_of("token " + "0" * 58) == client)
        True
    """

    @abstractmethod
    def study(self) -> StudyRecord | None:
        """Return the study that this store belongs to; None if the store is empty."""

    @abstractmethod
    def begin_study(self, record: StudyRecord) -> None:
        """Record the study that this store belongs to.

        Args:
            record: The record, which is kept as it is.

        Raises:
            Refused: `already-kept` if the store already has a study.
        """

    @abstractmethod
    def plans(self) -> tuple[PlanRecord, ...]:
        """Return all plans, ordered by phase."""

    @abstractmethod
    def add_plan(self, record: PlanRecord) -> None:
        """Journal the plan of a phase.

        Args:
            record: The record, which is kept as it is.

        Raises:
            Refused: `already-kept` if the phase already has a plan.
        """

    @abstractmethod
    def releases(self) -> tuple[ReleaseRecord, ...]:
        """Return all releases, ordered by phase."""

    @abstractmethod
    def add_release(self, record: ReleaseRecord) -> None:
        """Journal the release of a phase.

        Args:
            record: The record, which is kept as it is.

        Raises:
            Refused: `already-kept` if the phase already has a release.
        """

    @abstractmethod
    def progress(self) -> tuple[ProgressRecord, ...]:
        """Return all progress records, ordered by phase."""

    @abstractmethod
    def add_progress(self, record: ProgressRecord) -> None:
        """Journal what was learnt in a phase.

        Args:
            record: The record, which is kept as it is.

        Raises:
            Refused: `already-kept` if the phase already has a record.
        """

    @abstractmethod
    def orders(self) -> tuple[OrderRecord, ...]:
        """Return all orders of the operator, ordered by number."""

    @abstractmethod
    def add_order(self, record: OrderRecord) -> None:
        """Journal an order of the operator.

        Args:
            record: The record, which is kept as it is.

        Raises:
            Refused: `already-kept` if there already is an order with this number.
        """

    @abstractmethod
    def attempts(self) -> tuple[Attempt, ...]:
        """Return all attempts, ordered by phase and number."""

    @abstractmethod
    def latest(self, *, lock: bool = False) -> Attempt | None:
        """Return the attempt that started last; None if there is none.

        Args:
            lock: Whether to keep other transactions from changing the attempt until this one ends.
        """

    @abstractmethod
    def add_attempt(self, attempt: Attempt) -> None:
        """Start an attempt.

        Args:
            attempt: The attempt.

        Raises:
            Refused: `already-kept` if the phase already has an attempt with this number.
        """

    @abstractmethod
    def change_attempt(self, before: Attempt, after: Attempt) -> None:
        """Replace `before` by `after`.

        Args:
            before: The attempt as it was read.
            after: The new value of the attempt.

        Raises:
            Refused: `changed` if the stored attempt is no longer equal to `before`.
        """

    @abstractmethod
    def add_codes(self, codes: Sequence[str], *, expires: float | None = None) -> None:
        """Make enrolment codes valid.

        Args:
            codes: The hashes of the codes. Those that the store already has are not changed.
            expires: Until when clients may enrol with them, in seconds since 1970; None for always.
        """

    @abstractmethod
    def revoke_codes(self, codes: Sequence[str]) -> int:
        """Revoke enrolment codes, and the tokens of the clients that enrolled with them.

        Clients that have been asked keep their place: their participation is used up.

        Args:
            codes: The hashes of the codes.

        Returns:
            How many codes were revoked.
        """

    @abstractmethod
    def enrol(self, code: str, token: str, *, now: float | None = None) -> str:
        """Enrol a client with a one-time code and the token that it will authenticate with, both hashed.

        Enrolling again with the same code and token has no effect.

        Args:
            code: The hash of the code.
            token: The hash of the token.
            now: The time in seconds since 1970, which a new enrolment compares with the code's expiry; None
                accepts expired codes.

        Returns:
            The client's name in the ledger.

        Raises:
            Refused: `unknown-credential` if there is no such code; `already-enrolled` if the code was used
                with another token, or the token with another code; `code-expired` if the code has expired.
        """

    @abstractmethod
    def client_of(self, token: str) -> str | None:
        """Return the client with this hashed token; None if there is none.

        Args:
            token: The hash of the token.
        """

    def standing(self, token: str) -> tuple[str, LedgerEntry | None] | None:
        """Return the client with this hashed token, and its ledger entry; None if there is no such client.

        Args:
            token: The hash of the token.
        """
        client = self.client_of(token)
        return None if client is None else (client, self.entry_of(client=client))

    @abstractmethod
    def entry_of(self, *, client: str | None = None, pseudonym: str | None = None) -> LedgerEntry | None:
        """Return the ledger entry of a client, or of a pseudonym; None if there is none.

        Args:
            client: The name of the client in the ledger.
            pseudonym: The pseudonym. It is not used if `client` is given.
        """

    @abstractmethod
    def burn(self, entries: Sequence[LedgerEntry]) -> None:
        """Use up the single participation of each of these clients.

        Args:
            entries: One entry per client. Either all of them are stored, or none.

        Raises:
            Refused: `already-asked` if a client, or a pseudonym, is in the ledger already.
        """

    @abstractmethod
    def members(self, phase: int, attempt: int) -> tuple[str, ...]:
        """Return the pseudonyms of an attempt's cohort, sorted.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
        """

    @abstractmethod
    def credentials(self, phase: int, attempt: int) -> dict[str, str]:
        """Return the hashed token of each member of an attempt's cohort, by pseudonym.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
        """

    @abstractmethod
    def accept(self, reports: Sequence[StoredReport]) -> list[str]:
        """Store reports, each at most once.

        Args:
            reports: The reports, as they were received.

        Returns:
            One outcome per report: `accepted`, `repeated`, `different`, `closed`, or `unknown` if the
            pseudonym does not belong to the attempt.
        """

    @abstractmethod
    def count_reports(self, phase: int, attempt: int) -> int:
        """Return how many reports were accepted in this attempt, including deleted ones.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
        """

    @abstractmethod
    def reports(self, phase: int, attempt: int, after: str = "") -> Iterator[StoredReport]:
        """Return the stored reports with pseudonyms greater than `after`, ordered by pseudonym.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
            after: The pseudonym after which to begin.
        """

    @abstractmethod
    def drop_reports(self, phase: int, attempt: int) -> None:
        """Delete the reports of an attempt. The ledger keeps which clients reported.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
        """

    @abstractmethod
    def batch(self, phase: int, attempt: int) -> bytes | None:
        """Return the batch of an attempt, which this party computed from its reports; None if there is none.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
        """

    @abstractmethod
    def keep_batch(self, phase: int, attempt: int, body: bytes) -> None:
        """Journal the batch of an attempt.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
            body: The batch.

        Raises:
            Refused: `already-kept` if the attempt already has a batch.
        """

    def kept_batch(self, phase: int, attempt: int, body: bytes) -> bytes:
        """Journal the batch of an attempt, unless another worker did so first.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
            body: The batch.

        Returns:
            The journalled batch.
        """
        found = self.batch(phase, attempt)
        if found is None:
            try:
                self.keep_batch(phase, attempt, body)
            except Refused as refusal:  # another worker journalled a batch after the check above
                if refusal.reason != "already-kept":
                    raise
                found = self.batch(phase, attempt)
        return found or body


class Store(ABC):
    """Storage that survives the process (except `MemoryStore`).

    Example:
        >>> from dpbandits.storage import MemoryStore
        >>> store = MemoryStore()
        >>> with store.transaction() as transaction:
        ...     print(transaction.study(), transaction.plans())
        None ()
        >>> try:
        ...     with store.transaction() as transaction:
        ...         transaction.add_codes(["0" * 64])
        ...         raise RuntimeError  # undoes the whole transaction
        ... except RuntimeError:
        ...     with store.transaction() as transaction:
        ...         print(transaction.revoke_codes(["0" * 64]))
        0
        >>> store.close()
    """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction: its writes are durable when it ends, or undone if it ends with an error.

        Returns:
            A context manager that yields the transaction.
        """

    def forget(self) -> bool:
        """Erase deleted rows from the disk.

        Returns:
            Whether the rows are erased now. While another process reads the store, this may not be possible.
            Then the store erases them as soon as it can.
        """
        return True  # stores that leave deleted rows on the disk override this

    def now(self) -> float | None:
        """Return the time of the store's own clock in seconds since 1970.

        Several workers on one store compare deadlines with this clock, because the clocks of their machines
        may differ. None means that the store has no clock of its own, and the machine's clock is used.

        Raises:
            StorageError: The store cannot be reached.
        """
        return None  # stores on another machine override this

    @abstractmethod
    def close(self) -> None:
        """Close the store."""
