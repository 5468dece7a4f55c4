"""`Rounds`: the calls of a carrier on behalf of participants: join, play, report. Each is one transaction.

The docstring of _machine.py lists the states of an attempt and the rules that hold for each call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from dpbandits.errors import PlanMismatch, Refused
from dpbandits.protocol import Plan, Report
from dpbandits.rounds._machine import Machine
from dpbandits.rounds._orders import PAUSED, standing_of
from dpbandits.rounds._participation import check_accepted, count_rounds, take_places
from dpbandits.storage import Attempt, StoredReport, Transaction


class Rounds(Machine):
    """A study on a store, for any carrier of messages.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.rounds import Rounds
        >>> from dpbandits.storage import MemoryStore
        >>> rounds = Rounds(examples.study(), MemoryStore(), noise=examples.noise())
        >>> attempt = rounds.settle()
        >>> attempt.phase, attempt.state, rounds.plan(1).cohort
        (1, 'gathering', 20)
        >>> plan = rounds.join("alice", "bob")
        >>> plan.phase, rounds.current().joined
        (1, 2)
    """

    def join(self, *participants: str) -> Plan:
        """Let participants join the current attempt, all or none. Their entries are durable on return.

        Args:
            participants: Names that are unique in the study, such as those of devices, accounts or shards of
                data.

        Returns:
            The plan. The participants report after it was played.

        Raises:
            Refused: `already-asked` if one of them has taken part before; `no-place` if the study is paused
                or closed, or if the attempt is not gathering or has fewer places left.
        """

        def take(transaction: Transaction) -> Plan:
            latest, plan = self._locked(transaction)
            asked = [name for name in participants if transaction.entry_of(client=name) is not None]
            if asked:
                raise Refused("already-asked", f"{asked[0]!r} has taken part in this study")
            take_places(transaction, plan, latest, [(name, name) for name in participants])
            return plan

        return self.transactions.run("join", take, alone=True)

    def _locked(self, transaction: Transaction) -> tuple[Attempt, Plan]:
        """Return the current attempt, which the transaction locks, and its plan."""
        latest = transaction.latest(lock=True)
        if latest is None:
            raise Refused("no-place", "the study has not started: call advance first")
        return latest, self.journal.plan(transaction, latest.phase)

    def fresh(self, names: Iterator[str], count: int) -> list[str]:
        """Return the next names of an iterator that have not taken part in the study, at most `count`.

        Args:
            names: The iterator. It advances past the last name that is returned.
            count: How many names are wanted.

        Returns:
            The names. There are fewer than `count` if the iterator ends.
        """

        def take(transaction: Transaction) -> list[str]:
            unasked = (name for name in names if transaction.entry_of(client=name) is None)
            return list(islice(unasked, count))

        return self.read(take)

    def unreported(self) -> list[str]:
        """Return the participants of the current attempt that have not reported, sorted."""

        def missing(transaction: Transaction) -> list[str]:
            latest = transaction.latest()
            names = () if latest is None else transaction.members(latest.phase, latest.number)
            entries = {name: transaction.entry_of(client=name) for name in names}
            return [name for name, entry in entries.items() if entry is None or entry.report is None]

        return self.read(missing)

    def record_rounds(self, phase: int, attempt: int, played: int) -> None:
        """Record how many rounds of an attempt were played, counted from its start. The call is idempotent.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
            played: The number of rounds.

        Raises:
            Refused: `too-many-rounds` if the plan has fewer rounds; `not-playing` if the attempt is not the
                current one, or is in another state.
        """

        def count(transaction: Transaction) -> None:
            latest = transaction.latest(lock=True)
            if latest is None or (phase, attempt) != (latest.phase, latest.number):
                raise Refused("not-playing", f"attempt {attempt} at phase {phase} is not the current one")
            count_rounds(transaction, self.journal.plan(transaction, phase), latest, played)

        self.transactions.run("rounds", count, alone=True)

    def accept(self, attempt: Attempt, reports: Iterable[tuple[str, Report]]) -> None:
        """Accept reports, each once. They are durable on return. The call is idempotent.

        Args:
            attempt: The attempt that the participants joined.
            reports: The name and the report of each participant.

        Raises:
            Refused: `already-reported` if another report of a participant was accepted; `closed` if the
                attempt is not collecting; `not-joined` if a participant has no place in the attempt. If one
                report is refused, none is accepted.
            InvalidValue: A report is not one that the plan's mechanism can produce.
            PlanMismatch: A report belongs to another plan.
        """
        plan = self.plan(attempt.phase)
        new = [self._new_report(plan, attempt, name, report) for name, report in reports]

        def take(transaction: Transaction) -> None:
            for outcome in transaction.accept(new):
                check_accepted(outcome)

        self.transactions.run("report", take, alone=True)

    def _new_report(self, plan: Plan, attempt: Attempt, name: str, report: Report) -> StoredReport:
        if report.plan != plan.digest:
            raise PlanMismatch(f"the report of {name!r} belongs to a plan other than {plan.digest[:12]}")
        plan.asked_mechanism.message.unpack([report.payload])
        return StoredReport(
            phase=attempt.phase,
            attempt=attempt.number,
            pseudonym=name,
            digest=hashlib.sha256(report.payload).hexdigest(),
            sealed=report.payload,
        )

    def end_wait(self) -> None:
        """Set the deadline of the current state to now, since nobody else will join or report."""
        latest = self.current()
        if latest is not None and latest.state in ("gathering", "collecting"):
            self.change("end-wait", latest, replace(latest, seconds=0.0))

    def settle(self) -> Attempt | None:
        """Take all steps that are due, and return the current attempt.

        Returns:
            The attempt; None if the study has none yet.
        """
        while self.advance():
            pass
        return self.current()

    def pending(self) -> Attempt | None:
        """Take all steps that are due, and return the attempt that waits for its carrier.

        Returns:
            The attempt, whose state is `gathering`, `playing` or `collecting`. None if nothing is left to do,
            because the study has ended or its operator has closed it.

        Raises:
            Refused: `no-place` if the operator has paused the study.
        """
        latest = self.settle()
        if self.read(standing_of) == PAUSED:
            raise Refused("no-place", "the operator has paused the study")
        return None if latest is None or latest.over else latest
