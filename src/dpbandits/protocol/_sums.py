"""Reports added up: the sum of each coordinate, which is all that A needs of whole numbers and bits.

A party that adds reports up and forgets them can stand for S: with the same noise, `analyze` makes the same
release of `Sums` as of the batch that `shuffle` returns.

Sums are kept modulo 2^`sum_bits` of the mechanism, which is wide enough for a whole cohort. So a report may
also be split into shares that are uniform modulo this number, and another party keeps the sums of each share.
A share is packed as a report is, by `share_message`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from dpbandits._arrays import IntArray
from dpbandits._checks import whole
from dpbandits.errors import PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import Mechanism, Message
from dpbandits.protocol._messages import Plan

_AT_ONCE = 2**22  # entries that are unpacked together, to spare memory


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The sum of each coordinate over `reports` reports, modulo 2^`sum_bits` of the plan's mechanism."""

    plan: str
    sums: tuple[int, ...]
    reports: int

    def __post_init__(self) -> None:
        whole(0, reports=self.reports)
        if self.sums:
            whole(0, (1 << 63) - 1, sums=min(self.sums))
            whole(0, (1 << 63) - 1, sums=max(self.sums))


def nothing(plan: Plan) -> Sums:
    """The sums of no report."""
    return Sums(plan=plan.digest, sums=(0,) * plan.numbers, reports=0)


def share_message(plan: Plan) -> Message:
    """The message of one share: a residue modulo 2^`sum_bits` per number. Any residue may be a share."""
    high = (1 << _summable(plan).sum_bits) - 1
    return Message(kind="integers", shape=(plan.numbers,), low=0, high=high)


def add_up(plan: Plan, sums: Sums, packed: Iterable[bytes], *, shares: bool = False) -> Sums:
    """Add reports, or one party's shares of reports, to sums.

    Args:
        plan: The plan that all of them belong to.
        sums: What was added up so far; `nothing(plan)` to begin with.
        packed: The bytes of each report (`Report.payload`), or of each share. They are read once, in blocks.
        shares: Whether these are shares.

    Returns:
        The sums with these reports added.

    Raises:
        InvalidValue: One of them is not a report, or not a share, of this plan.
        ProtocolError: Reports are in floating point.
    """
    mechanism = _summable(plan)
    message = share_message(plan) if shares else mechanism.message
    totals, count, remaining = np.array(sums.sums, dtype=np.int64), sums.reports, iter(packed)
    while block := list(islice(remaining, max(1, _AT_ONCE // message.entries))):
        rows = message.unpack(block)
        # Two's complement wraps modulo 2^64, of which the modulus is a divisor.
        totals += rows.reshape(len(block), plan.numbers, -1).sum(axis=(0, 2), dtype=np.int64)
        count += len(block)
    return replace(sums, sums=_reduced(mechanism, totals), reports=count)


def combine(plan: Plan, one: Sums, other: Sums) -> Sums:
    """Add two parties' sums of shares, which are of the same reports."""
    if one.plan != plan.digest or other.plan != plan.digest:
        raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
    if one.reports != other.reports or not len(one.sums) == len(other.sums) == plan.numbers:
        raise ProtocolError(f"sums: got {one.reports:,} and {other.reports:,} reports, expected equal sets")
    totals = np.array(one.sums, dtype=np.int64) + np.array(other.sums, dtype=np.int64)
    return replace(one, sums=_reduced(_summable(plan), totals))


def signed_totals(plan: Plan, sums: Sums) -> IntArray:
    """The sums of a whole cohort as A takes them: a sum that may be negative is the residue nearest to zero.

    Raises:
        PlanMismatch: The sums are of another plan.
        TooFewReports: Fewer reports than the noise was calibrated for were added up.
        ProtocolError: More reports than the cohort has, or another number of sums.
    """
    mechanism = _summable(plan)
    if sums.plan != plan.digest:
        raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
    if sums.reports < mechanism.minimum_reports:
        raise TooFewReports(sums.reports, mechanism.minimum_reports)
    if sums.reports > plan.cohort or len(sums.sums) != plan.numbers:
        raise ProtocolError(f"sums: got {len(sums.sums)} over {sums.reports:,} reports, expected a cohort's")
    totals = np.array(sums.sums, dtype=np.int64)
    if mechanism.message.low >= 0:
        return totals
    half = 1 << (mechanism.sum_bits - 1)
    return np.where(totals >= half, totals - half - half, totals)


def summable(plan: Plan) -> bool:
    """Whether reports are whole numbers or bits, whose sums do not depend on their order."""
    return plan.mechanism is not None and plan.mechanism.message.kind != "numbers"


def _reduced(mechanism: Mechanism, totals: IntArray) -> tuple[int, ...]:
    return tuple((totals & ((1 << mechanism.sum_bits) - 1)).tolist())


def _summable(plan: Plan) -> Mechanism:
    mechanism = plan.asked_mechanism
    if mechanism.message.kind == "numbers":
        raise ProtocolError("reports in floating point are not added up: their sum depends on the order")
    return mechanism
