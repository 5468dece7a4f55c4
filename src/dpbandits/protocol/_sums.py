"""A batch as the sums of its answers, and the check of a single one.

Where answers are whole numbers or bits, all that A makes of a batch is a function of the sum of each
coordinate. So a party that adds answers up one by one, and forgets them, can stand for S: `batch_of` gives a
batch that `analyze` turns into the same release as the one of `shuffle`, with the same noise.

Sums are kept modulo 2^`sum_bits` of the mechanism, which is wide enough for a whole cohort. So an answer may
also be split into shares that are uniform modulo this number, and each share's sums be kept by another party.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import IntArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue, PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import Mechanism
from dpbandits.protocol._messages import Batch, Payload, Plan, Report


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The sum of each coordinate over `reports` answers, modulo 2^`sum_bits` of the plan's mechanism."""

    plan: str
    sums: tuple[int, ...]
    reports: int

    def __post_init__(self) -> None:
        whole(0, reports=self.reports)
        if self.sums:
            whole(0, (1 << 63) - 1, sums=min(self.sums))
            whole(0, (1 << 63) - 1, sums=max(self.sums))


def checked_payload(plan: Plan, report: Report) -> NDArray[Any]:
    """One client's answer, if it is one that the plan's mechanism can have made; nothing of it is told."""
    if report.plan != plan.digest:
        raise PlanMismatch(f"the report belongs to another plan than {plan.digest[:12]}")
    message, payload = plan.required_mechanism.message, report.payload
    entries = {"numbers": payload.numbers, "integers": payload.integers, "bits": payload.bits}
    present = [kind for kind, found in entries.items() if found]
    if payload.shape != message.shape or present != [message.kind]:
        raise InvalidValue("payload", "another shape or kind", f"{message.kind} of shape {message.shape}")
    if not all(-(1 << 63) <= entry < 1 << 63 for entry in payload.integers):
        raise InvalidValue("payload", "an entry out of range", "entries of 64 bits")
    return checked_array(plan, payload.unpack())


def checked_array(plan: Plan, array: NDArray[Any]) -> NDArray[Any]:
    """The same for what an answer's payload holds."""
    message = plan.required_mechanism.message
    if not message.admits(array):
        raise InvalidValue(
            "payload", "another shape, kind or range", f"{message.kind} that the mechanism can make"
        )
    return array


def one_report(plan: Plan, report: Report) -> Sums:
    """The sums of one answer."""
    return add_up(plan, nothing(plan), [report])


def nothing(plan: Plan) -> Sums:
    """The sums of no answer."""
    return Sums(plan=plan.digest, sums=(0,) * plan.numbers, reports=0)


def add_up(plan: Plan, sums: Sums, reports: Iterable[Report]) -> Sums:
    """The sums with so many answers more."""
    totals, count = np.array(sums.sums, dtype=np.int64), sums.reports
    # Answers have a sign; the sum is reduced modulo the power of two.
    bits = _summable(plan).message.kind == "bits"
    for report in reports:
        array = checked_payload(plan, report)
        totals += array.sum(axis=1, dtype=np.int64) if bits else array
        count += 1
    return replace(sums, sums=tuple(_reduced(plan, totals).tolist()), reports=count)


def add_shares(plan: Plan, sums: Sums, shares: Iterable[Sums]) -> Sums:
    """One party's sums with its shares of so many answers more."""
    totals, count = np.array(sums.sums, dtype=np.int64), sums.reports
    for share in shares:
        totals += np.array(share.sums, dtype=np.int64)
        count += share.reports
    return replace(sums, sums=tuple(_reduced(plan, totals).tolist()), reports=count)


def combine(plan: Plan, one: Sums, other: Sums) -> Sums:
    """Two parties' shares of the sums of the same answers, together."""
    if one.plan != plan.digest or other.plan != plan.digest:
        raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
    if one.reports != other.reports or not len(one.sums) == len(other.sums) == plan.numbers:
        raise ProtocolError(f"sums: got {one.reports:,} and {other.reports:,} reports, expected equal sets")
    # Two's complement wraps modulo 2^64, of which the modulus is a divisor.
    totals = np.array(one.sums, dtype=np.int64) + np.array(other.sums, dtype=np.int64)
    return replace(one, sums=tuple(_reduced(plan, totals).tolist()))


def batch_of(plan: Plan, sums: Sums) -> Batch:
    """A batch that is analyzed to the same as the one whose answers were added up."""
    mechanism = _summable(plan)
    if sums.plan != plan.digest:
        raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
    if sums.reports < mechanism.minimum_reports:
        raise TooFewReports(sums.reports, mechanism.minimum_reports)
    if sums.reports > plan.cohort or len(sums.sums) != plan.numbers:
        raise ProtocolError(f"sums: got {len(sums.sums)} over {sums.reports:,} reports, expected a cohort's")
    totals = _signed(mechanism, np.array(sums.sums, dtype=np.int64))
    payload = Payload.pack(mechanism.batch_of_sums(totals, sums.reports))
    return Batch(plan=plan.digest, payload=payload, reports=sums.reports)


def summable(plan: Plan) -> bool:
    """Whether answers are whole numbers or bits, whose sums do not depend on their order."""
    return plan.mechanism is not None and plan.mechanism.message.kind != "numbers"


def _reduced(plan: Plan, totals: IntArray) -> IntArray:
    return totals & ((1 << _summable(plan).sum_bits) - 1)


def _signed(mechanism: Mechanism, totals: IntArray) -> IntArray:
    """Sums that may be negative are read as the residue nearest to zero."""
    if mechanism.message.low >= 0:
        return totals
    half = 1 << (mechanism.sum_bits - 1)
    return np.where(totals >= half, totals - half - half, totals)


def _summable(plan: Plan) -> Mechanism:
    mechanism = plan.required_mechanism
    if mechanism.message.kind == "numbers":
        raise ProtocolError("answers in floating point are not added up: their sum depends on the order")
    return mechanism
