"""What a shuffler reveals, checked: the coordinator believes none of it.

A shuffler may return one client's share many times, invent members, send pages without end, or reveal sums
that are no residues. Each of these raises `ProtocolError`: nothing is released, and the log has the line. If
it sums another set than the coordinator does, the attempt fails and fresh clients are asked. What it cannot
be kept from is adding a number of its own to the sums: see docs/privacy.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dpbandits.errors import InvalidValue, ProtocolError, Refused
from dpbandits.protocol import Plan, Sums, add_up, nothing, share_message
from dpbandits.service.coordinator._context import Context
from dpbandits.service.wire import PURPOSE, CollectionReply, set_checksum, unbound_share
from dpbandits.storage import Attempt

STATES = ("closed", "summed", "failed")


@dataclass(frozen=True, kw_only=True)
class OwnSums:
    """In split mode: the sums of the coordinator's shares, who is not in them, and the checksum of who is."""

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
    """Add up the coordinator's shares of distinct members, given in ascending order of their pseudonyms.

    `credentials` has the token's hash of each member. A share that does not open, or that its client did not
    make, is left out; the shuffler is told to leave its own half out, too.
    """
    without, summed, last = list[str](), list[tuple[str, bytes]](), ""

    def readable() -> Iterator[bytes]:
        nonlocal last
        for pseudonym, sealed in shares:
            if pseudonym <= last:
                raise ProtocolError("the shuffler sent shares twice or out of order: nothing is released")
            if pseudonym not in credentials:
                raise ProtocolError(
                    "the shuffler sent a share of somebody who is no member: nothing is released"
                )
            last = pseudonym
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


def check_reply(context: Context, plan: Plan, attempt: Attempt, reply: CollectionReply) -> None:
    """Refuse a reply to closing or summing that is not about this attempt, or that no honest shuffler gives.

    Raises:
        ProtocolError: Nothing is released.
    """
    place = (context.name, attempt.phase, attempt.number)
    if (reply.study, reply.phase, reply.attempt) != place or reply.state not in STATES:
        raise ProtocolError("the shuffler answered about another collection, or in no known state")
    if not 0 <= reply.reports <= min(attempt.joined, plan.cohort):
        raise ProtocolError(f"the shuffler counts {reply.reports:,} reports of {attempt.joined:,} members")


def revealed_sums(plan: Plan, reply: CollectionReply) -> Sums | None:
    """The sums in a reply, or None if there were too few reports."""
    if reply.state != "summed":
        return None
    modulus = 1 << plan.asked_mechanism.sum_bits
    if len(reply.sums) != plan.numbers or not all(0 <= one < modulus for one in reply.sums):
        raise ProtocolError("the shuffler's sums are no residues of this plan")
    return Sums(plan=plan.digest, sums=tuple(reply.sums), reports=reply.reports)
