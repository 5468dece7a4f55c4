"""The shuffler's statement: a signed list of its collections, with everything that it revealed about each.

It has no more than the coordinator received: no pseudonym, no address and no time.
"""

from __future__ import annotations

from dpbandits.errors import Refused
from dpbandits.protocol import encode
from dpbandits.service.shuffler._shuffler import Shuffler
from dpbandits.service.wire import (
    STATEMENT,
    CollectionReply,
    CollectionStatement,
    ShufflerStatement,
    Signed,
    SigningKey,
    StatementReply,
)
from dpbandits.storage import Attempt, Transaction


def statement(shuffler: Shuffler, transaction: Transaction) -> StatementReply:
    """Return the signed statement.

    Args:
        shuffler: The shuffler.
        transaction: A transaction of its store, which is only read.

    Raises:
        Refused: No collection was opened yet.
    """
    study = transaction.study()
    if study is None:
        raise Refused("no-collection", "this shuffler has opened no collection")
    plans = {record.phase: record.digest for record in transaction.plans()}
    stated = ShufflerStatement(
        study=study.digest,
        mode=shuffler.context.mode,
        minimum_reports=shuffler.context.minimum_reports,
        collections=[
            _collection(shuffler, transaction, attempt, plans[attempt.phase])
            for attempt in transaction.attempts()
        ],
    )
    text = encode(stated).decode()
    return StatementReply(text=text, signed=Signed.by(SigningKey.of(shuffler.context.keys), STATEMENT, text))


def _collection(
    shuffler: Shuffler, transaction: Transaction, attempt: Attempt, plan: str
) -> CollectionStatement:
    told: CollectionReply = shuffler.look(transaction, attempt.phase, attempt.number)
    return CollectionStatement(
        phase=attempt.phase,
        attempt=attempt.number,
        plan=plan,
        members=attempt.joined,
        state=told.state,
        reports=told.reports,
        sums=() if told.sums is None else told.sums.sums,
        share=told.share,
        checksum=told.checksum,
    )
