"""`record_of`: makes the record of a study from what its store has."""

from __future__ import annotations

import msgspec

from dpbandits import __version__
from dpbandits.options import Options
from dpbandits.protocol import Plan, State, decode, encode
from dpbandits.service.coordinator import Answered, Journalled, StudyHistory, results_reply
from dpbandits.service.reporting._record import Conclusion, Record, RecordedAttempt, RecordedPhase
from dpbandits.service.wire import StatementReply

MOST_NUMBERS = 100_000  # in the matrix of the actions; a larger set is passed to `dpbandits verify` as a file


def record_of(
    history: StudyHistory,
    options: Options | None,
    *,
    written: str = "",
    statement: StatementReply | None = None,
    scrubbed: bool = False,
) -> Record:
    """Return the record of a study.

    Args:
        history: What the store has.
        options: The options of the study; None if its actions have no names.
        written: The date to state, as text.
        statement: The statement of the shuffler, in the shuffle model.
        scrubbed: Whether to leave out the names of options and features, the option in use today, the
            addresses of the parties and the date.

    Returns:
        The record, not signed yet.
    """
    journalled, named = history.journalled, None if scrubbed else options
    state = journalled.state
    matrix = state.study.actions.matrix
    listed = named is None and matrix.size <= MOST_NUMBERS
    made = Record(
        software=__version__,
        written="" if scrubbed else written,
        scrubbed=scrubbed,
        study=encode(state.study).decode(),
        terms=None if scrubbed else history.signed,
        options=named,
        count=state.study.actions.count,
        actions=matrix.tolist() if listed else None,
        phases=_phases(history),
        attempts=_attempts(history),
        standing=history.standing,
        progress=list(state.progress),
        conclusion=conclusion_of(journalled, named),
        statement=statement,
    )
    return decode(
        encode(made), Record
    )  # a number that was given as 5 becomes 5.0, as for readers of the record


def conclusion_of(journalled: Journalled, options: Options | None) -> Conclusion:
    """Return what follows from the releases. `verify` computes the same from the record."""
    answered = Answered.of(journalled, options)
    return msgspec.convert(results_reply(journalled, options, answered), Conclusion, from_attributes=True)


def _attempts(history: StudyHistory) -> list[RecordedAttempt]:
    return [
        RecordedAttempt(
            phase=one.phase,
            number=one.number,
            state=one.state,
            asked=one.joined,
            answered=history.answered[one.phase, one.number],
        )
        for one in history.attempts
    ]


def _phases(history: StudyHistory) -> list[RecordedPhase]:
    state: State = history.journalled.state
    releases = {one.phase: one.body.decode() for one in history.journalled.releases}
    found = list[RecordedPhase]()
    for record in history.journalled.plans:
        ended = record.phase < state.phase
        asks = decode(record.body, Plan).asks
        found.append(
            RecordedPhase(
                plan=record.body.decode(),
                release=releases[record.phase] if ended and asks else None,
                ended=ended,
                sums=history.sums.get(record.phase) if ended else None,
                share=history.shares.get(record.phase, b"") if ended else b"",
            )
        )
    return found


def plain(value: object) -> object:
    """Return a value as lists, dictionaries, texts and numbers, as its JSON is decoded, for comparisons."""
    return msgspec.json.decode(encode(value))
