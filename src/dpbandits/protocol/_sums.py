"""`Sums` of reports: the server's step A needs nothing else if reports are whole numbers or bits.

A party that adds reports to running sums and forgets the reports can replace the third party's step S: with
the same noise, `analyze` computes the same release from `Sums` as from the batch that `shuffle` returns.

Sums are kept modulo 2^`sum_bits` of the mechanism, which is large enough for a whole cohort. So a report may
also be split into shares that are uniform modulo this number, with a different party adding up each share.
Shares are packed like reports, by `share_message`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from dpbandits._arrays import IntArray
from dpbandits._checks import whole
from dpbandits.errors import PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import Mechanism, Message, NoiseSource
from dpbandits.protocol._messages import Plan

_AT_ONCE = 2**22  # entries that are unpacked at once, to limit memory use


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The sum of each coordinate over a number of reports.

    Attributes:
        plan: The digest of the plan.
        sums: One sum per reported number, modulo 2^`sum_bits` of the plan's mechanism.
        reports: How many reports have been added.
    """

    plan: str
    sums: tuple[int, ...]
    reports: int

    def __post_init__(self) -> None:
        whole(0, reports=self.reports)
        if self.sums:
            whole(0, (1 << 63) - 1, sums=min(self.sums))
            whole(0, (1 << 63) - 1, sums=max(self.sums))


def nothing(plan: Plan) -> Sums:
    """Return the sums of zero reports.

    Args:
        plan: The plan of the cohort.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan(dp.PrivacyRequest(trust="central", delta=0))
        >>> from dpbandits.protocol import nothing
        >>> nothing(plan).reports
        0
    """
    return Sums(plan=plan.digest, sums=(0,) * plan.numbers, reports=0)


def share_message(plan: Plan) -> Message:
    """Return the format of one share: per number, one residue modulo 2^`sum_bits`. Every residue is valid.

    Args:
        plan: The plan of the cohort.

    Returns:
        The message format.

    Raises:
        ProtocolError: Reports cannot be added up (see `summable`), or the plan asks nobody.
    """
    high = (1 << _summable(plan).sum_bits) - 1
    return Message(kind="integers", shape=(plan.numbers,), low=0, high=high)


def add_up(plan: Plan, sums: Sums, packed: Iterable[bytes], *, shares: bool = False) -> Sums:
    """Add reports, or one party's shares of reports, to sums.

    Args:
        plan: The plan of the reports.
        sums: The sums so far; `nothing(plan)` at the start.
        packed: The bytes of each report (`Report.payload`), or of each share. They are read once, in blocks.
        shares: Whether `packed` contains shares.

    Returns:
        The sums with these reports added.

    Raises:
        InvalidValue: An entry of `packed` is not a valid report, or share, of this plan.
        ProtocolError: Reports cannot be added up (see `summable`).

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan(dp.PrivacyRequest(trust="central", delta=0))
        >>> report = examples.reports(plan)[0]
        >>> from dpbandits.protocol import add_up, nothing
        >>> add_up(plan, nothing(plan), [report.payload] * 20).reports
        20
    """
    mechanism = _summable(plan)
    message = share_message(plan) if shares else mechanism.message
    totals, count, remaining = np.array(sums.sums, dtype=np.int64), sums.reports, iter(packed)
    while block := list(islice(remaining, max(1, _AT_ONCE // message.entries))):
        rows = message.unpack(block)
        # An overflow wraps modulo 2^64, which is a multiple of the modulus, so the residue stays correct.
        totals += rows.reshape(len(block), plan.numbers, -1).sum(axis=(0, 2), dtype=np.int64)
        count += len(block)
    return replace(sums, sums=_reduced(mechanism, totals), reports=count)


def add_noise(plan: Plan, sums: Sums, noise: NoiseSource) -> Sums:
    """Add the noise of the third party to its sums, if the plan's mechanism has such noise.

    Args:
        plan: The plan of the cohort.
        sums: The sums of the reports, or of the third party's shares of them.
        noise: The source of the noise.

    Returns:
        The noisy sums; the same sums if the third party adds no noise.

    Raises:
        ProtocolError: Reports cannot be added up (see `summable`).
    """
    mechanism = _summable(plan)
    drawn = mechanism.third_party_noise(noise)
    if drawn is None:
        return sums
    return replace(sums, sums=_reduced(mechanism, np.array(sums.sums, dtype=np.int64) + drawn))


def combine(plan: Plan, one: Sums, other: Sums) -> Sums:
    """Combine two parties' sums of shares into the sums of the reports.

    Args:
        plan: The plan of the cohort.
        one: The sums of the first shares.
        other: The sums of the second shares of the same reports.

    Returns:
        The sums of the reports.

    Raises:
        PlanMismatch: The sums belong to another plan.
        ProtocolError: The two sums are over different numbers of reports, or do not have one sum per number.
    """
    if one.plan != plan.digest or other.plan != plan.digest:
        raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
    if one.reports != other.reports or not len(one.sums) == len(other.sums) == plan.numbers:
        raise ProtocolError(
            f"sums: got {one.reports:,} and {other.reports:,} reports, expected the same reports, and "
            f"{plan.numbers} sums of each"
        )
    totals = np.array(one.sums, dtype=np.int64) + np.array(other.sums, dtype=np.int64)
    return replace(one, sums=_reduced(_summable(plan), totals))


def merge(plan: Plan, parts: Iterable[Sums]) -> Sums:
    """Add up the sums of disjoint sets of reports, such as those of several sites.

    Args:
        plan: The plan of the cohort.
        parts: The sums of each set.

    Returns:
        The sums of all reports.

    Raises:
        PlanMismatch: Some sums belong to another plan.
        ProtocolError: Some sums do not have one sum per reported number.
    """
    mechanism, totals, reports = _summable(plan), np.zeros(plan.numbers, dtype=np.int64), 0
    for part in parts:
        if part.plan != plan.digest:
            raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
        if len(part.sums) != plan.numbers:
            raise ProtocolError(f"sums: got {len(part.sums)}, expected {plan.numbers}, one per number")
        totals += np.array(part.sums, dtype=np.int64)  # wraps modulo 2^64, a multiple of the modulus
        reports += part.reports
    return Sums(plan=plan.digest, sums=_reduced(mechanism, totals), reports=reports)


def report_range(plan: Plan) -> tuple[int, int]:
    """Return the smallest and the largest number that one report adds to a sum.

    Example: (−33, 49) for a grid from 0 to 16 and noise of at most 33 steps.

    Args:
        plan: The plan of the cohort.

    Returns:
        The smallest and the largest number.

    Raises:
        ProtocolError: Reports cannot be added up (see `summable`), or the plan asks nobody.
    """
    message = _summable(plan).message
    entries = message.entries // plan.numbers  # all bits of one number are added up
    return int(message.low) * entries, int(message.high) * entries


def report_totals(plan: Plan, packed: bytes) -> IntArray:
    """Return the numbers that one report adds to the sums.

    Args:
        plan: The plan of the report.
        packed: The bytes of the report (`Report.payload`).

    Raises:
        InvalidValue: `packed` is not a valid report of this plan.
        ProtocolError: Reports cannot be added up (see `summable`).

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan(dp.PrivacyRequest(trust="central", delta=0))
        >>> report = examples.reports(plan)[0]
        >>> from dpbandits.protocol import report_totals
        >>> len(report_totals(plan, report.payload)) == plan.numbers
        True
    """
    row = _summable(plan).message.unpack([packed])[0]
    return np.asarray(row.reshape(plan.numbers, -1).sum(axis=1, dtype=np.int64))


def sums_of(plan: Plan, totals: Sequence[int], reports: int) -> Sums:
    """Return signed totals as the `Sums` that `analyze` takes.

    Args:
        plan: The plan of the cohort.
        totals: The sum of each reported number over all reports.
        reports: How many reports there are.

    Raises:
        ProtocolError: Reports cannot be added up (see `summable`).

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan(dp.PrivacyRequest(trust="central", delta=0))
        >>> report = examples.reports(plan)[0]
        >>> from dpbandits.protocol import report_totals, sums_of
        >>> totals = 20 * report_totals(plan, report.payload)
        >>> dp.analyze(plan, sums_of(plan, totals, reports=20), examples.noise()).reports
        20
    """
    modulus = 1 << _summable(plan).sum_bits
    return Sums(plan=plan.digest, sums=tuple(int(total) % modulus for total in totals), reports=reports)


def signed_totals(plan: Plan, sums: Sums) -> IntArray:
    """Convert the sums of a whole cohort to the totals that step A takes.

    If reports may be negative, each residue is mapped to the representative nearest to zero.

    Raises:
        PlanMismatch: The sums belong to another plan.
        TooFewReports: The sums are over fewer reports than the noise was calibrated for.
        ProtocolError: There are more reports than clients in the cohort, or another number of sums.
    """
    mechanism = _summable(plan)
    if sums.plan != plan.digest:
        raise PlanMismatch(f"the sums belong to another plan than {plan.digest[:12]}")
    if sums.reports < mechanism.minimum_reports:
        raise TooFewReports(sums.reports, mechanism.minimum_reports)
    if sums.reports > plan.cohort or len(sums.sums) != plan.numbers:
        raise ProtocolError(
            f"sums: got {len(sums.sums)} over {sums.reports:,} reports, expected {plan.numbers} over at most "
            f"{plan.cohort:,}"
        )
    totals = np.array(sums.sums, dtype=np.int64)
    if mechanism.message.low >= 0:
        return totals
    half = 1 << (mechanism.sum_bits - 1)
    return np.where(totals >= half, totals - half - half, totals)


def summable(plan: Plan) -> bool:
    """Return whether the reports of a plan can be added up, because step A needs only their sums.

    They can if all clients report through one mechanism, the mechanism is additive, and reports are whole
    numbers or bits.

    Args:
        plan: The plan of the cohort.
    """
    return plan.mechanism is not None and _adds_up(plan.mechanism)


def _adds_up(mechanism: Mechanism) -> bool:
    return mechanism.additive and mechanism.message.kind != "numbers"


def _reduced(mechanism: Mechanism, totals: IntArray) -> tuple[int, ...]:
    return tuple((totals & ((1 << mechanism.sum_bits) - 1)).tolist())


def _summable(plan: Plan) -> Mechanism:
    mechanism = plan.asked_mechanism
    if not _adds_up(mechanism):
        raise ProtocolError(f"reports of {mechanism.kind} cannot be added up: every single one is needed")
    return mechanism
