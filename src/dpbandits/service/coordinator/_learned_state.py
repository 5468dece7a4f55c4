"""The learner's state and the plans, remembered between transactions and rebuilt from the journal.

On the first use everything is replayed: each journalled plan must be the one that the study asks now, or
`PlanMismatch` says so. After that each new release is told to the state once.
"""

from __future__ import annotations

from dpbandits.errors import PlanMismatch
from dpbandits.protocol import Plan, Release, State, Study, ask, decode, replay, tell
from dpbandits.storage import Transaction


class Course:
    """What has happened in a study so far. One thread at a time may ask for the state."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._plans: dict[int, Plan] = {}
        self._state: State | None = None
        self._told = 0

    def known_plan(self, phase: int) -> Plan | None:
        """A plan that was read before; needs no store and may be called by any thread."""
        return self._plans.get(phase)

    def plan(self, transaction: Transaction, phase: int) -> Plan:
        """The journalled plan of a phase."""
        if phase not in self._plans:
            for record in transaction.plans():
                self._plans.setdefault(record.phase, decode(record.body, Plan))
        return self._plans[phase]

    def state(self, transaction: Transaction) -> State:
        """After all releases, and after the last phase's play if it asks nobody."""
        releases = [decode(record.body, Release) for record in transaction.releases()]
        if self._state is None:
            self._state, self._told = replay(self._study, releases), len(releases)
            self._check_running(transaction, self._state)
        for release in releases[self._told :]:
            self._state = tell(self._state, self.plan(transaction, self._state.phase), release)
            self._told += 1
        latest = transaction.latest()
        if latest is not None and latest.state == "done" and latest.phase == self._state.phase:
            self._state = tell(self._state, self.plan(transaction, latest.phase), None)
        return self._state

    def _check_running(self, transaction: Transaction, state: State) -> None:
        """The plan of the running phase, which has no release yet, must be the one that is asked now too."""
        plans = transaction.plans()
        if plans and plans[-1].phase == state.phase and plans[-1].digest != ask(state).digest:
            raise PlanMismatch(
                f"phase {state.phase} is under way with plan {plans[-1].digest[:12]}, which this study does "
                "not ask; were actions, settings or the version changed?"
            )
