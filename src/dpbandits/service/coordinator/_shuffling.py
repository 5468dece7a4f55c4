"""The coordinator's part with its shuffler: open a collection, close it, and compute the sums.

In split mode each party sums its own shares. The coordinator journals its sums before it asks the shuffler
for the other half, because the shuffler deletes the shares then.
"""

from __future__ import annotations

import logging

import msgspec

from dpbandits.errors import ProtocolError
from dpbandits.protocol import Plan, Sums, combine, decode, encode
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._revealed import OwnSums, check_reply, own_sums, revealed_sums
from dpbandits.service.coordinator._shuffler_link import ShufflerLink
from dpbandits.service.shared import Writer
from dpbandits.service.wire import CollectionRequest
from dpbandits.storage import Attempt, Transaction

log = logging.getLogger("dpbandits.service")


class Shuffling:
    """A shuffler as the party that collects reports (`dpbandits.rounds.Collector`)."""

    def __init__(self, context: Context, writer: Writer, link: ShufflerLink) -> None:
        self._context = context
        self._writer = writer
        self._link = link

    def open(self, plan: Plan, attempt: Attempt) -> None:
        """Send it the terms, the plan and the cohort's pseudonyms."""
        members = self._writer.run("read", lambda t: t.members(attempt.phase, attempt.number))
        signed = self._context.signed
        assert signed is not None
        request = CollectionRequest(
            study=self._context.name,
            terms=signed.terms,
            signature=signed.signature,
            plan=msgspec.Raw(encode(plan)),
            members=list(members),
        )
        self._link.open(attempt.phase, attempt.number, request)
        self._context.hook("shuffler-opened")

    def is_collecting(self, attempt: Attempt) -> bool:
        """Whether it still takes reports."""
        return self._link.look(attempt.phase, attempt.number).state == "collecting"

    def close(self, plan: Plan, attempt: Attempt) -> Sums | None:
        """Close the collection; return the sums, or None if too few reported or the two sets differ."""
        key = (attempt.phase, attempt.number)
        reply = self._link.close(*key)
        check_reply(self._context, plan, attempt, reply)
        if reply.state == "closed" and self._context.terms.mode == "trusted":
            raise ProtocolError("the shuffler splits reports, but the study's mode is trusted")
        if reply.state == "failed" or self._context.terms.mode == "trusted":
            sums = revealed_sums(plan, reply)
        else:
            sums = self._combined(plan, attempt)
        self._context.hook("shuffler-closed")
        return sums

    def _combined(self, plan: Plan, attempt: Attempt) -> Sums | None:
        kept = self._own_sums(plan, attempt)
        reply = self._link.sums(attempt.phase, attempt.number, kept.without)
        check_reply(self._context, plan, attempt, reply)
        theirs = revealed_sums(plan, reply)
        if theirs is not None and reply.checksum != kept.checksum:
            # Both sums are journalled and will never agree, so fresh clients are asked.
            log.warning("sets-differ", extra={"phase": attempt.phase, "attempt": attempt.number})
            return None
        return None if theirs is None else combine(plan, kept.sums, theirs)

    def _own_sums(self, plan: Plan, attempt: Attempt) -> OwnSums:
        """The sums of the coordinator's shares, journalled before the shuffler is asked for its own."""
        key = (attempt.phase, attempt.number)
        found = self._writer.run("read", lambda t: t.batch(*key))
        if found is not None:
            return decode(found, OwnSums)
        credentials = self._writer.run("read", lambda t: t.credentials(*key))
        own = own_sums(self._context, plan, attempt.number, credentials, self._link.shares(*key))

        def keep(transaction: Transaction) -> OwnSums:
            """Another worker may have kept its own, from when the shuffler still had all shares."""
            found = transaction.batch(*key)
            if found is not None:
                return decode(found, OwnSums)
            transaction.keep_batch(*key, encode(own))
            return own

        return self._writer.run("own-sums", keep, alone=True)
