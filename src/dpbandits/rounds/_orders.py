"""Orders of the operator: pause, resume and close. They are journalled, so they hold after a restart too.

    running   The study continues.
    paused    No client joins, nothing is played or released, and no phase is planned. Clients that have
              joined may still report, since they take part only once. Deadlines are not extended.
    closed    Final. An attempt that gathers or plays ends without a release. An attempt that collects reports
              ends as usual, with or without a release. After that, nothing is asked or played.

Every step reads the orders first. A process that cannot read the orders takes no step.
"""

from __future__ import annotations

from dpbandits._checks import one_of
from dpbandits.errors import Refused
from dpbandits.storage import ORDERS, OrderRecord, Transaction

RUNNING, PAUSED, CLOSED = "running", "paused", "closed"
_AFTER = {"pause": PAUSED, "resume": RUNNING, "close": CLOSED}


def standing_of(transaction: Transaction) -> str:
    """Return the standing of the study, which the last order of the operator determines.

    Args:
        transaction: The transaction that reads the orders.

    Returns:
        `RUNNING`, `PAUSED` or `CLOSED`.
    """
    orders = transaction.orders()
    return _AFTER[orders[-1].order] if orders else RUNNING


def give_order(transaction: Transaction, order: str, since: float) -> str:
    """Journal an order of the operator. An order that does not change the standing is not journalled.

    Args:
        transaction: The transaction. The order is in force once it has been committed.
        order: `pause`, `resume` or `close`.
        since: The time, in seconds since 1970.

    Returns:
        The new standing, as `standing_of` returns it.

    Raises:
        Refused: `closed-study` if the study was closed, which is final.
        InvalidValue: There is no such order.
    """
    one_of(ORDERS, order=order)
    standing, after = standing_of(transaction), _AFTER[order]
    if standing == after:
        return standing
    if standing == CLOSED:
        raise Refused("closed-study", "the operator has closed this study, which is final")
    transaction.add_order(OrderRecord(number=len(transaction.orders()) + 1, order=order, since=since))
    return after
