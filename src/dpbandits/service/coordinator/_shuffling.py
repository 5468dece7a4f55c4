"""How a coordinator uses its shuffler: it opens a collection, closes it, and computes the sums.

In split mode each party sums its own shares. The coordinator journals its sums before it requests those of
the shuffler, since the shuffler then deletes the shares. In mode `verified` it first verifies the reports,
and journals which ones are left out together with its sums (_verifying.py).

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
from dpbandits.service.coordinator._revealed import OwnSums, checked_collection, own_sums, revealed_sums
from dpbandits.service.coordinator._shuffler_link import ShufflerLink
from dpbandits.service.coordinator._verifying import OwnShare, Verification, ahead
from dpbandits.service.shared import Writer
from dpbandits.service.wire import SHARED_MODES, CollectionRequest
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
        mode = self._context.terms.mode
        if mode in SHARED_MODES:
            sums = self._combined(plan, attempt) if mode == "split" else self._verified(plan, attempt)
            self._context.hook("shuffler-closed")
            return sums
        if (found := self._found(attempt)) is not None:
            return decode(found, Sums)
        reply = self._link.close(attempt.phase, attempt.number)
        sums = revealed_sums(self._context, plan, attempt, reply)
        if reply.state == "closed":
            raise ProtocolError("the shuffler keeps its sums, but the study's mode is trusted")
        if sums is not None:
            body, key = encode(sums), (attempt.phase, attempt.number)
            kept = self._writer.run("revealed-sums", lambda t: t.kept_batch(*key, body), alone=True)
            sums = decode(kept, Sums)
        self._context.hook("shuffler-closed")
        return sums

    def _combined(self, plan: Plan, attempt: Attempt) -> Sums | None:
        """Return the sums of both parties' shares in mode `split`."""
        closed = self._link.close(attempt.phase, attempt.number)
        revealed_sums(self._context, plan, attempt, closed)
        if closed.state == "failed":
            return None
        kept = self._own_sums(plan, attempt)
        self._log_excluded(attempt, len(kept.without))
        reply = self._link.sums(attempt.phase, attempt.number, kept.without)
        theirs = revealed_sums(self._context, plan, attempt, reply)
        if theirs is not None and reply.checksum != kept.checksum:
            self._sets_differ(attempt)
            return None
        return None if theirs is None else combine(plan, kept.sums, theirs)

    def _verified(self, plan: Plan, attempt: Attempt) -> Sums | None:
        """Return the sums of the reports whose proofs hold, in mode `verified`."""
        key = (attempt.phase, attempt.number)
        closed = self._link.close(*key)
        checked_collection(self._context, plan, attempt, closed)
        if closed.state == "failed":
            return None
        credentials = self._writer.run("read", lambda t: t.credentials(*key))
        verification = Verification(self._context, plan, attempt.number, credentials)
        found = self._found(attempt)
        if found is None:
            own = verification.own_share(ahead(self._link.verifiers(*key)))
            found = self._writer.run("own-sums", lambda t: t.kept_batch(*key, encode(own)), alone=True)
        kept = decode(found, OwnShare)
        self._log_excluded(attempt, len(kept.without))
        reply = self._link.sums(*key, kept.without)
        sums = verification.sums(kept, reply, attempt)
        if sums is None and reply.state == "summed":
            self._sets_differ(attempt)
        return sums

    def _log_excluded(self, attempt: Attempt, count: int) -> None:
        if count:
            where = {"phase": attempt.phase, "attempt": attempt.number}
            log.warning("reports-excluded", extra={**where, "count": count})

    def _sets_differ(self, attempt: Attempt) -> None:
        # Both parties have journalled their sums, so a retry cannot help: the attempt fails.
        log.warning("sets-differ", extra={"phase": attempt.phase, "attempt": attempt.number})

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
