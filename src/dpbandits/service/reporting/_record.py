"""`Record`: the machine-readable record of a study, from which anybody can replay the study.

A record has no data of a single client. The noise of the mechanisms makes the releases, and the sums of the
shuffle model, private. Everything else is computed from them, or is a count.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dpbandits.answers import Answer
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.protocol import Progress, Sums, decode, encode
from dpbandits.service.wire import GuaranteeReply, SignedTerms, StatementReply

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
}  # these characters occur only inside strings of JSON


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RecordedPhase(_Strict, frozen=True, kw_only=True):
    """One phase.

    Attributes:
        plan: The JSON of the plan, as it was journalled.
        release: The JSON of the release; None if the plan asks nobody or the phase has not ended.
        ended: Whether the phase has ended.
        sums: In the shuffle model, the sums that the coordinator computed the release from: those that the
            shuffler revealed or, in mode `split`, those of the coordinator's own shares.
        share: In mode `verified`, the coordinator's share of the sums: elements of the field of the proofs.
    """

    plan: str
    release: str | None
    ended: bool
    sums: Sums | None = None
    share: bytes = b""


class RecordedAttempt(_Strict, frozen=True, kw_only=True):
    """One attempt at a phase.

    Attributes:
        phase: The phase.
        number: The number of the attempt at this phase, counted from 1.
        state: The state of the attempt, such as `released` or `failed`.
        asked: How many clients were asked.
        answered: How many of them answered; None if only the shuffler knows.
    """

    phase: int
    number: int
    state: str
    asked: int
    answered: int | None


class Conclusion(_Strict, frozen=True, kw_only=True):
    """What follows from the releases; the fields are those of `/v1/results`."""

    ended: bool
    learning_over: bool
    answer: Answer | None
    guarantee: GuaranteeReply | None
    needed: str
    needed_participants: int | None
    assumes: str


class Record(_Strict, frozen=True, kw_only=True):
    """The record of a study.

    Attributes:
        version: The version of this format.
        software: The version of dpbandits that wrote the record.
        written: The date; empty in a scrubbed record.
        scrubbed: Whether names, addresses and the date were left out.
        study: The JSON of the study. It has the digest of its actions.
        terms: The terms with their signature; None in a scrubbed record.
        options: The options with their names; None if the actions have no names, or in a scrubbed record.
        count: How many options there are.
        actions: The rows of the action set; None if `options` has them, or if there are too many.
        phases: The phases that were planned, in order.
        attempts: All attempts, ordered by phase and number.
        standing: What the operator ordered last: `running`, `paused` or `closed`.
        progress: What the learner knew after each phase.
        conclusion: What follows from the releases.
        statement: The signed statement of the shuffler; None without a shuffler.
    """

    version: Literal["dpbandits report v1"] = "dpbandits report v1"
    software: str
    written: Annotated[str, msgspec.Meta(max_length=40)]
    scrubbed: bool
    study: str
    terms: SignedTerms | None
    options: Options | None
    count: int
    actions: list[list[float]] | None
    phases: list[RecordedPhase]
    attempts: list[RecordedAttempt]
    standing: str
    progress: list[Progress]
    conclusion: Conclusion
    statement: StatementReply | None


def record_text(record: Record) -> str:
    """Return the JSON of a record. Characters with a meaning in HTML (<, > and &) are escaped as in JSON.

    Args:
        record: The record.

    Returns:
        A text that can be part of an HTML page without further escapes.
    """
    text = encode(record).decode()
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def parse_record(text: str) -> Record:
    """Return the record with this JSON.

    Args:
        text: The JSON.

    Raises:
        InvalidValue: The text is not exactly what `record_text` writes for a record of this version.
    """
    try:
        record = decode(text, Record)
    except (TypeError, ValueError) as error:  # dataclasses raise these for values of a wrong type
        raise InvalidValue("record", "unreadable JSON", f"a record of this version ({error})") from None
    if record_text(record) != text:
        raise InvalidValue("record", "another form", "the JSON that `dpbandits report` writes")
    return record
