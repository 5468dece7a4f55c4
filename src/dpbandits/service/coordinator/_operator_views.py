"""What a coordinator shows its operator: enrolment codes, status, progress and results."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from dpbandits.answers import RewardRange, confirmed_of, fit_check_of
from dpbandits.options import Options, name_of
from dpbandits.protocol import Plan, Progress, Release, State, decode
from dpbandits.rounds import CLOSED, PAUSED, Rounds, give_order, standing_of
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._results import LEVEL, Answered, Journalled, results_reply
from dpbandits.service.coordinator._revealed import left_out
from dpbandits.service.coordinator._waiting import Waiting
from dpbandits.service.wire import (
    EnrolmentReply,
    ProgressReply,
    ResultsReply,
    RewardRangeReply,
    StatusReply,
    StudyReply,
    hashed,
    new_secret,
)
from dpbandits.storage import Attempt, Transaction


class OperatorViews:
    """The operator's requests, and the public description of the study."""

    def __init__(self, context: Context, rounds: Rounds) -> None:
        self._context = context
        self._rounds = rounds
        self._answering = threading.Lock()
        self._answered: tuple[State, Answered] | None = None
        self._concluded: tuple[State, dict[str, str]] | None = None

    def about(self) -> StudyReply:
        """Return the public description of the study."""
        study, signed = self._context.study, self._context.signed
        assert signed is not None
        rewards = None
        if study.reward_range is not None:
            low, high = study.reward_range
            rewards = RewardRangeReply(low=float(low), high=float(high), bound=float(study.bound))
        return StudyReply(
            study=self._context.name,
            terms=signed.terms,
            signature=signed.signature,
            features=[*self._context.terms.features, *([] if rewards is None else ["reward-range"])],
            rewards=rewards,
            conformance=self._context.terms.conformance,
            actions=study.actions.count,
            dimension=study.actions.dimension,
            horizon=study.horizon,
        )

    def new_codes(self, count: int) -> EnrolmentReply:
        """Create one-time codes; `keep_codes` makes them valid."""
        codes = [new_secret() for _ in range(count)]
        return EnrolmentReply(study=self._context.name, codes=codes)

    def keep_codes(
        self, transaction: Transaction, codes: Sequence[str], valid_seconds: float | None = None
    ) -> None:
        """Store the hashes of the codes, which makes the codes valid, for a while or always."""
        expires = None if valid_seconds is None else self._rounds.now() + valid_seconds
        transaction.add_codes([hashed(code) for code in codes], expires=expires)

    def status(self, transaction: Transaction) -> StatusReply:
        """Return the state of the study from the journal alone, without waiting for the learner."""
        attempts, learnt = transaction.attempts(), transaction.progress()
        last = decode(learnt[-1].body, Progress) if learnt else None
        known = 0 if last is None else last.rounds_played
        latest = attempts[-1] if attempts else None
        plan = None if latest is None else self._rounds.journal.plan(transaction, latest.phase)
        failed = [attempt for attempt in attempts if attempt.state == "failed"]
        standing = standing_of(transaction)
        return StatusReply(
            study=self._context.name,
            state=self._state_of(latest, known, standing),
            standing=standing,
            phase=0 if latest is None else latest.phase,
            attempt=0 if latest is None else latest.number,
            failed_attempts=len(failed),
            cohort=0 if plan is None else plan.cohort,
            joined=0 if latest is None else latest.joined,
            rounds_played=known + _unlearnt(latest, len(learnt)),
            rounds_repeated=sum(attempt.played for attempt in failed),
            actions_left=self._context.study.actions.count if last is None else last.actions_left,
            releases=len(transaction.releases()),
            excluded=left_out(transaction, attempts) if self._context.shuffled else 0,
            **self._waiting(transaction, latest, plan, known),
        )

    def order(self, transaction: Transaction, order: str) -> StatusReply:
        """Journal an order of the operator, `pause`, `resume` or `close`, and return the state.

        Raises:
            Refused: `closed-study` if the study was closed.
        """
        give_order(transaction, order, self._rounds.now())
        return self.status(transaction)

    def _waiting(
        self, transaction: Transaction, latest: Attempt | None, plan: Plan | None, played: int
    ) -> dict[str, Any]:
        if latest is None or plan is None:
            return {"waiting": "the first phase is being planned"}
        waiting = Waiting(
            attempt=latest,
            plan=plan,
            minimum=self._rounds.minimum(plan) if plan.asks else 0,
            reports=self._reports(transaction, latest, plan),
            shuffled=self._context.shuffled,
            ended=played >= self._context.study.horizon,
            played=[name_of(self._context.options, action) for action in plan.support],
            left=self._rounds.seconds_left(latest),
        )
        words = ordered(standing_of(transaction), latest) or waiting.words()
        return {
            "minimum": waiting.minimum,
            "reports": waiting.reports,
            "deadline": None if latest.seconds is None else latest.since + latest.seconds,
            "seconds_left": None if waiting.left is None else max(0.0, waiting.left),
            "waiting": words,
        }

    def _reports(self, transaction: Transaction, latest: Attempt, plan: Plan) -> int | None:
        """Return how many reports the attempt has; None while only the shuffler knows."""
        if not plan.asks or latest.state in ("gathering", "playing", "opening"):
            return 0
        if not self._context.shuffled:
            return transaction.count_reports(latest.phase, latest.number)
        if latest.state != "released":
            return None
        bodies = [one.body for one in transaction.releases() if one.phase == latest.phase]
        return decode(bodies[0], Release).reports

    def _state_of(self, latest: Attempt | None, rounds_played: int, standing: str) -> str:
        stopped = standing == CLOSED and (latest is None or latest.over)
        if stopped or rounds_played >= self._context.study.horizon:
            return "ended"
        return "beginning" if latest is None else latest.state

    def progress(self, transaction: Transaction) -> ProgressReply:
        """Return one progress record per phase."""
        records = [decode(record.body, Progress) for record in transaction.progress()]
        return ProgressReply(study=self._context.name, phases=records)

    def journalled(self, transaction: Transaction) -> Journalled:
        """Read what the results are computed from."""
        return Journalled.read(transaction, self._rounds.state)

    def results_of(self, journalled: Journalled) -> ResultsReply:
        """Return the results with the answer and the privacy guarantee that holds.

        It may take a second with many options, so it must not run in the writer's thread. The answer of the
        same state is computed once.

        Args:
            journalled: What `journalled` returned.
        """
        with self._answering:
            if self._answered is None or self._answered[0] is not journalled.state:
                self._answered = (journalled.state, Answered.of(journalled, self._context.options))
            answered = self._answered[1]
        return results_reply(journalled, self._context.options, answered)

    def concluded(self) -> dict[str, str]:
        """Return, in words, what the fit test and the confirmation found.

        The first call after each of them may take some tenths of a second, so it must not run in the writer's
        thread.

        Returns:
            The fields `fit` and `confirmation` of a status, without those that would be empty.
        """
        state = self._rounds.state
        if state.fit_test_evidence is None and state.confirmation_evidence is None:
            return {}
        with self._answering:
            if self._concluded is None or self._concluded[0] is not state:
                self._concluded = (state, _words(state, self._context.options))
            return self._concluded[1]

    def results(self, transaction: Transaction) -> ResultsReply:
        """Return the results, computed in this thread."""
        return self.results_of(self.journalled(transaction))


def _words(state: State, options: Options | None) -> dict[str, str]:
    rewards = RewardRange.of(state.study.reward_range, bound=state.study.bound)
    fit = fit_check_of(state, rewards=rewards)
    confirmed = confirmed_of(state, options, level=LEVEL, rewards=rewards)
    found = {"fit": fit, "confirmation": confirmed}
    return {name: str(one) for name, one in found.items() if one is not None}


def ordered(standing: str, latest: Attempt) -> str:
    """Return what an order of the operator means for the current attempt; empty while the study runs."""
    if standing == PAUSED:
        return "the operator has paused the study: no client joins, and nothing is played or released"
    if standing == CLOSED and not latest.over:
        return f"the operator has closed the study; it ends after phase {latest.phase}"
    return "the operator has closed the study" if standing == CLOSED else ""


def _unlearnt(latest: Attempt | None, learnt: int) -> int:
    """Return the rounds of a phase in progress, or of one that has ended but is not yet learnt."""
    if latest is None or latest.state == "failed" or latest.phase <= learnt:
        return 0
    return latest.played
