"""What a coordinator shows its operator: enrolment codes, status, progress and results."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dpbandits.privacy import guarantee
from dpbandits.protocol import Progress, Release, decode, plausible
from dpbandits.rounds import Rounds
from dpbandits.service.coordinator._context import Context
from dpbandits.service.wire import (
    EnrolmentReply,
    GuaranteeReply,
    PhaseResult,
    ProgressReply,
    ResultsReply,
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

    def about(self) -> StudyReply:
        """Return the public description of the study."""
        study, signed = self._context.study, self._context.signed
        assert signed is not None
        return StudyReply(
            study=self._context.name,
            terms=signed.terms,
            signature=signed.signature,
            features=self._context.terms.features,
            conformance=self._context.terms.conformance,
            actions=study.actions.count,
            dimension=study.actions.dimension,
            horizon=study.horizon,
        )

    def new_codes(self, count: int) -> EnrolmentReply:
        """Create one-time codes; `keep_codes` makes them valid."""
        codes = [new_secret() for _ in range(count)]
        return EnrolmentReply(study=self._context.name, codes=codes)

    def keep_codes(self, transaction: Transaction, codes: Sequence[str]) -> None:
        """Store the hashes of the codes, which makes the codes valid."""
        transaction.add_codes([hashed(code) for code in codes])

    def status(self, transaction: Transaction) -> StatusReply:
        """Return the state of the study from the journal alone, without waiting for the learner."""
        attempts, learnt = transaction.attempts(), transaction.progress()
        last = decode(learnt[-1].body, Progress) if learnt else None
        known = 0 if last is None else last.rounds_played
        latest = attempts[-1] if attempts else None
        plan = None if latest is None else self._rounds.journal.plan(transaction, latest.phase)
        failed = [attempt for attempt in attempts if attempt.state == "failed"]
        return StatusReply(
            study=self._context.name,
            state=self._state_of(latest, known),
            phase=0 if latest is None else latest.phase,
            attempt=0 if latest is None else latest.number,
            failed_attempts=len(failed),
            cohort=0 if plan is None else plan.cohort,
            joined=0 if latest is None else latest.joined,
            rounds_played=known + _unlearnt(latest, len(learnt)),
            rounds_repeated=sum(attempt.played for attempt in failed),
            actions_left=self._context.study.actions.count if last is None else last.actions_left,
            releases=len(transaction.releases()),
        )

    def _state_of(self, latest: Attempt | None, rounds_played: int) -> str:
        if rounds_played >= self._context.study.horizon:
            return "ended"
        return "beginning" if latest is None else latest.state

    def progress(self, transaction: Transaction) -> ProgressReply:
        """Return one progress record per phase."""
        records = [decode(record.body, Progress) for record in transaction.progress()]
        return ProgressReply(study=self._context.name, phases=records)

    def results(self, transaction: Transaction) -> ResultsReply:
        """Return the results with the privacy guarantee that holds.

        A release is listed only after the learner has processed it, so that it matches the listed actions and
        the estimate.
        """
        state = self._rounds.state
        plans = {record.phase: record for record in transaction.plans()}
        used = [self._rounds.journal.plan(transaction, phase).mechanism for phase in plans]
        found = guarantee(self._context.study.privacy, [one for one in used if one is not None])
        return ResultsReply(
            study=self._context.name,
            ended=state.ended,
            active=state.active_actions.tolist(),
            estimate=list(state.estimate or ()),
            guarantee=msgspec.convert(found, GuaranteeReply | None, from_attributes=True),
            phases=[
                PhaseResult(
                    phase=release.phase,
                    attempt=release.attempt,
                    plausible=plausible(
                        self._rounds.journal.plan(transaction, release.phase), decode(release.body, Release)
                    ),
                    plan=msgspec.Raw(plans[release.phase].body),
                    release=msgspec.Raw(release.body),
                )
                for release in transaction.releases()
                if release.phase < state.phase
            ],
        )


def _unlearnt(latest: Attempt | None, learnt: int) -> int:
    """Return the rounds of a phase in progress, or of one that has ended but is not yet learnt."""
    if latest is None or latest.state == "failed" or latest.phase <= learnt:
        return 0
    return latest.played
