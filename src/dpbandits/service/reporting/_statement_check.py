"""Compares a record with the shuffler's statement: its counts, and the releases that follow from its sums."""

from __future__ import annotations

import msgspec

from dpbandits.privacy import SecureNoise
from dpbandits.protocol import Plan, Release, Study, Sums, analyze, combine, decode
from dpbandits.service.reporting._record import Record, RecordedAttempt, RecordedPhase
from dpbandits.service.reporting._verdict import Mismatch, require
from dpbandits.service.wire import (
    STATEMENT,
    CollectionStatement,
    Place,
    ProvedReports,
    ShufflerStatement,
    VerifyKey,
)

_OPENED = ("collecting", "released", "failed")


def check_statement(record: Record, study: Study, plans: list[Plan], key: VerifyKey | None) -> None:
    """Check the statement of the shuffler against the record.

    Args:
        record: The record.
        study: Its study.
        plans: Its plans, which a replay has already confirmed.
        key: The shuffler's key, if the reader knows it.

    Raises:
        Mismatch: There is no statement, another key signed it, or it contradicts the record.
    """
    told = record.statement
    if told is None:
        raise Mismatch("the record has no statement of the shuffler")
    require(told.signed.fits(STATEMENT, told.text), "the shuffler's signature does not fit its statement")
    require(key is None or str(key) == told.signed.key, f"another key signed it, {told.signed.key}")
    try:
        stated = msgspec.json.decode(told.text, type=ShufflerStatement)
    except msgspec.DecodeError as error:
        raise Mismatch(f"the statement cannot be read ({error})") from None
    require(stated.study == study.name, "the statement is about another study")
    if record.terms is not None:
        require(
            stated.mode == record.terms.opened().mode, "the shuffler ran in another mode than the terms say"
        )
    collections = {(one.phase, one.attempt): one for one in stated.collections}
    require(len(collections) == len(stated.collections), "the statement lists a collection twice")
    attempts = {(one.phase, one.number): one for one in record.attempts}
    for place in collections:
        require(place in attempts, f"phase {place[0]}, attempt {place[1]} is missing in the record")
    for place, attempt in attempts.items():
        plan = plans[attempt.phase - 1]
        if place in collections:
            _check_collection(record, plan, attempt, collections[place], stated)
        else:
            opened = plan.asks and attempt.state in _OPENED
            require(not opened, f"phase {place[0]}, attempt {place[1]} is missing in the statement")


def _check_collection(
    record: Record, plan: Plan, attempt: RecordedAttempt, told: CollectionStatement, stated: ShufflerStatement
) -> None:
    where = f"phase {attempt.phase}, attempt {attempt.number}"
    require(told.plan == plan.digest, f"{where}: the shuffler saw another plan")
    require(told.members == attempt.asked, f"{where}: the shuffler counts {told.members:,} members")
    if attempt.state == "failed":
        require(told.state in ("failed", "summed"), f"{where}: the shuffler says {told.state}")
    if attempt.state != "released":
        return
    require(told.state == "summed", f"{where}: the shuffler says {told.state}, the record {attempt.state}")
    require(told.reports == attempt.answered, f"{where}: the shuffler counts {told.reports:,} reports")
    require(told.reports >= stated.minimum_reports, f"{where}: fewer reports than the shuffler's minimum")
    phase = record.phases[attempt.phase - 1]
    if phase.release is None:  # the learner has not processed it yet
        return
    released = decode(phase.release, Release)
    # In the shuffle model the coordinator adds no noise to the total: the means follow from the sums.
    means = analyze(plan, _total(plan, phase, told, stated.mode), SecureNoise()).means
    require(means == released.means, f"{where}: other sums were released")


def _total(plan: Plan, phase: RecordedPhase, told: CollectionStatement, mode: str) -> Sums:
    """Return the sums over all reports, from what each party recorded."""
    if mode == "verified":
        place = Place.of(plan.study, plan, told.attempt, "")
        return ProvedReports.of(plan, place).sums([told.share, phase.share], told.reports)
    theirs = Sums(plan=plan.digest, sums=told.sums, reports=told.reports)
    if phase.sums is None:
        raise Mismatch(f"phase {plan.phase} has no sums of the coordinator")
    if mode == "split":
        return combine(plan, phase.sums, theirs)
    require(phase.sums == theirs, f"phase {plan.phase}: the shuffler revealed other sums")
    return theirs
