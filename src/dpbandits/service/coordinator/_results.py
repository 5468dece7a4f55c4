"""The results of a study: the reply of `/v1/results`, computed from the journal.

The coordinator and `dpbandits results`, which reads the store itself, call the same functions. So both give
the same results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from dpbandits._checks import probability
from dpbandits.answers import Answer, answer_of, participants_to_decide
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import guarantee
from dpbandits.protocol import Plan, Release, State, Study, ask, decode, plausible
from dpbandits.rounds import JournalRecords
from dpbandits.service.coordinator._context import Beginning, check_options
from dpbandits.service.wire import GuaranteeReply, PhaseResult, ResultsReply
from dpbandits.storage import PlanRecord, ReleaseRecord, Store, Transaction

LEVEL = 0.95
LISTED = 1000  # the largest number of options in the results
_NOT_YET = "the first release: no phase has been released yet"


@dataclass(frozen=True, kw_only=True)
class Journalled:
    """The learner's state, and the records of its phases.

    Attributes:
        state: The state. A release that it has not processed yet is left out of the results.
        plans: All plans.
        releases: All releases.
    """

    state: State
    plans: tuple[PlanRecord, ...]
    releases: tuple[ReleaseRecord, ...]

    @staticmethod
    def read(transaction: Transaction, state: State) -> Journalled:
        """Read the records in one transaction.

        Args:
            transaction: A transaction of the store.
            state: The state of the learner.

        Returns:
            The state and the records.
        """
        return Journalled(state=state, plans=transaction.plans(), releases=transaction.releases())


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The answer of a state, and what is needed to decide more.

    Attributes:
        answer: The answer; None before the first release.
        learning_over: Whether no more clients are asked.
        needed: What is needed to decide more, in words.
        participants: The number of clients in `needed`; None if it has none.
    """

    answer: Answer | None
    learning_over: bool
    needed: str
    participants: int | None

    @staticmethod
    def of(journalled: Journalled, options: Options | None, *, level: float = LEVEL) -> Answered:
        """Compute the answer.

        Args:
            journalled: The state and the records.
            options: The options of the study; None if its actions have no names.
            level: The probability with which each kind of interval covers the truth.

        Returns:
            The answer, and what is still needed to decide.
        """
        state = journalled.state
        over = _learning_over(journalled)
        if not state.history:
            return Answered(answer=None, learning_over=over, needed=_NOT_YET, participants=None)
        answer = answer_of(state, options, level=level, only_left=LISTED)
        participants = None if answer.decided else participants_to_decide(state, answer)
        needed = _needed(answer, participants, over=over)
        return Answered(answer=answer, learning_over=over, needed=needed, participants=participants)


def _learning_over(journalled: Journalled) -> bool:
    state = journalled.state
    if state.ended:
        return True
    known = [one for one in journalled.plans if one.phase == state.phase]
    return not (decode(known[0].body, Plan) if known else ask(state)).asks


def _needed(answer: Answer, participants: int | None, *, over: bool) -> str:
    if answer.decided:
        return f"nothing: {answer.option} is better than every other option left, at level {answer.level:g}"
    if answer.intervals:
        return f"intervals, which cannot be computed here: {answer.intervals}"
    assert answer.lead is not None
    tie = f"the interval of the lead over {answer.lead.over} contains 0"
    more = "more participants" if over else "the phases that are still planned, or more participants"
    if participants is None:
        return f"{tie}; {more}, a larger epsilon, or fewer features"
    return (
        f"{tie}; {more}: a further study of the options left would need about {participants:,} if the "
        "estimated lead is right"
    )


def results_reply(journalled: Journalled, options: Options | None, answered: Answered) -> ResultsReply:
    """Return the reply of `/v1/results`.

    A release is listed only after the learner has processed it, so that it matches the listed actions.

    Args:
        journalled: The state and the records.
        options: The options of the study.
        answered: The answer of the same state.
    """
    state, study = journalled.state, journalled.state.study
    plans = {record.phase: (record, decode(record.body, Plan)) for record in journalled.plans}
    used = [plan.mechanism for _, plan in plans.values() if plan.mechanism is not None]
    found = guarantee(study.privacy, used)

    def listed(release: ReleaseRecord) -> PhaseResult:
        record, plan = plans[release.phase]
        return PhaseResult(
            phase=release.phase,
            attempt=release.attempt,
            plausible=plausible(plan, decode(release.body, Release)),
            plan=msgspec.Raw(record.body),
            release=msgspec.Raw(release.body),
            labels=[] if options is None else [options.labels[action] for action in plan.support],
        )

    return ResultsReply(
        study=study.name,
        ended=state.ended,
        active=state.active_actions.tolist(),
        estimate=list(state.estimate or ()),
        guarantee=msgspec.convert(found, GuaranteeReply | None, from_attributes=True),
        phases=[listed(release) for release in journalled.releases if release.phase < state.phase],
        answer=answered.answer,
        learning_over=answered.learning_over,
        needed=answered.needed,
        needed_participants=answered.participants,
        assumes=_assumptions(study),
    )


def _assumptions(study: Study) -> str:
    single = ", and so do single rewards" if study.bounded_rewards else ""
    ends = study.reward_range or (-study.bound, study.bound)
    return (
        f"mean rewards are linear in the features and lie in [{ends[0]:g}, {ends[1]:g}]{single}; clients are "
        f"drawn independently, and their own parameters have a spread of at most {study.heterogeneity:g} in "
        "every direction; the noise of single rewards is independent and 1-sub-Gaussian"
    )


def stored_results(
    study: Study, options: Options | None, store: Store, *, level: float = LEVEL
) -> ResultsReply:
    """Return the results from a store, without a running coordinator and without writing.

    Args:
        study: The study of the configuration, without terms. If its schedule was planned at the first start,
            the planned schedule is taken from the store.
        options: The options of the configuration.
        store: The store; it is only read.
        level: The probability with which each kind of interval covers the truth.

    Returns:
        The results, as the coordinator sends them.

    Raises:
        InvalidValue: The store is empty or belongs to another study, or the level is not a probability.
        PlanMismatch: A journalled plan differs from the one that this study computes.
    """
    probability(level=level)
    with store.transaction() as transaction:
        kept, records = Beginning.read(transaction), JournalRecords.read(transaction)
    state = records.replay(stored_study(study, options, kept))
    journalled = Journalled(state=state, plans=records.plans, releases=records.releases)
    answered = Answered.of(journalled, options, level=level)
    return results_reply(journalled, options, answered)


def stored_study(study: Study, options: Options | None, kept: Beginning) -> Study:
    """Return a configured study with the schedule and the terms that its store has.

    Raises:
        InvalidValue: The store belongs to another study, or has other options.
    """
    check_options(study, kept.options)
    check_options(study, options)
    if kept.spending is not None:
        chosen = kept.spending
        study = replace(study, schedule=chosen.schedule, design_tolerance=chosen.design_tolerance)
    agreed = kept.signed.opened()
    if agreed.study != study.digest:
        expected = f"{study.digest[:12]}, as configured: a store serves one study"
        raise InvalidValue("storage", f"the store of study {agreed.study[:12]}", expected)
    return replace(study, terms=kept.signed.digest)
