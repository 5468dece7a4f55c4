"""What the actuator may request of a coordinator: which actions to play, and recording played rounds."""

from __future__ import annotations

from dpbandits.errors import Refused
from dpbandits.protocol import action_at, play_order
from dpbandits.rounds import CLOSED, PAUSED, Rounds, count_rounds, standing_of, stops
from dpbandits.service.coordinator._context import Context
from dpbandits.service.wire import PlayReply, Run, ScheduleReply
from dpbandits.storage import Attempt, Transaction


class Playing:
    """The requests of the actuator."""

    def __init__(self, context: Context, rounds: Rounds) -> None:
        self._context = context
        self._rounds = rounds

    def schedule(self, transaction: Transaction) -> ScheduleReply:
        """Return the runs of the current attempt in the order of play."""
        latest = transaction.latest()
        if latest is None:
            return ScheduleReply(
                study=self._study, state="beginning", phase=0, attempt=0, rounds=0, played=0, runs=[]
            )
        plan = self._rounds.journal.plan(transaction, latest.phase)
        return ScheduleReply(
            study=self._study,
            state=self._state(transaction, latest),
            phase=latest.phase,
            attempt=latest.number,
            rounds=plan.rounds,
            played=latest.played,
            runs=[
                Run(action=one, plays=plays, label=self._context.label(one))
                for one, plays in play_order(plan, attempt=latest.number)
            ],
        )

    def play(self, transaction: Transaction) -> PlayReply:
        """Return the action of the next round."""
        latest, action = transaction.latest(), None
        state = "beginning" if latest is None else self._state(transaction, latest)
        playing = state == "playing"
        if latest is not None and playing:
            plan = self._rounds.journal.plan(transaction, latest.phase)
            action = action_at(plan, latest.played, attempt=latest.number)
        return PlayReply(
            study=self._study,
            state=state,
            phase=0 if latest is None else latest.phase,
            attempt=0 if latest is None else latest.number,
            round=latest.played if latest is not None and playing else 0,
            action=action,
            vector=[] if action is None else self._context.study.actions.matrix[action].tolist(),
            label="" if action is None else self._context.label(action),
        )

    def rounds(self, transaction: Transaction, phase: int, attempt: int, played: int) -> ScheduleReply:
        """Record how many rounds of an attempt were played so far, and return the schedule.

        A number that is not larger than the recorded one changes nothing, so the call is idempotent.

        Raises:
            Refused: `not-playing` or `too-many-rounds`.
        """
        latest = transaction.latest(lock=True)
        if latest is None or (phase, attempt) > (latest.phase, latest.number):
            raise Refused("not-playing", "this attempt has not started")
        stopped = standing_of(transaction) == CLOSED and latest.over
        if (phase, attempt) == (latest.phase, latest.number) and not stopped:
            count_rounds(transaction, self._rounds.journal.plan(transaction, phase), latest, played)
        return self.schedule(transaction)

    def _state(self, transaction: Transaction, latest: Attempt) -> str:
        """Return the state for the actuator: it plays only if the state is `playing`."""
        standing = standing_of(transaction)
        if self._rounds.state.ended or stops(standing, latest):
            return "ended"
        return PAUSED if standing == PAUSED and latest.state == "playing" else latest.state

    @property
    def _study(self) -> str:
        return self._context.name
