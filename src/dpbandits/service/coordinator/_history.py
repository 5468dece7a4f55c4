"""`StudyHistory`: what a store keeps of a study as a whole, read at once, without data of single clients."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.options import Options
from dpbandits.protocol import Study, Sums, decode
from dpbandits.rounds import JournalRecords, standing_of
from dpbandits.service.coordinator._context import Beginning
from dpbandits.service.coordinator._results import Journalled, stored_study
from dpbandits.service.coordinator._revealed import OwnSums
from dpbandits.service.coordinator._verifying import OwnShare
from dpbandits.service.wire import SignedTerms
from dpbandits.storage import Attempt, Store, Transaction


@dataclass(frozen=True, kw_only=True)
class StudyHistory:
    """The course of a study up to now.

    Attributes:
        journalled: The learner's state, plans and releases.
        signed: The terms.
        attempts: All attempts, ordered by phase and number.
        answered: The number of reports of each attempt, by phase and number; None if a shuffler collects the
            reports and the attempt was not released.
        standing: Whether the operator paused or closed the study: `running`, `paused` or `closed`.
        sums: The sums of each released phase that the coordinator journalled: in mode `trusted` those that
            the shuffler revealed, in mode `split` those of the coordinator's own shares; empty otherwise.
        shares: In mode `verified`, the coordinator's share of the sums of each released phase; empty
            otherwise.
    """

    journalled: Journalled
    signed: SignedTerms
    attempts: tuple[Attempt, ...]
    answered: dict[tuple[int, int], int | None]
    sums: dict[int, Sums]
    shares: dict[int, bytes]
    standing: str


def read_history(study: Study, options: Options | None, store: Store) -> StudyHistory:
    """Read the course of a study from its store, without writing.

    Args:
        study: The study of the configuration, without terms.
        options: The options of the configuration.
        store: The store; it is only read.

    Returns:
        The course of the study.

    Raises:
        InvalidValue: The store is empty or belongs to another study.
        PlanMismatch: A journalled plan differs from the one that this study computes.
    """
    with store.transaction() as transaction:
        kept = Beginning.read(transaction)
        terms, records = kept.signed.opened(), JournalRecords.read(transaction)
        attempts, standing = transaction.attempts(), standing_of(transaction)
        shuffled = terms.shuffler is not None
        answered = {
            (one.phase, one.number): None if shuffled else transaction.count_reports(one.phase, one.number)
            for one in attempts
        }
        released = [(one.phase, one.attempt) for one in records.releases] if shuffled else []
        kept_sums = {phase: _kept(transaction, phase, attempt, terms.mode) for phase, attempt in released}
    state = records.replay(stored_study(study, options, kept))
    journalled = Journalled(state=state, plans=records.plans, releases=records.releases)
    for phase, attempt in released:
        answered[phase, attempt] = kept_sums[phase].reports
    return StudyHistory(
        journalled=journalled,
        signed=kept.signed,
        attempts=attempts,
        answered=answered,
        sums={phase: one for phase, one in kept_sums.items() if isinstance(one, Sums)},
        shares={phase: one.share for phase, one in kept_sums.items() if isinstance(one, OwnShare)},
        standing=standing,
    )


def _kept(transaction: Transaction, phase: int, attempt: int, mode: str) -> Sums | OwnShare:
    body = transaction.batch(phase, attempt)
    assert body is not None  # it is journalled before the release
    if mode == "verified":
        return decode(body, OwnShare)
    return decode(body, OwnSums).sums if mode == "split" else decode(body, Sums)
