"""The coordinator's part with its operator: how far the study is and what was learnt."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dpbandits.privacy import Guarantee, guarantee
from dpbandits.protocol import Release, decode, plausible
from dpbandits.service.coordinator._context import Context
from dpbandits.service.wire import (
    EnrolmentReply,
    GuaranteeReply,
    PhaseResult,
    ResultsReply,
    StatusReply,
    StudyReply,
    hashed,
    new_secret,
)
from dpbandits.storage import Transaction


class Reporting:
    """What an operator may do, and what everybody may know."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def about(self) -> StudyReply:
        """What everybody may know."""
        study, signed = self._context.study, self._context.signed
        assert signed is not None
        return StudyReply(
            study=self._context.name,
            terms=signed.terms,
            signature=signed.signature,
            actions=study.actions.count,
            dimension=study.actions.dimension,
            horizon=study.horizon,
        )

    def new_codes(self, count: int) -> EnrolmentReply:
        """One-time codes; `keep_codes` makes them valid."""
        codes = [new_secret() for _ in range(count)]
        return EnrolmentReply(study=self._context.name, codes=codes)

    def keep_codes(self, transaction: Transaction, codes: Sequence[str]) -> None:
        """Keep the hashes."""
        transaction.add_codes([hashed(code) for code in codes])

    def status(self, transaction: Transaction) -> StatusReply:
        """How far the study is."""
        state = self._context.course.state(transaction)
        attempts = transaction.attempts()
        latest = attempts[-1] if attempts else None
        plan = None if latest is None else self._context.course.plan(transaction, latest.phase)
        running = latest is not None and not latest.over
        failed = [attempt for attempt in attempts if attempt.state == "failed"]
        return StatusReply(
            study=self._context.name,
            state="ended" if state.ended else "beginning" if latest is None else latest.state,
            phase=0 if latest is None else latest.phase,
            attempt=0 if latest is None else latest.number,
            failed_attempts=len(failed),
            cohort=0 if plan is None else plan.cohort,
            joined=0 if latest is None else latest.joined,
            rounds_played=state.rounds_played + (latest.played if running and latest is not None else 0),
            rounds_repeated=sum(attempt.played for attempt in failed),
            actions_left=len(state.active_actions),
            releases=len(transaction.releases()),
        )

    def results(self, transaction: Transaction) -> ResultsReply:
        """All that was learnt, with the guarantee that holds."""
        state = self._context.course.state(transaction)
        plans = {record.phase: record for record in transaction.plans()}
        used = [self._context.course.plan(transaction, phase).mechanism for phase in plans]
        return ResultsReply(
            study=self._context.name,
            ended=state.ended,
            active=state.active_actions.tolist(),
            estimate=list(state.estimate or ()),
            guarantee=_stated(
                guarantee(self._context.study.privacy, [one for one in used if one is not None])
            ),
            phases=[
                PhaseResult(
                    phase=release.phase,
                    attempt=release.attempt,
                    plausible=plausible(
                        self._context.course.plan(transaction, release.phase), decode(release.body, Release)
                    ),
                    plan=msgspec.Raw(plans[release.phase].body),
                    release=msgspec.Raw(release.body),
                )
                for release in transaction.releases()
            ],
        )


def _stated(found: Guarantee | None) -> GuaranteeReply | None:
    if found is None:
        return None
    return GuaranteeReply(
        trust=found.trust,
        epsilon=found.epsilon,
        delta=found.delta,
        neighbouring=found.neighbouring,
        accountant=found.accountant,
        needs=found.needs,
    )
