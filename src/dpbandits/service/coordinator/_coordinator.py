"""The coordinator as a state machine over a store: no network, no clock and no thread of its own.

An attempt at a phase goes through these states; nothing else changes them:

    gathering    clients join: a client's ledger entry is burned, its place taken, before its task is told.
                 → playing     when the cohort is full, or after `join_seconds` with the minimum there
    playing      the actuator plays the plan and reports how many rounds it has played, in all.
                 → opening     when all are played, in the shuffle model
                 → collecting  when all are played, in the other models
                 → done        when all are played and the plan asks nobody
    opening      the shuffler is told the plan and the cohort's pseudonyms, until it has acknowledged them.
                 → collecting
    collecting   reports come in: here, sealed, or at the shuffler.
                 → closed      where reports come in here: at the deadline, or as soon as the whole cohort has
                               answered
                 → released    at the deadline with the minimum there, in the shuffle model
                 → failed      at the deadline with fewer, in the shuffle model, or if the shuffler has summed
                               other reports than the coordinator
    closed       no report comes in any more, so whatever crashes, a release is made of the same reports.
                 → released    with the minimum there (_releasing.py: one transaction)
                 → failed      with fewer: what came in is deleted, nothing is released

- A phase begins with its plan, journalled with attempt 1 in one transaction, and ends with one release.
- After `failed` the same plan is asked again in the next attempt, of fresh clients, and played again: fresh
  clients have seen none of it. Those burned stay burned. Rounds of failed attempts are counted apart; the
  horizon does not include them.
- In the shuffle model the collection closes at the deadline, never before: a time of closing that depended on
  the last client would tell when it reported. If the shuffler cannot be reached then, nothing is closed, and
  the attempt is journalled without a deadline: clients get `report_seconds` anew once the shuffler can be
  reached, whoever finds that out, after a restart too. If it turns out to have closed the collection
  before its answer was lost, nobody could report any more, and nobody is waited for.
- Reports are taken until the attempt is closed, not until the clock says so: closing is one transaction, and
  a report is accepted before it or refused after it.
- What has been journalled is never computed again differently: plans are compared by digest on every start.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from dpbandits.errors import InvalidValue, ProtocolError, Refused, Unreachable
from dpbandits.protocol import Plan, Sums, ask, combine, decode, encode
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._operator_views import Reporting
from dpbandits.service.coordinator._participation import Participation
from dpbandits.service.coordinator._playing import Playing
from dpbandits.service.coordinator._releasing import close_here, close_shuffled
from dpbandits.service.coordinator._revealed import OwnSums, checked_reply, own_sums, revealed_sums
from dpbandits.service.coordinator._shuffler_link import ShufflerLink
from dpbandits.service.coordinator._watermark import WatchedStore
from dpbandits.service.shared import Writer
from dpbandits.service.wire import CollectionRequest
from dpbandits.storage import Attempt, PlanRecord, Store, Transaction

log = logging.getLogger("dpbandits.service")


class Coordinator:
    """All of a coordinator but the network: what callers may do, and `advance`, which moves the study on."""

    def __init__(self, context: Context, store: Store, link: ShufflerLink | None = None) -> None:
        if context.shuffled and link is None:
            raise InvalidValue("shuffler", None, "a link to it")
        self.store = store if context.watermark is None else WatchedStore(store, context.watermark)
        self.writer = Writer(self.store, hook=context.hook)
        self.context = self._opened(context)
        self.clients = Participation(self.context)
        self.actuator = Playing(self.context)
        self.operator = Reporting(self.context)
        self._link = link
        self._count_after = 0.0
        self._must_forget = True  # a process that died may have deleted reports and not emptied the log

    def _opened(self, given: Context) -> Context:
        """The context under the store's terms, once its whole journal was replayed."""
        try:
            planned = given.planned(self.writer.run("read", lambda transaction: transaction.study()))
            context = self.writer.run("begin", planned.settled, alone=True)
            self.writer.run("read", context.course.state)
        except BaseException:
            self.close()
            raise
        return context

    def close(self) -> None:
        """Finish what is under way and let go of the store."""
        self.writer.close()
        self.store.close()

    def advance(self) -> bool:
        """Take the next step, if one is due; whether there may be another at once."""
        if self._must_forget:
            self.store.forget()
            self._must_forget = False
        latest = self.writer.run("read", lambda transaction: transaction.latest())
        if latest is None or latest.over:
            return self._next(latest)
        now = self.context.clock.now()
        if latest.seconds is not None and now < latest.since:  # the clock was set back before a restart
            return self._change("clock-set-back", latest, replace(latest, since=now))
        steps = {
            "gathering": self._gathered,
            "playing": self._played,
            "opening": self._open,
            "collecting": self._collected,
            "closed": self._release,
        }
        return steps[latest.state](latest)

    @property
    def ended(self) -> bool:
        """Whether the horizon is reached."""
        return self.writer.run("read", self.context.course.state).ended

    def _next(self, latest: Attempt | None) -> bool:
        if latest is not None and latest.state == "failed":
            plan = self._plan(latest.phase)
            return self._add("ask-again", None, self._first(plan, latest.number + 1))
        state = self.writer.run("read", self.context.course.state)
        if state.ended:
            return False
        plan = ask(state)  # may take long, so it is not in a transaction
        if plan.asks:  # clients would refuse a plan outside the terms, and be spent for nothing
            self.context.terms.check(plan, self.context.name)
        return self._add("ask", plan, self._first(plan, 1))

    def _first(self, plan: Plan, number: int) -> Attempt:
        """Whoever asks nobody gathers nobody."""
        state = "gathering" if plan.asks else "playing"
        seconds = self.context.timing.join_seconds if plan.asks else None
        now = self.context.clock.now()
        return Attempt(phase=plan.phase, number=number, state=state, since=now, seconds=seconds)

    def _add(self, name: str, plan: Plan | None, attempt: Attempt) -> bool:
        def journal(transaction: Transaction) -> None:
            if plan is not None:
                body = encode(plan)
                transaction.add_plan(PlanRecord(phase=plan.phase, digest=plan.digest, body=body))
            transaction.add_attempt(attempt)

        try:
            self.writer.run(name, journal, alone=True)
        except Refused as refusal:  # another worker did
            if refusal.reason != "already-kept":
                raise
        return True

    def _gathered(self, latest: Attempt) -> bool:
        plan = self._plan(latest.phase)
        full = latest.joined >= plan.cohort
        if not full and not (self.context.expired(latest) and latest.joined >= self.context.minimum(plan)):
            return False
        return self._change("gathered", latest, replace(latest, state="playing", seconds=None))

    def _played(self, latest: Attempt) -> bool:
        plan = self._plan(latest.phase)
        if latest.played < plan.rounds:
            return False
        if not plan.asks:
            return self._change("played", latest, replace(latest, state="done"))
        if self.context.shuffled:
            return self._change("played", latest, replace(latest, state="opening"))
        return self._change("played", latest, self._collecting(latest))

    def _collecting(self, attempt: Attempt) -> Attempt:
        now, seconds = self.context.clock.now(), self.context.timing.report_seconds
        return replace(attempt, state="collecting", since=now, seconds=seconds)

    def _open(self, latest: Attempt) -> bool:
        assert self._link is not None
        plan = self._plan(latest.phase)
        members = self.writer.run("read", lambda t: t.members(latest.phase, latest.number))
        assert self.context.signed is not None
        request = CollectionRequest(
            study=self.context.name,
            terms=self.context.signed.terms,
            signature=self.context.signed.signature,
            plan=msgspec.Raw(encode(plan)),
            members=list(members),
        )
        self._link.open(latest.phase, latest.number, request)
        self.context.hook("shuffler-opened")
        return self._change("opened", latest, self._collecting(latest))

    def _collected(self, latest: Attempt) -> bool:
        if self.context.shuffled and latest.seconds is None:
            return self._extend(latest)
        if self.context.shuffled:
            return self.context.expired(latest) and self._close_shuffled(latest)
        if not self.context.expired(latest) and not self._complete(latest):
            return False
        return self._change("closed", latest, replace(latest, state="closed", seconds=None))

    def _release(self, _latest: Attempt) -> bool:
        self._must_forget = True
        self.writer.run("release", lambda t: close_here(self.context, t), alone=True)
        return True

    def _complete(self, latest: Attempt) -> bool:
        """Whether the whole cohort has answered; counting many takes time, so it is not done too often."""
        began = self.context.clock.now()
        if began < self._count_after:
            return False
        count = self.writer.run("read", lambda t: t.count_reports(latest.phase, latest.number))
        now = self.context.clock.now()
        self._count_after = now + 50 * (now - began)
        return count >= latest.joined

    def _extend(self, latest: Attempt) -> bool:
        """The shuffler was away at the deadline: once it is back, clients have their time again."""
        assert self._link is not None
        found, again = self._link.look(latest.phase, latest.number), self._collecting(latest)
        if found.state != "collecting":  # it was told to close, and we have not heard its answer
            again = replace(again, seconds=0.0)
        return self._change("extended", latest, again)

    def _close_shuffled(self, latest: Attempt) -> bool:
        assert self._link is not None
        try:
            sums = self._revealed(self._link, latest)
        except Unreachable:
            self._change("away", latest, replace(latest, seconds=None))
            raise
        self.context.hook("shuffler-closed")
        self.writer.run("release", lambda t: close_shuffled(self.context, t, latest, sums), alone=True)
        return True

    def _revealed(self, link: ShufflerLink, attempt: Attempt) -> Sums | None:
        """What the shuffler reveals of a collection, now closed; None if too few reported."""
        key, plan = (attempt.phase, attempt.number), self._plan(attempt.phase)
        reply = checked_reply(self.context, plan, attempt, link.close(*key))
        if reply.state == "closed" and self.context.terms.mode == "trusted":
            raise ProtocolError("the shuffler splits reports, but the study's mode is trusted")
        if reply.state == "failed" or self.context.terms.mode == "trusted":
            return revealed_sums(plan, reply)
        kept = self._own_sums(link, attempt, plan)
        reply = checked_reply(self.context, plan, attempt, link.sums(*key, kept.without))
        theirs = revealed_sums(plan, reply)
        if theirs is not None and reply.checksum != kept.checksum:
            # Both sums are journalled and will never agree, so fresh clients are asked.
            log.warning("sets-differ", extra={"phase": attempt.phase, "attempt": attempt.number})
            return None
        return None if theirs is None else combine(plan, kept.sums, theirs)

    def _own_sums(self, link: ShufflerLink, attempt: Attempt, plan: Plan) -> OwnSums:
        """The sums of our shares, journalled before the shuffler is asked for its own and forgets ours."""
        key = (attempt.phase, attempt.number)
        found = self.writer.run("read", lambda t: t.batch(*key))
        if found is not None:
            return decode(found, OwnSums)
        credentials = self.writer.run("read", lambda t: t.credentials(*key))
        own = own_sums(self.context, plan, attempt.number, credentials, link.shares(*key))
        return self._keep_own(key, own)

    def _keep_own(self, key: tuple[int, int], own: OwnSums) -> OwnSums:
        def keep(transaction: Transaction) -> OwnSums:
            """Another worker may have kept its own, from when the shuffler still had all shares."""
            found = transaction.batch(*key)
            if found is not None:
                return decode(found, OwnSums)
            transaction.keep_batch(*key, encode(own))
            return own

        return self.writer.run("own-sums", keep, alone=True)

    def _change(self, name: str, before: Attempt, after: Attempt) -> bool:
        """Go on, unless it is not as it was: another worker, or another client, was faster."""

        def change(transaction: Transaction) -> bool:
            if transaction.latest(lock=True) != before:
                return False
            transaction.change_attempt(before, after)
            return True

        self.writer.run(name, change, alone=True)
        return True

    def _plan(self, phase: int) -> Plan:
        known = self.context.course.known_plan(phase)
        return known or self.writer.run("read", lambda t: self.context.course.plan(t, phase))
