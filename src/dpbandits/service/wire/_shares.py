"""Splits a report into two shares, one for the shuffler and one for the coordinator.

A share has one residue modulo 2^`sum_bits` per number, packed by `share_message`. The two shares of a report
add up to the report's sums modulo 2^`sum_bits`. Each share by itself is uniformly distributed and independent
of the report. Example: with `sum_bits` 8 the number 5 may be split into 200 and 61, since 200 + 61 = 256 + 5.
"""

from __future__ import annotations

import os

import numpy as np

from dpbandits.protocol import Plan, add_up, nothing, share_message


def split_shares(plan: Plan, payload: bytes) -> tuple[bytes, bytes]:
    """Split a report into a share for the shuffler and a share for the coordinator.

    Args:
        plan: The plan that the report belongs to.
        payload: The packed report, `Report.payload`.

    Returns:
        The shuffler's share and the coordinator's share, packed.

    Raises:
        InvalidValue: The payload is not a report of this plan.
    """
    message = share_message(plan)
    sums, mask = np.array(add_up(plan, nothing(plan), [payload]).sums), np.int64(message.high)
    # Random 64-bit words are uniform modulo 2^64. 2^sum_bits divides 2^64, so masking keeps them uniform.
    one = np.frombuffer(os.urandom(message.size), dtype="<i8").astype(np.int64) & mask
    return message.pack(one), message.pack((sums - one) & mask)
