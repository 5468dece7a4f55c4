"""The proof system by which a client proves that its report is valid, without revealing the report."""

from __future__ import annotations

import math

from dpbandits.errors import ProtocolError
from dpbandits.privacy import Message
from dpbandits.vdaf import Prio3, sum_vec_in_ball, sum_vec_with_multiproof


def proof_system(message: Message, context: bytes) -> Prio3:
    """Return the proof system for the reports of a mechanism.

    A measurement is the vector that a report adds to the sums (`report_totals`), minus the smallest possible
    number. It is valid if each number is in its range and, for clipping to a ball, the vector is not too
    long. `message` checks the same conditions.

    Args:
        message: The format of the reports, `Mechanism.message`.
        context: Identifies the purpose of the reports. A report made for one context is rejected in another.

    Returns:
        The instance of Prio3.

    Raises:
        ProtocolError: Reports are in floating point, so nothing about them can be proved.
        InvalidValue: The numbers are too large for the proof system.
    """
    if message.kind == "numbers":
        raise ProtocolError("reports are in floating point: no range can be proved")
    numbers, entries = message.shape[0], math.prod(message.shape[1:])  # all bits of one number are added up
    low, high = int(message.low) * entries, int(message.high) * entries
    centre, square = message.twice_centre - 2 * low, message.largest_square
    farthest = numbers * max(centre, 2 * (high - low) - centre) ** 2
    if square is None or farthest <= square:  # there is no ball, or the whole range lies in it
        return sum_vec_with_multiproof(numbers=numbers, largest=high - low, context=context)
    return sum_vec_in_ball(
        numbers=numbers, largest=high - low, twice_centre=centre, largest_square=square, context=context
    )
