"""What is inside a sealed report: a fixed number of bytes for a plan, so that its length tells nothing.

    numbers    IEEE 754 binary64, little-endian, one for each supported action
    integers   two's complement int64, little-endian, one for each supported action; never reduced
    bits       row after row, eight to a byte, first bit highest, zeros at the end
    a share    unsigned residues modulo 2^sum_bits as int64, little-endian, one for each supported action

Which of the first three it is, is the plan's mechanism's `message`. A share is one of two whose sum, modulo
2^sum_bits, is the report's sums; each alone is uniform, whatever the report is.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import IntArray
from dpbandits.errors import DpbanditsError, Refused
from dpbandits.protocol import Payload, Plan, Report, Sums, checked_array, checked_payload, one_report
from dpbandits.service.wire._binding import TAG
from dpbandits.service.wire._sealing import OVERHEAD

_LAYOUT = {"numbers": np.dtype("<f8"), "integers": np.dtype("<i8")}


def pack_report(plan: Plan, report: Report) -> bytes:
    """The bytes of an answer."""
    array = checked_payload(plan, report)
    message = plan.required_mechanism.message
    return report.payload.bits if message.kind == "bits" else array.astype(_LAYOUT[message.kind]).tobytes()


def unpack_report(plan: Plan, data: bytes) -> Report:
    """An answer that was checked, or a refusal that says nothing of it."""
    return Report(plan=plan.digest, payload=Payload.pack(check_report(plan, data)))


def check_report(plan: Plan, data: bytes) -> NDArray[Any]:
    """What an answer holds, if it is one that the plan's mechanism can have made."""
    message = plan.required_mechanism.message
    if len(data) != report_size(plan):
        raise Refused("unreadable", "the report has another length than the plan's reports have")
    if message.kind == "bits":
        array = Payload(shape=message.shape, bits=data).unpack()
        if np.packbits(array).tobytes() != data:
            raise Refused("unreadable", "the report has bits after its last")
    else:
        array = np.frombuffer(data, dtype=_LAYOUT[message.kind]).astype(_native(message.kind), copy=False)
    try:
        return checked_array(plan, array)
    except DpbanditsError:
        raise Refused("unreadable", "the report is not one that the plan's mechanism can make") from None


def report_size(plan: Plan) -> int:
    """The length of every report's plaintext."""
    message = plan.required_mechanism.message
    entries = math.prod(message.shape)
    return -(-entries // 8) if message.kind == "bits" else 8 * entries


def share_size(plan: Plan) -> int:
    """The length of every share's plaintext."""
    return 8 * plan.numbers


def body_size(plan: Plan, *, split: bool) -> int:
    """The length of what a client sends."""
    return 2 * (share_size(plan) + OVERHEAD) + TAG if split else report_size(plan) + OVERHEAD


def split_shares(plan: Plan, report: Report) -> tuple[bytes, bytes]:
    """Two shares, each uniform by itself: for the shuffler and for the coordinator."""
    sums = np.array(one_report(plan, report).sums, dtype=np.int64)
    mask = np.int64((1 << plan.required_mechanism.sum_bits) - 1)
    # Uniform modulo 2^64, of which the modulus is a divisor.
    one = np.frombuffer(os.urandom(8 * len(sums)), dtype="<i8").astype(np.int64) & mask
    other = (sums - one) & mask
    return one.astype("<i8").tobytes(), other.astype("<i8").tobytes()


def unpack_share(plan: Plan, data: bytes) -> Sums:
    """A share as the sums of one report. That is all that can be checked of it: it is uniform."""
    if len(data) != share_size(plan):
        raise Refused("unreadable", "the share has another length than the plan's shares have")
    residues: IntArray = np.frombuffer(data, dtype="<i8").astype(np.int64)
    if residues.min() < 0 or int(residues.max()) >= 1 << plan.required_mechanism.sum_bits:
        raise Refused("unreadable", "the share is not a residue modulo the plan's power of two")
    return Sums(plan=plan.digest, sums=tuple(residues.tolist()), reports=1)


def _native(kind: str) -> type[np.float64] | type[np.int64]:
    return np.float64 if kind == "numbers" else np.int64
