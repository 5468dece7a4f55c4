"""The shuffler as a state machine with its own store. It uses no network and no clock.

There is one collection per attempt at a phase of the shuffle model. A collection has these states:

    collecting   the coordinator opened it with the plan and the cohort's pseudonyms; clients send reports
                 → failed   on close, there are fewer reports than the plan's noise was calibrated for, or
                            fewer than this shuffler's own minimum: all reports are deleted, and nothing is
                            revealed
                 → summed   on close, mode `trusted`: the sums are journalled and the reports are deleted in
                            one transaction
                 → closed   on close, modes `split` and `verified`: no more reports; the coordinator fetches
                            its sealed shares, in mode `verified` with the shuffler's verifier shares
    closed       → summed   the coordinator lists the reports that it could not read or that are not valid;
                            the sums over the others are journalled and all shares are deleted in one
                            transaction
                 → failed   too few reports are left

- Every request is idempotent: repeating it returns the same reply. So the sums of a collection are revealed
  once, over one set, and later requests cannot change the set.
- A collection opens only for a plan that keeps the study's terms, and only if the terms name this shuffler's
  own key and mode. The operator may pin the terms, or the key that signs them.
- In mode `trusted` the shuffler decrypts each report to check its range (`Mechanism.message`), and refuses a
  report that no honest client sends. It stores reports encrypted, as they arrived.
- In mode `split` a client sends two shares in one request, and each share by itself is uniformly distributed.
  One is sealed to the shuffler. The other is sealed to the coordinator, and the shuffler relays it unread.
  Neither party alone learns anything about a report. Both together can read it, so they must not collude.
  No range can be checked: one dishonest client can move the sums anywhere. It cannot weaken the privacy of
  other clients.
- In mode `verified` each share comes with a share of a proof that every number is in range. The coordinator
  verifies the reports when the collection is closed, not before: it must not learn when a report arrived.
  The shuffler's verifier shares are a function of the stored reports, so they are not journalled: a request
  that is repeated, even after a crash, gets the same bytes.
- The coordinator receives pseudonyms in sorted order. It learns nothing about the order or the time of
  arrival, or about addresses.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterator
from dataclasses import replace

from dpbandits.errors import Refused
from dpbandits.protocol import Plan, add_up, decode, encode, nothing
from dpbandits.service.shared import Writer
from dpbandits.service.shuffler._collection_request import CheckedRequest, checked_request
from dpbandits.service.shuffler._context import ShufflerContext
from dpbandits.service.shuffler._own_noise import noised
from dpbandits.service.shuffler._page import Page
from dpbandits.service.wire import (
    SHARES_AT_ONCE,
    CollectionReply,
    CollectionRequest,
    Place,
    ProvedReports,
    PublicKey,
    ReportSlot,
    SharesReply,
    SignedTerms,
    VerifiersReply,
    checked_hash,
    hashed,
    set_checksum,
    verification_key,
)
from dpbandits.storage import Attempt, LedgerEntry, PlanRecord, Store, StudyRecord, Transaction
from dpbandits.vdaf import LEADER

log = logging.getLogger("dpbandits.service")

# The name of a collection's state for each state of the stored attempt.
_STATES = {"collecting": "collecting", "closed": "closed", "released": "summed", "failed": "failed"}


class Shuffler:
    """The whole shuffler except the network. Methods that take a transaction run in the writer thread.

    Args:
        context: The configuration.
        store: The shuffler's own store.
    """

    def __init__(self, context: ShufflerContext, store: Store) -> None:
        self.context = context
        self.store = store
        self.writer = Writer(store, hook=context.hook)
        self._plans: dict[int, tuple[str, Plan]] = {}

    def close_store(self) -> None:
        """Finish all submitted jobs and close the store."""
        self.writer.close()
        self.store.close()

    def open(
        self, transaction: Transaction, phase: int, attempt: int, checked: CheckedRequest
    ) -> CollectionReply:
        """Open a collection; repeating the request returns its current state.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
            attempt: The attempt at the phase.
            checked: The checked request, from `checked`.

        Returns:
            The state of the collection.

        Raises:
            Refused: The store has another study, or the collection was opened with another plan or cohort.
        """
        self._same_study(transaction, checked.signed)
        self._same_plan(transaction, checked.plan)
        members = tuple(sorted(checked.members))
        if self._find(transaction, phase, attempt) is not None:
            if transaction.members(phase, attempt) != members:
                raise Refused("changed-request", "this collection was opened for a different cohort")
            return self.look(transaction, phase, attempt)
        entries = [LedgerEntry(client=name, phase=phase, attempt=attempt, pseudonym=name) for name in members]
        transaction.burn(entries)
        transaction.add_attempt(Attempt(phase=phase, number=attempt, state="collecting", joined=len(entries)))
        return self.look(transaction, phase, attempt)

    def checked(self, phase: int, request: CollectionRequest) -> CheckedRequest:
        """Return a request to open a collection, checked by `checked_request`. It does not access the store.

        Args:
            phase: The phase.
            request: The request.
        """
        return checked_request(self.context, phase, request)

    def _same_study(self, transaction: Transaction, signed: SignedTerms) -> None:
        found = transaction.study()
        if found is None:
            transaction.begin_study(StudyRecord(digest=signed.digest, body=encode(signed)))
        elif found.digest != signed.digest:
            raise Refused("other-study", "this store belongs to a study with different terms")

    def _same_plan(self, transaction: Transaction, plan: Plan) -> None:
        found = {record.phase: record.digest for record in transaction.plans()}
        if plan.phase not in found:
            transaction.add_plan(PlanRecord(phase=plan.phase, digest=plan.digest, body=encode(plan)))
        elif found[plan.phase] != plan.digest:
            raise Refused("changed-request", "this phase was opened with a different plan")

    def look(self, transaction: Transaction, phase: int, attempt: int) -> CollectionReply:
        """Return the state of a collection. The number of reports is included only after it has ended.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
            attempt: The attempt at the phase.

        Raises:
            Refused: No such collection was opened.
        """
        found = self._attempt(transaction, phase, attempt)
        kept = transaction.batch(phase, attempt)
        if kept is not None:
            return decode(kept, CollectionReply)
        study, _ = self._plan(transaction, phase)
        state = _STATES[found.state]
        return CollectionReply(study=study, phase=phase, attempt=attempt, state=state, reports=0)

    def close(self, transaction: Transaction, phase: int, attempt: int) -> CollectionReply:
        """Close a collection: it takes no more reports. Repeating this returns the same reply.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
            attempt: The attempt at the phase.

        Returns:
            Everything that is revealed: the sums in mode `trusted`, or that there were too few reports.

        Raises:
            Refused: No such collection was opened.
        """
        found = self._attempt(transaction, phase, attempt, lock=True)
        if found.state != "collecting":
            return self.look(transaction, phase, attempt)
        _, plan = self._plan(transaction, phase)
        if self.context.shared and transaction.count_reports(phase, attempt) >= self._minimum(plan):
            transaction.change_attempt(found, replace(found, state="closed"))
            return self.look(transaction, phase, attempt)
        return self._reveal(transaction, found)

    def shares(self, transaction: Transaction, phase: int, attempt: int, after: str) -> SharesReply:
        """Return one page of the coordinator's sealed shares, in the order of pseudonyms.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
            attempt: The attempt at the phase.
            after: The last pseudonym of the previous page; empty for the first page.

        Returns:
            Up to 1,000 shares; none after the last page.

        Raises:
            Refused: The collection is not closed, or was not opened.
            InvalidValue: `after` is not a pseudonym.
        """
        page = self.page(transaction, phase, attempt, after)
        return SharesReply(study=page.study, shares=[(one.pseudonym, one.relayed) for one in page.reports])

    def page(self, transaction: Transaction, phase: int, attempt: int, after: str) -> Page:
        """Read one page of the reports of a closed collection.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
            attempt: The attempt at the phase.
            after: The last pseudonym of the previous page; empty for the first page.

        Returns:
            The page, for `shares` and `verifiers`.

        Raises:
            Refused: The collection is not closed, or was not opened.
            InvalidValue: `after` is not a pseudonym.
        """
        found = self._attempt(transaction, phase, attempt)
        if found.state == "collecting":
            raise Refused("not-closed", "this collection is not closed")
        if after:
            checked_hash(after=after)
        study, plan = self._plan(transaction, phase)
        record = transaction.study()
        assert record is not None
        coordinator = PublicKey.parse(decode(record.body, SignedTerms).opened().coordinator.key)
        reports = tuple(itertools.islice(transaction.reports(phase, attempt, after), SHARES_AT_ONCE))
        return Page(study=study, plan=plan, attempt=attempt, coordinator=coordinator, reports=reports)

    def verifiers(self, page: Page) -> VerifiersReply:
        """Return the shuffler's verifier shares of one page of reports, in mode `verified`.

        This does not access the store. It verifies up to 1,000 reports, so call it outside the writer thread.
        It is a function of the page: the same page always has the same reply.

        Args:
            page: The page, from `page`.

        Returns:
            The coordinator's sealed parts with the shuffler's verifier shares; none after the last page.

        Raises:
            Refused: The mode is not `verified`.
        """
        if self.context.mode != "verified":
            raise Refused("not-found", "reports are verified in mode verified only")
        place = Place.of(page.study, page.plan, page.attempt, "")
        key = verification_key(self.context.keys, page.coordinator, place)
        slots = [self._slot(page.study, page.plan, page.attempt, one.pseudonym) for one in page.reports]
        stored = zip(page.reports, slots, strict=True)
        parts = [self.context.keys.open(one.sealed, slot.place, slot.purpose) for one, slot in stored]
        answers = ProvedReports.of(page.plan, place).answers(key, parts)
        self.context.hook("verifiers-computed")
        listed = zip(page.reports, answers, strict=True)
        found = [(report.pseudonym, report.relayed, answer) for report, answer in listed]
        return VerifiersReply(study=page.study, verifiers=found)

    def sums(self, transaction: Transaction, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        """Return the sums of the shuffler's shares. The first request decides which reports are left out.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
            attempt: The attempt at the phase.
            without: The pseudonyms of the reports that the coordinator could not read, or that are not valid.

        Returns:
            The sums and the checksum of the set, or `failed` if too few reports are left.

        Raises:
            Refused: The collection is not closed, or was not opened.
        """
        found = self._attempt(transaction, phase, attempt, lock=True)
        if found.state == "collecting":
            raise Refused("not-closed", "this collection is not closed")
        if found.state != "closed":
            return self.look(transaction, phase, attempt)
        return self._reveal(transaction, found, set(without))

    def _minimum(self, plan: Plan) -> int:
        return max(plan.asked_mechanism.minimum_reports, self.context.minimum_reports)

    def _reveal(
        self, transaction: Transaction, attempt: Attempt, without: Collection[str] = ()
    ) -> CollectionReply:
        """Add up the reports, journal the reply and delete the reports, all in this transaction.

        With too few reports the attempt fails, and the reply has no sums. If clients send shares, it has a
        checksum of the set that was summed.
        """
        (study, plan), key = self._plan(transaction, attempt.phase), (attempt.phase, attempt.number)
        shared, summed = self.context.shared, list[tuple[str, bytes]]()

        def opened() -> Iterator[bytes]:
            for report in transaction.reports(*key):
                if report.pseudonym not in without:
                    summed.append((report.pseudonym, report.relayed))
                    slot = self._slot(study, plan, attempt.number, report.pseudonym)
                    yield self.context.keys.open(report.sealed, slot.place, slot.purpose)

        count, least, share = transaction.count_reports(*key), self._minimum(plan), b""
        reports = opened() if count >= least else iter(())
        if self.context.mode == "verified":
            proved = ProvedReports.of(plan, Place.of(study, plan, attempt.number, ""))
            share, added = proved.added(LEADER, reports)
            total = replace(nothing(plan), reports=added)
        else:
            total = add_up(plan, nothing(plan), reports, shares=shared)
        if without and (left_out := count - total.reports):
            extra = {"phase": attempt.phase, "attempt": attempt.number, "count": left_out}
            log.warning("reports-excluded", extra=extra)
        failed, checksum = total.reports < least, set_checksum(summed) if shared else ""
        if plan.asked_mechanism.needs_shares and not failed:
            total, share = noised(self.context, plan, attempt.number, total, share, checksum)
        reply = CollectionReply(
            study=study,
            phase=attempt.phase,
            attempt=attempt.number,
            state="failed" if failed else "summed",
            reports=count if failed else total.reports,
            sums=None if failed or share else total,
            checksum="" if failed else checksum,
            share=b"" if failed else share,
        )
        transaction.keep_batch(*key, encode(reply))
        self.context.hook("sums-journalled")
        transaction.drop_reports(*key)
        transaction.change_attempt(attempt, replace(attempt, state="failed" if failed else "released"))
        return reply

    def known_plan(self, phase: int) -> tuple[str, Plan] | None:
        """Return the study's digest and the plan of a phase from memory, or None; safe in any thread.

        Args:
            phase: The phase.
        """
        return self._plans.get(phase)

    def load_plan(self, transaction: Transaction, phase: int) -> tuple[str, Plan] | None:
        """Return the study's digest and the plan of a phase, from memory or the store, or None.

        Args:
            transaction: The transaction to run in.
            phase: The phase.
        """
        if phase not in self._plans:
            study = transaction.study()
            for record in transaction.plans():
                if study is not None:
                    self._plans.setdefault(record.phase, (study.digest, decode(record.body, Plan)))
        return self._plans.get(phase)

    def slot(self, known: tuple[str, Plan], attempt: int, secret: str) -> ReportSlot:
        """Return the slot for the report of a client, without access to the store.

        Args:
            known: The study's digest and the plan.
            attempt: The attempt at the phase.
            secret: The client's ticket.
        """
        study, plan = known
        return self._slot(study, plan, attempt, hashed(secret))

    def _slot(self, study: str, plan: Plan, attempt: int, pseudonym: str) -> ReportSlot:
        place = Place.of(study, plan, attempt, pseudonym)
        return ReportSlot(plan=plan, place=place, mode=self.context.mode)

    def _plan(self, transaction: Transaction, phase: int) -> tuple[str, Plan]:
        found = self.load_plan(transaction, phase)
        assert found is not None
        return found

    def _find(self, transaction: Transaction, phase: int, attempt: int) -> Attempt | None:
        wanted = (phase, attempt)
        return next((one for one in transaction.attempts() if (one.phase, one.number) == wanted), None)

    def _attempt(self, transaction: Transaction, phase: int, attempt: int, *, lock: bool = False) -> Attempt:
        if lock:  # only the latest collection can be open, so locking the latest attempt is enough
            transaction.latest(lock=True)
        found = self._find(transaction, phase, attempt)
        if found is None:
            raise Refused("no-collection", "this collection was not opened")
        return found
