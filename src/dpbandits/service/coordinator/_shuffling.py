"""How a coordinator uses its shuffler: it opens a collection, closes it, and computes the sums.

In split mode each party sums its own shares. The coordinator journals its sums before it requests those of
the shuffler, since the shuffler then deletes the shares.

In trusted mode the coordinator journals the sums that the shuffler reveals before it makes a release of them.
If the release cannot be committed, for example because the disk is full, the next try uses the same sums, and
not others that the shuffler may send now. Otherwise the second release would differ from the one in the
progress file, and the study would stop.
"""

from __future__ import annotations

import logging

from dpbandits.errors import ProtocolError
from dpbandits.protocol import Plan, Sums, combine, decode, encode
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._revealed import OwnSums, own_sums, revealed_sums
from dpbandits.service.coordinator._shuffler_link import ShufflerLink
from dpbandits.service.shared import Writer
from dpbandits.service.wire import CollectionRequest
from dpbandits.storage import Attempt

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
            plan=encode(plan).decode(),
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
        trusted = self._context.terms.mode == "trusted"
        if trusted and (found := self._found(attempt)) is not None:
            return decode(found, Sums)
        reply = self._link.close(attempt.phase, attempt.number)
        sums = revealed_sums(self._context, plan, attempt, reply)
        if reply.state == "closed" and trusted:
            raise ProtocolError("the shuffler runs in split mode, but the study's mode is trusted")
        if reply.state != "failed" and not trusted:
            sums = self._combined(plan, attempt)
        elif sums is not None:
            body, key = encode(sums), (attempt.phase, attempt.number)
            kept = self._writer.run("revealed-sums", lambda t: t.kept_batch(*key, body), alone=True)
            sums = decode(kept, Sums)
        self._context.hook("shuffler-closed")
        return sums

    def _combined(self, plan: Plan, attempt: Attempt) -> Sums | None:
        kept = self._own_sums(plan, attempt)
        reply = self._link.sums(attempt.phase, attempt.number, kept.without)
        theirs = revealed_sums(self._context, plan, attempt, reply)
        if theirs is not None and reply.checksum != kept.checksum:
            # Both parties have journalled their sums, so a retry cannot help: the attempt fails.
            log.warning("sets-differ", extra={"phase": attempt.phase, "attempt": attempt.number})
            return None
        return None if theirs is None else combine(plan, kept.sums, theirs)

    def _own_sums(self, plan: Plan, attempt: Attempt) -> OwnSums:
        """Return the sums of the coordinator's shares, journalled before the shuffler's are requested."""
        found = self._found(attempt)
        if found is None:
            key = (attempt.phase, attempt.number)
            credentials = self._writer.run("read", lambda t: t.credentials(*key))
            own = own_sums(self._context, plan, attempt.number, credentials, self._link.shares(*key))
            found = self._writer.run("own-sums", lambda t: t.kept_batch(*key, encode(own)), alone=True)
        return decode(found, OwnSums)

    def _found(self, attempt: Attempt) -> bytes | None:
        """Return the journalled sums of an attempt, if there are any."""
        return self._writer.run("read", lambda t: t.batch(attempt.phase, attempt.number))
