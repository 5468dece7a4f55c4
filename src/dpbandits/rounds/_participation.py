"""Checks for joining, playing and reporting: once per participant, and only in the right state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpbandits.errors import Refused
from dpbandits.protocol import Plan
from dpbandits.rounds._orders import RUNNING, standing_of
from dpbandits.storage import CLOSED, DIFFERENT, UNKNOWN, Attempt, LedgerEntry, Transaction


def take_places(
    transaction: Transaction,
    plan: Plan,
    attempt: Attempt,
    participants: Sequence[tuple[str, str]],
    places: int | None = None,
) -> list[LedgerEntry]:
    """Use up the single participation of each participant, and give each a place in the cohort.

    Args:
        transaction: The transaction. Participants may receive the plan only after it has been committed.
        plan: The plan of the attempt's phase.
        attempt: The latest attempt, locked.
        participants: For each participant, its name in the ledger and the pseudonym under which it reports.
        places: How many places they take together; None for one each.

    Returns:
        Their ledger entries.

    Raises:
        Refused: `no-place` if the study is paused or closed, or if the attempt is not gathering or has fewer
            places left; `already-asked` if a participant has taken part in any attempt of this study.
    """
    if standing_of(transaction) != RUNNING:
        raise Refused("no-place", "the operator has paused or closed the study")
    taken = len(participants) if places is None else places
    if attempt.state != "gathering" or attempt.joined + taken > plan.cohort:
        raise Refused("no-place", f"phase {attempt.phase} has no place left in attempt {attempt.number}")
    entries = [
        LedgerEntry(client=name, phase=attempt.phase, attempt=attempt.number, pseudonym=pseudonym)
        for name, pseudonym in participants
    ]
    transaction.burn(entries)
    transaction.change_attempt(attempt, replace(attempt, joined=attempt.joined + taken))
    return entries


def count_rounds(transaction: Transaction, plan: Plan, attempt: Attempt, played: int) -> None:
    """Record how many rounds of the attempt were played, counted from its start.

    A number that is not larger than the recorded one changes nothing, so the call is idempotent.

    Args:
        transaction: The transaction.
        plan: The plan of the attempt's phase.
        attempt: The latest attempt, locked.
        played: The number of rounds.

    Raises:
        Refused: `too-many-rounds` if the plan has fewer rounds; `not-playing` if the attempt is in another
            state.
    """
    if played > plan.rounds:
        raise Refused("too-many-rounds", "this attempt has fewer rounds")
    if played <= attempt.played:
        return
    if attempt.state != "playing":
        raise Refused("not-playing", "this attempt is not being played")
    transaction.change_attempt(attempt, replace(attempt, played=played))


def check_accepted(outcome: str) -> None:
    """Raise an error unless a report was accepted, now or before.

    Args:
        outcome: The outcome of `Transaction.accept` for the report.

    Raises:
        Refused: `already-reported`, `closed` or `not-joined`.
    """
    refusals = {
        DIFFERENT: ("already-reported", "another report of this client was accepted"),
        CLOSED: ("closed", "this attempt takes no reports now"),
        UNKNOWN: ("not-joined", "this client has no place in this attempt"),
    }
    if outcome in refusals:
        raise Refused(*refusals[outcome])
