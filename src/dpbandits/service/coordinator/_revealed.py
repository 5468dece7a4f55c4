"""Checks of what a shuffler sends in the modes `trusted` and `split`: the coordinator does not trust it.

A hostile shuffler may return one client's share many times, invent members, send pages without end, or send
sums that are not residues of the modulus. Each of these raises `ProtocolError`: nothing is released, and the
error is logged. If the shuffler sums over another set of clients than the coordinator, the attempt fails and
new clients are asked. No check can prevent a shuffler from adding its own number to the sums: see
docs/privacy.md. For mode `verified` see _verifying.py, which uses some of these checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from dpbandits.errors import InvalidValue, ProtocolError, Refused
from dpbandits.protocol import Plan, Sums, add_up, nothing, share_message
from dpbandits.service.coordinator._context import Context
from dpbandits.service.wire import PURPOSE, CollectionReply, set_checksum, unbound_share
from dpbandits.storage import Attempt, Transaction

STATES = ("closed", "summed", "failed")


@dataclass(frozen=True, kw_only=True)
class OwnSums:
    """The coordinator's sums in split mode.

    Attributes:
        sums: The sums of the coordinator's shares.
        without: The pseudonyms whose shares are not in the sums, since they could not be read.
        checksum: A checksum over the set of shares that are in the sums.
    """

    sums: Sums
    without: list[str]
    checksum: str


def own_sums(
    context: Context,
    plan: Plan,
    attempt: int,
    credentials: Mapping[str, str],
    shares: Iterable[tuple[str, bytes]],
) -> OwnSums:
    """Add up the coordinator's shares.

    A share that cannot be decrypted, or that was not made by its client, is left out. The coordinator then
    asks the shuffler to leave out the other share of the same report.

    Args:
        context: The study with its keys.
        plan: The plan of the attempt.
        attempt: The number of the attempt.
        credentials: The hashed token of each member, by pseudonym.
        shares: Pseudonyms and sealed shares, in ascending order of distinct pseudonyms.

    Raises:
        ProtocolError: Shares are repeated, out of order, or of a client outside the cohort.
    """
    without, summed, last = list[str](), list[tuple[str, bytes]](), ""

    def readable() -> Iterator[bytes]:
        nonlocal last
        for pseudonym, sealed in shares:
            last = in_order([pseudonym], last, credentials)
            place = context.place(plan, attempt, pseudonym)
            try:
                opened = context.keys.open(sealed, place, PURPOSE)
                share = unbound_share(opened, place, credentials[pseudonym])
                share_message(plan).unpack([share])
            except (Refused, InvalidValue):
                without.append(pseudonym)
            else:
                summed.append((pseudonym, sealed))
                yield share

    total = add_up(plan, nothing(plan), readable(), shares=True)
    return OwnSums(sums=total, without=without, checksum=set_checksum(summed))


class _LeftOut(msgspec.Struct):
    """The part of a journalled batch that says who was left out; sums of mode `trusted` leave nobody out."""

    without: list[str] = []


def left_out(transaction: Transaction, attempts: Iterable[Attempt]) -> int:
    """Return how many reports of these attempts were left out of the sums."""
    bodies = [transaction.batch(attempt.phase, attempt.number) for attempt in attempts]
    return sum(len(msgspec.json.decode(body, type=_LeftOut).without) for body in bodies if body is not None)


def in_order(pseudonyms: Iterable[str], last: str, members: Collection[str]) -> str:
    """Check that a page of shares is from distinct members in ascending order.

    Args:
        pseudonyms: The pseudonyms of the page.
        last: The last pseudonym of the page before; empty for the first page.
        members: The pseudonyms of the cohort.

    Returns:
        The last pseudonym of this page.

    Raises:
        ProtocolError: A share is repeated, out of order, or from outside the cohort.
    """
    for pseudonym in pseudonyms:
        if pseudonym <= last:
            raise ProtocolError("the shuffler sent shares twice or out of order: nothing is released")
        if pseudonym not in members:
            raise ProtocolError("the shuffler sent a share from outside the cohort: nothing is released")
        last = pseudonym
    return last


def checked_collection(context: Context, plan: Plan, attempt: Attempt, reply: CollectionReply) -> None:
    """Check that a reply to closing or summing is about this attempt, and that its count is possible.

    Raises:
        ProtocolError: The reply is about another attempt, has an unknown state, or counts more reports than
            clients.
    """
    place = (context.name, attempt.phase, attempt.number)
    if (reply.study, reply.phase, reply.attempt) != place or reply.state not in STATES:
        raise ProtocolError("the shuffler replied about another collection, or with an unknown state")
    if not 0 <= reply.reports <= min(attempt.joined, plan.cohort):
        raise ProtocolError(
            f"the shuffler counts {reply.reports:,} reports, expected at most {attempt.joined:,}"
        )


def revealed_sums(context: Context, plan: Plan, attempt: Attempt, reply: CollectionReply) -> Sums | None:
    """Check a reply to closing or summing, and return its sums; None if it has none.

    Raises:
        ProtocolError: The reply is about another attempt, or no honest shuffler would send it. Nothing is
            released.
    """
    checked_collection(context, plan, attempt, reply)
    if reply.state != "summed":
        return None
    sums, modulus = reply.sums, 1 << plan.asked_mechanism.sum_bits
    if sums is None or (sums.plan, sums.reports) != (plan.digest, reply.reports):
        raise ProtocolError("the shuffler's sums are of another plan, or of another number of reports")
    if len(sums.sums) != plan.numbers or not all(0 <= one < modulus for one in sums.sums):
        raise ProtocolError("the shuffler's sums are not residues of this plan's modulus")
    return sums
