"""The requests of clients to a coordinator: enrol, join, report. Each client is asked once per study."""

from __future__ import annotations

import msgspec

from dpbandits.errors import Refused
from dpbandits.protocol import Plan, encode
from dpbandits.rounds import CLOSED, RUNNING, Rounds, standing_of, take_places
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._pace import Pace
from dpbandits.service.wire import ClientReply, ReportSlot, TaskReply, TaskState, hashed
from dpbandits.storage import Attempt, LedgerEntry, Transaction

_TASK: dict[str, TaskState] = {
    "gathering": "joined",
    "playing": "joined",
    "opening": "joined",
    "collecting": "report",
}


class Participation:
    """The requests of clients."""

    def __init__(self, context: Context, rounds: Rounds) -> None:
        self._context = context
        self._rounds = rounds
        self.pace = Pace(context.timing)

    def enrol(self, transaction: Transaction, code: str, token: str) -> ClientReply:
        """Enrol a client with a one-time code; `token` is the hash of the token that it chose."""
        transaction.enrol(hashed(code), token, now=self._rounds.now())
        return ClientReply(study=self._context.name)

    def task(self, transaction: Transaction, secret: str, pseudonym: str, have: str = "") -> TaskReply:
        """Return a client's task. The client joins if there is a place; its ledger entry is written first.

        Args:
            transaction: The transaction to run in. The reply may be sent only after its commit.
            secret: The client's token.
            pseudonym: The name under which the client will report.
            have: The digest of the plan that the client already has; the reply then omits the plan.

        Returns:
            The task: wait, joined, report, over or ended.

        Raises:
            Refused: `unknown-credential` if there is no such client, `already-asked` if it takes part under
                another pseudonym.
        """
        found = transaction.standing(hashed(secret))
        if found is None:
            raise Refused("unknown-credential", "no such client")
        client, entry = found
        latest = transaction.latest(lock=entry is None)
        if entry is None and latest is not None:
            entry = self._join(transaction, latest, client, pseudonym)
        if entry is not None and entry.pseudonym != pseudonym:
            raise Refused("already-asked", "this client takes part under another pseudonym")
        if entry is None:
            return self._unasked(transaction, latest)
        return self._standing(transaction, entry, latest, have)

    def _join(
        self, transaction: Transaction, attempt: Attempt, client: str, pseudonym: str
    ) -> LedgerEntry | None:
        plan = self._rounds.journal.plan(transaction, attempt.phase)
        if attempt.state != "gathering" or attempt.joined >= plan.cohort:
            return None
        if standing_of(transaction) != RUNNING:
            return None
        asked = transaction.entry_of(client=client)
        if asked is not None:  # the client joined through another worker while this one waited for the lock
            return asked
        return take_places(transaction, plan, attempt, [(client, pseudonym)])[0]

    def _unasked(self, transaction: Transaction, latest: Attempt | None) -> TaskReply:
        """Return `ended` if no more clients will be asked, else `wait`. A plan that asks nobody is final."""
        if standing_of(transaction) == CLOSED:
            return self._reply("ended")
        if latest is None:
            return self._reply("wait")
        last = not self._rounds.journal.plan(transaction, latest.phase).asks
        return self._reply("ended" if last or self._rounds.state.ended else "wait")

    def _standing(
        self, transaction: Transaction, entry: LedgerEntry, latest: Attempt | None, have: str
    ) -> TaskReply:
        plan = self._rounds.journal.plan(transaction, entry.phase)
        running = latest is not None and (latest.phase, latest.number) == (entry.phase, entry.attempt)
        state: TaskState = _TASK.get(latest.state, "over") if running and latest is not None else "over"
        reported = entry.report is not None
        return self._in_cohort(state, plan, entry.attempt, latest, have=have, reported=reported)

    def _in_cohort(
        self, state: TaskState, plan: Plan, attempt: int, latest: Attempt | None, *, have: str, reported: bool
    ) -> TaskReply:
        known = have == plan.digest or state == "over"
        return msgspec.structs.replace(
            self._reply(state),
            phase=plan.phase,
            attempt=attempt,
            plan_digest=plan.digest,
            plan=None if known else encode(plan).decode(),
            sum_bits=None if plan.mechanism is None else plan.mechanism.sum_bits,
            seconds_left=self._seconds_left(latest) if latest is not None and state == "report" else None,
            reported=None if self._context.shuffled else reported,
        )

    def still_in_cohort(self, latest: Attempt, have: str) -> TaskReply | None:
        """Return the task of a client that has joined the latest attempt and not reported, without the store.

        Args:
            latest: The latest attempt, which the client has joined.
            have: As for `task`.

        Returns:
            The task; None if the store has to be read, because the attempt is over or its plan is not known.
        """
        state, plan = _TASK.get(latest.state), self._rounds.journal.known_plan(latest.phase)
        if state is None or plan is None:
            return None
        return self._in_cohort(state, plan, latest.number, latest, have=have, reported=False)

    def _seconds_left(self, attempt: Attempt) -> float | None:
        """Return the time until the attempt closes; None if the shuffler was not reached at the deadline."""
        remaining = self._rounds.seconds_left(attempt)
        return None if remaining is None else max(0.0, round(remaining, 3))

    def _reply(self, state: TaskState) -> TaskReply:
        return TaskReply(study=self._context.name, state=state, poll_seconds=self.pace.seconds)

    def slot(self, plan: Plan, attempt: int, secret: str) -> ReportSlot:
        """Return the place that a client's report belongs to, without reading the store.

        Raises:
            Refused: `elsewhere` if clients of this study report to its shuffler.
        """
        if self._context.shuffled:
            raise Refused("elsewhere", "reports of this study go to its shuffler")
        return ReportSlot(plan=plan, place=self._context.place(plan, attempt, hashed(secret)))
