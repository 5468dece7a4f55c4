"""The shuffler as a state machine over a store of its own: no network, no clock.

A collection, one for each attempt at a phase of the shuffle model, goes through these states:

    collecting   opened by the coordinator with the plan and the cohort's pseudonyms; clients report.
                 → failed   closed with fewer reports than the plan's noise was calibrated to, or than this
                            shuffler's own minimum: all are deleted, nothing is revealed
                 → summed   closed, `trusted`: sums journalled and reports deleted in one transaction
                 → closed   closed, `split`: no more reports; the coordinator fetches its sealed shares
    closed       → summed   the coordinator says which of its shares it could not read; the sums over the
                            others are journalled and all shares deleted in one transaction
                 → failed   if too few are left

- Every request may be repeated and then gets the same answer. So the sums of a collection are revealed once,
  over one set, whatever is asked for afterwards.
- A collection opens only for a plan that keeps the study's terms, and terms that name this party's own key
  and mode. The operator may pin the terms, or the key that signs them.
- `trusted`: this party opens each report to check its range (`Mechanism.message`), and refuses a report that
  no honest client sends. It keeps reports sealed as they came.
- `split`: a client sends two shares in one request, each uniform by itself: one sealed to this party, one to
  the coordinator, which this party passes on unread. Neither alone learns anything of a report. The two
  parties together would, so they must not collude. No range can be checked: one client that lies can move
  the sums anywhere. It cannot touch the privacy of others.
- The coordinator learns pseudonyms in their own order, and nothing of arrival, time or address.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dpbandits._checks import one_of, whole
from dpbandits.errors import Refused
from dpbandits.protocol import Plan, Sums, add_up, decode, encode, nothing
from dpbandits.rounds import Hook
from dpbandits.service.shared import Writer
from dpbandits.service.wire import (
    MODES,
    SHARES_AT_ONCE,
    CollectionReply,
    CollectionRequest,
    KeyPair,
    Pins,
    Place,
    ReportSlot,
    SharesReply,
    SignedTerms,
    checked_hash,
    hashed,
    set_checksum,
)
from dpbandits.storage import Attempt, LedgerEntry, PlanRecord, Store, StudyRecord, Transaction

# What a stored attempt's state is called here.
_STATES = {"collecting": "collecting", "closed": "closed", "released": "summed", "failed": "failed"}


@dataclass(frozen=True, kw_only=True)
class ShufflerContext:
    """A shuffler's key and its mode; it never closes a collection with fewer than `minimum_reports`.

    `pins` are the terms, or the key that signs them, that the shuffler's operator agreed to; by default any
    terms that name this shuffler's key and mode are accepted.
    """

    keys: KeyPair
    mode: str = "trusted"
    minimum_reports: int = 1
    pins: Pins = field(default_factory=Pins)
    hook: Hook = field(default=lambda _step: None)

    def __post_init__(self) -> None:
        one_of(MODES, mode=self.mode)
        whole(1, minimum_reports=self.minimum_reports)

    @property
    def split(self) -> bool:
        """Whether clients send shares."""
        return self.mode == "split"


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A request to open a collection that was checked: its plan is within its terms."""

    plan: Plan
    signed: SignedTerms
    members: tuple[str, ...]


class Shuffler:
    """All of a shuffler but the network. Methods that take a transaction run in the writer's thread."""

    def __init__(self, context: ShufflerContext, store: Store) -> None:
        self.context = context
        self.store = store
        self.writer = Writer(store, hook=context.hook)
        self._plans: dict[int, tuple[str, Plan]] = {}

    def close_store(self) -> None:
        """Finish what is under way and let go of the store."""
        self.writer.close()
        self.store.close()

    def open(self, transaction: Transaction, phase: int, attempt: int, opening: Opening) -> CollectionReply:
        """Begin to collect; the same request again is answered the same."""
        self._same_study(transaction, opening.signed)
        self._same_plan(transaction, opening.plan)
        found = self._find(transaction, phase, attempt)
        if found is not None:
            if transaction.members(phase, attempt) != tuple(sorted(opening.members)):
                raise Refused("changed-request", "this collection was opened for others")
            return self.look(transaction, phase, attempt)
        self._begin(transaction, phase, attempt, opening.members)
        return CollectionReply(
            study=opening.signed.digest, phase=phase, attempt=attempt, state="collecting", reports=0
        )

    def _begin(self, transaction: Transaction, phase: int, attempt: int, members: tuple[str, ...]) -> None:
        entries = [LedgerEntry(client=name, phase=phase, attempt=attempt, pseudonym=name) for name in members]
        transaction.burn(entries)
        begun = Attempt(phase=phase, number=attempt, state="collecting", joined=len(entries))
        transaction.add_attempt(begun)

    def checked(self, phase: int, request: CollectionRequest) -> Opening:
        """What a request asks for, or a refusal. Touches no store, and may take as long as an account
        does."""
        signed = SignedTerms(terms=request.terms, signature=request.signature)
        terms = signed.opened()
        self.context.pins.check(terms, signed)
        own = (str(self.context.keys.public), self.context.mode)
        if (
            signed.digest != request.study
            or terms.shuffler is None
            or (terms.shuffler.key, terms.mode) != own
        ):
            raise Refused("other-terms", "the terms do not name this shuffler, its key and its mode")
        try:
            plan = decode(bytes(request.plan), Plan)
        except Exception:  # a plan that was made up may lead to any error
            raise Refused("unreadable", "the plan is not one of this version") from None
        terms.check(plan, signed.digest)
        members = tuple(request.members)
        if plan.phase != phase or not 1 <= len(set(members)) == len(members) <= plan.cohort:
            raise Refused("unreadable", "the plan is another phase's, or the members are not a cohort of it")
        return Opening(plan=plan, signed=signed, members=members)

    def _same_study(self, transaction: Transaction, signed: SignedTerms) -> None:
        found = transaction.study()
        if found is None:
            transaction.begin_study(StudyRecord(digest=signed.digest, body=encode(signed)))
        elif found.digest != signed.digest:
            raise Refused("other-study", "this store has another study, key or mode")

    def _same_plan(self, transaction: Transaction, plan: Plan) -> None:
        found = {record.phase: record.digest for record in transaction.plans()}
        if plan.phase not in found:
            transaction.add_plan(PlanRecord(phase=plan.phase, digest=plan.digest, body=encode(plan)))
        elif found[plan.phase] != plan.digest:
            raise Refused("changed-request", "this phase was opened with another plan")

    def look(self, transaction: Transaction, phase: int, attempt: int) -> CollectionReply:
        """What state a collection is in; how many reported is told once it is closed."""
        found = self._attempt(transaction, phase, attempt)
        kept = transaction.batch(phase, attempt)
        if kept is not None:
            return decode(kept, CollectionReply)
        study, _ = self._plan(transaction, phase)
        return CollectionReply(
            study=study, phase=phase, attempt=attempt, state=_STATES[found.state], reports=0
        )

    def close(self, transaction: Transaction, phase: int, attempt: int) -> CollectionReply:
        """Take no more reports. All that is revealed is in the reply; the same for every repetition."""
        found = self._attempt(transaction, phase, attempt, lock=True)
        if found.state != "collecting":
            return self.look(transaction, phase, attempt)
        _, plan = self._plan(transaction, phase)
        if transaction.count_reports(phase, attempt) < self._minimum(plan):
            return self._end(transaction, found, None)
        if self.context.split:
            transaction.change_attempt(found, replace(found, state="closed"))
            return self.look(transaction, phase, attempt)
        return self._end(transaction, found, *self._total(transaction, found, set()))

    def shares(self, transaction: Transaction, phase: int, attempt: int, after: str) -> SharesReply:
        """The coordinator's shares, still sealed, in the order of pseudonyms."""
        found = self._attempt(transaction, phase, attempt)
        if found.state == "collecting":
            raise Refused("not-closed", "this collection is not closed")
        if after:
            checked_hash(after=after)
        study, _ = self._plan(transaction, phase)
        page = itertools.islice(transaction.reports(phase, attempt, after), SHARES_AT_ONCE)
        return SharesReply(study=study, shares=[(report.pseudonym, report.relayed) for report in page])

    def sums(self, transaction: Transaction, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        """The sums over all but these; what is asked for first decides."""
        found = self._attempt(transaction, phase, attempt, lock=True)
        if found.state == "collecting":
            raise Refused("not-closed", "this collection is not closed")
        if found.state != "closed":
            return self.look(transaction, phase, attempt)
        total, checksum = self._total(transaction, found, set(without))
        _, plan = self._plan(transaction, phase)
        enough = total.reports >= self._minimum(plan)
        return self._end(transaction, found, total if enough else None, checksum)

    def _minimum(self, plan: Plan) -> int:
        return max(plan.asked_mechanism.minimum_reports, self.context.minimum_reports)

    def _total(self, transaction: Transaction, attempt: Attempt, without: set[str]) -> tuple[Sums, str]:
        """The sums, and in split mode the checksum of the set that was summed."""
        study, plan = self._plan(transaction, attempt.phase)
        split, summed = self.context.split, list[tuple[str, bytes]]()

        def opened() -> Iterator[bytes]:
            for report in transaction.reports(attempt.phase, attempt.number):
                if report.pseudonym not in without:
                    if split:
                        summed.append((report.pseudonym, report.relayed))
                    slot = self._slot(study, plan, attempt.number, report.pseudonym)
                    yield self.context.keys.open(report.sealed, slot.place, slot.purpose)

        total = add_up(plan, nothing(plan), opened(), shares=split)
        return total, set_checksum(summed) if split else ""

    def _end(
        self, transaction: Transaction, attempt: Attempt, total: Sums | None, checksum: str = ""
    ) -> CollectionReply:
        """Journal what is revealed and delete the reports, in this one transaction."""
        study, _ = self._plan(transaction, attempt.phase)
        count = transaction.count_reports(attempt.phase, attempt.number)
        reply = CollectionReply(
            study=study,
            phase=attempt.phase,
            attempt=attempt.number,
            state="failed" if total is None else "summed",
            reports=count if total is None else total.reports,
            sums=[] if total is None else list(total.sums),
            checksum="" if total is None else checksum,
        )
        transaction.keep_batch(attempt.phase, attempt.number, encode(reply))
        self.context.hook("sums-journalled")
        transaction.drop_reports(attempt.phase, attempt.number)
        state = "failed" if total is None else "released"
        transaction.change_attempt(attempt, replace(attempt, state=state))
        return reply

    def known_plan(self, phase: int) -> tuple[str, Plan] | None:
        """The study and the plan of a phase that was seen before; any thread may ask."""
        return self._plans.get(phase)

    def load_plan(self, transaction: Transaction, phase: int) -> tuple[str, Plan] | None:
        """The same from the store."""
        if phase not in self._plans:
            study = transaction.study()
            for record in transaction.plans():
                if study is not None:
                    self._plans.setdefault(record.phase, (study.digest, decode(record.body, Plan)))
        return self._plans.get(phase)

    def slot(self, known: tuple[str, Plan], attempt: int, secret: str) -> ReportSlot:
        """Where the report of a ticket's holder belongs. Touches no store."""
        study, plan = known
        return self._slot(study, plan, attempt, hashed(secret))

    def _slot(self, study: str, plan: Plan, attempt: int, pseudonym: str) -> ReportSlot:
        place = Place(study=study, phase=plan.phase, attempt=attempt, plan=plan.digest, pseudonym=pseudonym)
        return ReportSlot(plan=plan, place=place, split=self.context.split)

    def _plan(self, transaction: Transaction, phase: int) -> tuple[str, Plan]:
        found = self.load_plan(transaction, phase)
        assert found is not None
        return found

    def _find(self, transaction: Transaction, phase: int, attempt: int) -> Attempt | None:
        wanted = (phase, attempt)
        return next((one for one in transaction.attempts() if (one.phase, one.number) == wanted), None)

    def _attempt(self, transaction: Transaction, phase: int, attempt: int, *, lock: bool = False) -> Attempt:
        if lock:  # one collection runs at a time, the last: whoever closes it holds it
            transaction.latest(lock=True)
        found = self._find(transaction, phase, attempt)
        if found is None:
            raise Refused("no-collection", "no such collection was opened")
        return found
