"""`report_page`: records a study, signs the record, makes the page, and verifies it."""

from __future__ import annotations

from dpbandits.errors import ProtocolError
from dpbandits.options import Options
from dpbandits.service.coordinator import StudyHistory
from dpbandits.service.reporting._page import page_of
from dpbandits.service.reporting._record import parse_record, record_text
from dpbandits.service.reporting._recording import record_of
from dpbandits.service.reporting._verifying import Keys, verify
from dpbandits.service.wire import RECORD, KeyPair, Signed, SigningKey, StatementReply


def report_page(
    history: StudyHistory,
    options: Options | None,
    keys: KeyPair,
    *,
    written: str = "",
    statement: StatementReply | None = None,
    scrubbed: bool = False,
) -> str:
    """Return the page of a report, signed by the coordinator.

    Args:
        history: What the store has.
        options: The options of the study; None if its actions have no names.
        keys: The coordinator's key pair; the signing key is derived from it.
        written: The date to state, as text.
        statement: The statement of the shuffler, in the shuffle model.
        scrubbed: Whether to leave out names, addresses and the date.

    Returns:
        The HTML of the report.

    Raises:
        ProtocolError: The report does not pass verification, for example because the shuffler's statement
            does not match.
    """
    record = record_of(history, options, written=written, statement=statement, scrubbed=scrubbed)
    text, key = record_text(record), SigningKey.of(keys)
    signed = Signed.by(key, RECORD, text)
    page = page_of(text, parse_record(text), signed)
    actions = history.journalled.state.study.actions
    verdict = verify(page.encode(), keys=Keys(coordinator=key.public), actions=actions)
    if not verdict.accepted:
        failed = [check for check in verdict.checks if not check.passed]
        raise ProtocolError(
            f"the report cannot be verified, key {signed.key[:12]}: {failed[0].claim}: {failed[0].why}"
        )
    return page
