"""The rounds of a study as a state machine over a store: no credentials, no network, no thread, no sleep.

A carrier moves messages between clients and these rounds: the service over HTTP, `run_in_process` by calling
Python functions, an engine such as Dask or Ray by its tasks. The rules below hold for each of them, whatever
crashes and however many workers share the store. An attempt at a phase goes through these states; nothing
else changes them:

    gathering    participants join: the ledger entry is written, and the place taken, before the plan is told.
                 → playing     when the cohort is full, or after `join_seconds` with the minimum there
    playing      the plan is played; the carrier records how many rounds were played so far.
                 → opening     when all are played, if a `Collector` takes the reports in
                 → collecting  when all are played, otherwise
                 → done        when all are played and the plan asks nobody
    opening      the collector is given the plan and the cohort, until it has acknowledged them.
                 → collecting
    collecting   reports come in: here, or at the collector.
                 → closed      where reports come in here: at the deadline, or as soon as the whole cohort has
                               reported
                 → released    at the deadline with the minimum there, with a collector
                 → failed      at the deadline with fewer, with a collector, or if it cannot reveal sums
    closed       no report comes in any more, so whatever crashes, a release is made of the same reports.
                 → released    with the minimum there (_releasing.py: one transaction)
                 → failed      with fewer: what came in is deleted, nothing is released

- A participant takes part once in a study. A second `join` is refused, in whichever attempt the first was,
  and whether or not a report came.
- A report is accepted once: the same bytes again change nothing, other bytes are refused.
- A phase begins with its plan, journalled with attempt 1 in one transaction, and ends with one release. The
  release is journalled and the reports are deleted in one transaction.
- After `released` or `done` the learner is told, and its progress journalled, before the next plan is asked.
- After `failed` the same plan is asked again in the next attempt, of fresh participants, and played again:
  fresh participants have seen none of it. Rounds of failed attempts do not count towards the horizon.
- With a collector an attempt closes at the deadline, never before: a time of closing that depended on the
  last report would tell when it came. If the collector cannot be reached then, nothing is closed, and the
  attempt is journalled without a deadline: clients get `report_seconds` again once the collector can be
  reached, after a restart too. If it turns out to have closed before its reply was lost, nobody could report
  any more, and nobody is waited for.
- Reports are accepted until the attempt is closed, not until the clock says so: closing is one transaction,
  and a report is accepted before it or refused after it.
- What has been journalled is never computed again differently: plans are compared by digest on every start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dpbandits.errors import FloatingPointNoise, InvalidValue, Refused, Unreachable
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, State, Study, ask, encode
from dpbandits.rounds._carrier import Collector, Custody, PlainCustody
from dpbandits.rounds._clock import Clock, Deadlines, SteadyClock
from dpbandits.rounds._journal import Journal
from dpbandits.rounds._releasing import Releasing
from dpbandits.rounds._transactions import Hook, OneByOne, Transactions
from dpbandits.storage import Attempt, PlanRecord, Store, StudyRecord, Transaction

Result = TypeVar("Result")


class Machine:
    """A study on a store, and `advance`, which moves it on. `Rounds` adds what participants may do.

    Opening it begins the study in an empty store, or replays the journal of one that was begun.

    Args:
        study: The study. Its assignment must be `everyone`.
        store: One store serves one study. The caller closes it.
        deadlines: How long participants have to join and to report.
        clock: Where the time comes from; by default the machine's clock.
        noise: Where the noise of releases comes from; by default a secure source.
        transactions: What runs steps in transactions; by default each step has its own.
        custody: Makes the `Custody` of an attempt from its plan and number; by default reports are
            stored readable.
        collector: The party that takes reports in, if that is not done here.
        check_plan: Called with each new plan that asks somebody, before it is journalled.
        hook: Called with the name of each journal step, for fault injection.

    Raises:
        InvalidValue: The store belongs to another study, or the study has an assignment other than
            `everyone`.
        FloatingPointNoise: The study asks for noise in floating point, and the source is not simulated.
        PlanMismatch: A journalled plan is not the one that this study asks.
    """

    def __init__(
        self,
        study: Study,
        store: Store,
        *,
        deadlines: Deadlines | None = None,
        clock: Clock | None = None,
        noise: NoiseSource | None = None,
        transactions: Transactions | None = None,
        custody: Callable[[Plan, int], Custody] | None = None,
        collector: Collector | None = None,
        check_plan: Callable[[Plan], None] = lambda _plan: None,
        hook: Hook = lambda _step: None,
    ) -> None:
        self.noise = noise or SecureNoise()
        check_study(study, self.noise)
        self.study = study
        self._store = store
        self._deadlines = deadlines or Deadlines()
        self._clock = clock or SteadyClock()
        self._collector = collector
        self._check_plan = check_plan
        self.transactions = transactions or OneByOne(store, hook)
        self.journal = Journal(study, self.transactions)
        made = custody or (lambda _plan, _attempt: PlainCustody(self.noise))
        self._releasing = Releasing(self.journal, made, self.minimum, hook)
        self._count_after = 0.0
        self._must_forget = True  # a process that died may have deleted reports and not emptied the log
        self._begin()
        self.journal.learn(check=True)

    def _begin(self) -> None:
        def begin(transaction: Transaction) -> None:
            body = encode({"study": self.study.digest})
            transaction.begin_study(StudyRecord(digest=self.study.name, body=body))

        found = self.read(lambda transaction: transaction.study())
        if found is None:
            self.transactions.run("begin", begin, alone=True)
        elif found.digest != self.study.name:
            expected = f"{self.study.name[:12]}: one store serves one study"
            raise InvalidValue("storage", f"the store of study {found.digest[:12]}", expected)

    @property
    def state(self) -> State:
        """The learner's state after the releases that it was told of."""
        return self.journal.state

    def current(self) -> Attempt | None:
        """The attempt that was begun last; None before the first `advance`."""
        return self.read(lambda transaction: transaction.latest())

    def plan(self, phase: int) -> Plan:
        """The journalled plan of a phase."""
        known = self.journal.known_plan(phase)
        return known or self.read(lambda transaction: self.journal.plan(transaction, phase))

    def minimum(self, plan: Plan) -> int:
        """The smallest number of reports that is released."""
        return self.study.privacy.minimum_reports(plan.cohort)

    def advance(self) -> bool:
        """Take the next step, if one is due; return whether there may be another at once."""
        if self._must_forget:
            self._store.forget()
            self._must_forget = False
        latest = self.current()
        if latest is None or latest.over:
            return self._next(latest)
        if latest.phase > self.state.phase:  # another worker has moved on
            self.journal.learn()
        now = self._clock.now()
        if latest.seconds is not None and now < latest.since:  # the clock was set back before a restart
            return self.change("clock-set-back", latest, replace(latest, since=now))
        steps = {
            "gathering": self._gathered,
            "playing": self._played,
            "opening": self._open,
            "collecting": self._collected if self._collector is None else self._collected_elsewhere,
            "closed": self._release,
        }
        return steps[latest.state](latest)

    def _next(self, latest: Attempt | None) -> bool:
        if latest is not None and latest.state == "failed":
            return self._add("ask-again", None, self._first(self.plan(latest.phase), latest.number + 1))
        if latest is not None and latest.phase >= self.state.phase:
            self.journal.learn()
            return True
        if self.state.ended:
            return False
        plan = ask(self.state)  # may take long, so it is not in a transaction
        if plan.asks:
            self._check_plan(plan)
        return self._add("ask", plan, self._first(plan, 1))

    def _first(self, plan: Plan, number: int) -> Attempt:
        """A new attempt; a plan that asks nobody gathers nobody."""
        state = "gathering" if plan.asks else "playing"
        seconds = self._deadlines.join_seconds if plan.asks else None
        return Attempt(phase=plan.phase, number=number, state=state, since=self._clock.now(), seconds=seconds)

    def _add(self, name: str, plan: Plan | None, attempt: Attempt) -> bool:
        def journal(transaction: Transaction) -> None:
            if plan is not None:
                body = encode(plan)
                transaction.add_plan(PlanRecord(phase=plan.phase, digest=plan.digest, body=body))
            transaction.add_attempt(attempt)

        try:
            self.transactions.run(name, journal, alone=True)
        except Refused as refusal:  # another worker did
            if refusal.reason != "already-kept":
                raise
        return True

    def _gathered(self, latest: Attempt) -> bool:
        plan = self.plan(latest.phase)
        full = latest.joined >= plan.cohort
        if not full and not (self._expired(latest) and latest.joined >= self.minimum(plan)):
            return False
        return self.change("gathered", latest, replace(latest, state="playing", seconds=None))

    def _played(self, latest: Attempt) -> bool:
        plan = self.plan(latest.phase)
        if latest.played < plan.rounds:
            return False
        if not plan.asks:
            return self.change("played", latest, replace(latest, state="done"))
        if self._collector is not None:
            return self.change("played", latest, replace(latest, state="opening"))
        return self.change("played", latest, self._collecting(latest))

    def _collecting(self, attempt: Attempt) -> Attempt:
        return replace(
            attempt, state="collecting", since=self._clock.now(), seconds=self._deadlines.report_seconds
        )

    def _open(self, latest: Attempt) -> bool:
        assert self._collector is not None
        self._collector.open(self.plan(latest.phase), latest)
        return self.change("opened", latest, self._collecting(latest))

    def _collected(self, latest: Attempt) -> bool:
        if not self._expired(latest) and not self._complete(latest):
            return False
        return self.change("closed", latest, replace(latest, state="closed", seconds=None))

    def _complete(self, latest: Attempt) -> bool:
        """Whether the whole cohort has reported; counting many takes time, so it is not done too often."""
        began = self._clock.now()
        if began < self._count_after:
            return False
        count = self.read(lambda transaction: transaction.count_reports(latest.phase, latest.number))
        now = self._clock.now()
        self._count_after = now + 50 * (now - began)
        return count >= latest.joined

    def _release(self, latest: Attempt) -> bool:
        self._must_forget = True
        self.transactions.run("release", lambda t: self._releasing.end(t, latest), alone=True)
        return True

    def _collected_elsewhere(self, latest: Attempt) -> bool:
        assert self._collector is not None
        if latest.seconds is None:  # it was away at the deadline: once it is back, clients have time again
            again = self._collecting(latest)
            if not self._collector.is_collecting(latest):  # it has closed, and its reply was lost
                again = replace(again, seconds=0.0)
            return self.change("extended", latest, again)
        if not self._expired(latest):
            return False
        try:
            sums = self._collector.close(self.plan(latest.phase), latest)
        except Unreachable:
            self.change("away", latest, replace(latest, seconds=None))
            raise
        self.transactions.run("release", lambda t: self._releasing.end(t, latest, sums), alone=True)
        return True

    def _expired(self, attempt: Attempt) -> bool:
        remaining = attempt.remaining(self._clock.now())
        return remaining is not None and remaining <= 0

    def change(self, name: str, before: Attempt, after: Attempt) -> bool:
        """Change the latest attempt, unless it is not as it was: another worker, or a client, was faster."""

        def change(transaction: Transaction) -> None:
            if transaction.latest(lock=True) == before:
                transaction.change_attempt(before, after)

        self.transactions.run(name, change, alone=True)
        return True

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work`, which only reads."""
        return self.transactions.run("read", work)


def check_study(study: Study, noise: NoiseSource) -> None:
    """Refuse a study that cannot be run outside a simulation.

    Raises:
        InvalidValue: The assignment is not `everyone`.
        FloatingPointNoise: The study asks for noise in floating point, and the source is not simulated.
    """
    if study.assignment != "everyone":
        raise InvalidValue("assignment", study.assignment, "everyone: rounds have no other")
    if study.privacy.only_simulated and not noise.simulated:
        raise FloatingPointNoise(
            f"noise: got {study.privacy.mechanism_noise}, expected integer noise such as discrete-gaussian: "
            "floats are for simulations only"
        )
