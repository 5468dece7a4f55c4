"""The journal of a study: its plans, its releases, and what the learner knows after each release.

Learning is a separate step: after a release is committed, `tell` runs outside any transaction, and then one
`Progress` record is committed. So readers of the journal never wait for the learner.

When a store is opened, the whole journal is replayed. Each journalled plan must equal the plan that the study
computes now; otherwise `PlanMismatch` is raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpbandits.errors import PlanMismatch, Refused
from dpbandits.protocol import Plan, Progress, Release, State, Study, ask, decode, encode, tell
from dpbandits.rounds._transactions import Transactions
from dpbandits.storage import Attempt, PlanRecord, ProgressRecord, ReleaseRecord, Transaction


class Journal:
    """Plans and the learner's state. One thread at a time may `learn`; any thread may read `state`."""

    def __init__(self, study: Study, transactions: Transactions) -> None:
        self.state: State = study.begin()
        self._transactions = transactions
        self._plans: dict[int, Plan] = {}

    def known_plan(self, phase: int) -> Plan | None:
        """Return a plan that was read before, or None, without using the store. Any thread may call this."""
        return self._plans.get(phase)

    def plan(self, transaction: Transaction, phase: int) -> Plan:
        """Return the journalled plan of a phase."""
        if phase not in self._plans:
            for record in transaction.plans():
                self._plans.setdefault(record.phase, decode(record.body, Plan))
        return self._plans[phase]

    def learn(self, *, check: bool = False) -> None:
        """Pass every new release to the learner, and journal one progress record per phase.

        Args:
            check: Whether to check that each plan equals the one that the study computes, as on a restart.

        Raises:
            PlanMismatch: A journalled plan differs from the one that this study computes.
        """

        def read(transaction: Transaction) -> tuple[dict[int, bytes | None], list[PlanRecord], set[int]]:
            waiting = [record for record in transaction.plans() if record.phase >= self.state.phase]
            for record in waiting:
                self.plan(transaction, record.phase)
            bodies = _finished(transaction.releases(), transaction.latest())
            return bodies, waiting, {record.phase for record in transaction.progress()}

        bodies, waiting, kept = self._transactions.run("read", read)
        for record in waiting:
            if check:
                _check(self.state, record)
            if record.phase not in bodies:
                break
            body = bodies[record.phase]
            release = None if body is None else decode(body, Release)
            state = tell(self.state, self._plans[record.phase], release)
            if record.phase not in kept:
                self._keep(state.progress[-1])
            self.state = state

    def _keep(self, progress: Progress) -> None:
        record = ProgressRecord(phase=progress.phase, body=encode(progress))
        try:
            self._transactions.run("learn", lambda transaction: transaction.add_progress(record), alone=True)
        except Refused as refusal:  # another worker was faster
            if refusal.reason != "already-kept":
                raise


@dataclass(frozen=True, kw_only=True)
class JournalRecords:
    """The records of a journal from which `replay` rebuilds the learner's state.

    Attributes:
        plans: All plans, ordered by phase.
        releases: All releases, ordered by phase.
        finished: The JSON of the release of each phase that has ended; None for a phase that asked nobody.
    """

    plans: tuple[PlanRecord, ...]
    releases: tuple[ReleaseRecord, ...]
    finished: dict[int, bytes | None]

    @staticmethod
    def read(transaction: Transaction) -> JournalRecords:
        """Read the records. This takes little time, so that a reader does not delay the owner of the store.

        Args:
            transaction: A transaction of the store.

        Returns:
            The records.
        """
        plans, releases = transaction.plans(), transaction.releases()
        finished = _finished(releases, transaction.latest())
        return JournalRecords(plans=plans, releases=releases, finished=finished)

    def replay(self, study: Study) -> State:
        """Return the learner's state after all phases that have ended.

        Args:
            study: The study, with the digest of its terms if the store has terms.

        Returns:
            The state.

        Raises:
            PlanMismatch: A journalled plan differs from the one that this study computes.
        """
        state = study.begin()
        for record in self.plans:
            _check(state, record)
            if record.phase not in self.finished:
                break
            body = self.finished[record.phase]
            release = None if body is None else decode(body, Release)
            state = tell(state, decode(record.body, Plan), release)
        return state


def _finished(releases: Iterable[ReleaseRecord], latest: Attempt | None) -> dict[int, bytes | None]:
    """Return the JSON of the release of each phase that has ended; None for a phase that asked nobody."""
    finished: dict[int, bytes | None] = {one.phase: one.body for one in releases}
    if latest is not None and latest.state == "done":  # this phase asked nobody
        finished[latest.phase] = None
    return finished


def _check(state: State, record: PlanRecord) -> None:
    if ask(state).digest != record.digest:
        raise PlanMismatch(
            f"phase {record.phase} has plan {record.digest[:12]} in the journal, but this study computes "
            "another one; were actions, settings or the version changed?"
        )
