"""How a coordinator uses its shuffler: it opens a collection, closes it, and computes the sums.

In split mode each party sums its own shares. The coordinator journals its sums before it requests those of
the shuffler, since the shuffler then deletes the shares.
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
    """A shuffler as the party that collects reports (implements `dpbandits.rounds.Collector`)."""

    def __init__(self, context: Context, writer: Writer, link: ShufflerLink) -> None:
        self._context = context
        self._writer = writer
        self._link = link

    def open(self, plan: Plan, attempt: Attempt) -> None:
        """Send the shuffler the terms, the plan and the cohort's pseudonyms."""
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
        """Return whether the shuffler still accepts reports."""
        return self._link.look(attempt.phase, attempt.number).state == "collecting"

    def close(self, plan: Plan, attempt: Attempt) -> Sums | None:
        """Close the collection, and return the sums.

        Returns:
            The sums; None if too few clients reported, or the two parties summed over different sets.

        Raises:
            ProtocolError: No honest shuffler would send this reply.
            Unreachable: The shuffler cannot be reached.
        """
        key = (attempt.phase, attempt.number)
        reply = self._link.close(*key)
        check_reply(self._context, plan, attempt, reply)
        if reply.state == "closed" and self._context.terms.mode == "trusted":
            raise ProtocolError("the shuffler runs in split mode, but the study's mode is trusted")
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
            # Both parties have journalled their sums, so a retry cannot help: the attempt fails.
            log.warning("sets-differ", extra={"phase": attempt.phase, "attempt": attempt.number})
            return None
        return None if theirs is None else combine(plan, kept.sums, theirs)

    def _own_sums(self, plan: Plan, attempt: Attempt) -> OwnSums:
        """Return the sums of the coordinator's shares, journalled before the shuffler's are requested."""
        key = (attempt.phase, attempt.number)
        found = self._writer.run("read", lambda t: t.batch(*key))
        if found is not None:
            return decode(found, OwnSums)
        credentials = self._writer.run("read", lambda t: t.credentials(*key))
        own = own_sums(self._context, plan, attempt.number, credentials, self._link.shares(*key))

        def keep(transaction: Transaction) -> OwnSums:
            """Store the sums, unless another worker did so first; then return those."""
            found = transaction.batch(*key)
            if found is not None:
                return decode(found, OwnSums)
            transaction.keep_batch(*key, encode(own))
            return own

        return self._writer.run("own-sums", keep, alone=True)
