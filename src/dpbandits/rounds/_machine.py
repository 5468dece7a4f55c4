"""The rounds of a study as a state machine over a store: no credentials, no network, no thread, no sleep.

A carrier moves messages between clients and these rounds: the service uses HTTP, `run_in_process` calls
Python functions, and an engine such as Dask or Ray could use its tasks. The rules below hold for every
carrier, after any crash, and with any number of workers on one store. An attempt at a phase goes through
these states, by these transitions only:

    gathering    Participants join. The ledger entry is written, and the place taken, before the plan is sent.
                 → playing     when the cohort is full, or after `join_seconds` if the minimum has joined
                 → failed      if the operator has closed the study
    playing      The plan is played. The carrier records how many rounds were played so far.
                 → opening     when all rounds are played, if a `Collector` collects the reports
                 → collecting  when all rounds are played, otherwise
                 → done        when all rounds are played and the plan asks nobody
                 → failed      if the operator has closed the study
    opening      The plan and the cohort are sent to the collector until it acknowledges them.
                 → collecting
    collecting   Participants report, here or to the collector.
                 → closed      without a collector: at the deadline, or once the whole cohort has reported
                 → released    with a collector: at the deadline, if the minimum has reported
                 → failed      with a collector: at the deadline, if fewer have reported, or if it cannot
                               reveal sums
    closed       No more reports are accepted, so a release after a crash uses the same reports.
                 → released    if the minimum has reported (_releasing.py: one transaction)
                 → failed      if fewer have: their reports are deleted, and nothing is released

- A participant takes part once per study. A second `join` is refused, even in another attempt, and even if
  the participant has not reported.
- A report is accepted once. The same bytes again change nothing; other bytes are refused.
- A phase starts with its plan, journalled together with attempt 1 in one transaction, and ends with one
  release. The release is journalled and the reports are deleted in one transaction.
- After `released` or `done`, the learner processes the phase and its progress is journalled before the next
  phase is planned.
- After `failed`, the next attempt asks new participants with the same plan, unless the operator has closed
  the study. The plan is played again, since new participants have seen none of it. Rounds of failed attempts
  do not count towards the horizon.
- With a collector, an attempt closes at the deadline and never earlier: otherwise the time of closing would
  reveal when the last report arrived. If the collector cannot be reached at the deadline, nothing is closed,
  and the attempt is journalled without a deadline. Once the collector can be reached again, clients get
  `report_seconds` again; this also holds after a restart. If the collector had closed and only its reply was
  lost, clients could not report, so the rounds do not wait for them.
- Reports are accepted until the attempt is closed, not until the deadline on the clock. Closing is one
  transaction: a report that arrives before it is accepted, and one that arrives later is refused.
- The operator may pause, resume and close a study (_orders.py). Every step reads the orders first.
- Plans that have been journalled never change: they are compared with the computed plans on every start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dpbandits.errors import FloatingPointNoise, InvalidValue, Refused, Unreachable
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, State, Study, ask, encode
from dpbandits.rounds._carrier import Collector, Custody, PlainCustody
from dpbandits.rounds._clock import Clock, Deadlines, StoreClock
from dpbandits.rounds._journal import Journal
from dpbandits.rounds._orders import CLOSED, PAUSED, RUNNING, standing_of
from dpbandits.rounds._releasing import Releasing
from dpbandits.rounds._transactions import Hook, OneByOne, Transactions
from dpbandits.storage import Attempt, PlanRecord, Store, StudyRecord, Transaction

Result = TypeVar("Result")

_WITHOUT_REPORTS = ("gathering", "playing")  # nobody can have reported yet


class Machine:
    """A study on a store. `advance` takes its next step; `Rounds` adds the calls of participants.

    Opening an empty store starts the study. Opening a store with a study replays its journal.

    Args:
        study: The study. Its assignment must be `everyone`.
        store: The store, which serves this study alone. The caller closes it.
        deadlines: How long participants have to join and to report.
        clock: The source of time; by default the store's clock, which all workers share.
        noise: The source of noise for releases; secure by default.
        transactions: Runs steps in transactions; by default each step has its own.
        custody: Creates the `Custody` of an attempt from its plan and number; by default reports are stored
            unencrypted.
        collector: The party that collects reports; None if reports are sent here.
        check_plan: Called with each new plan that asks clients, before it is journalled.
        hook: Called with the name of each journal step, for fault injection.

    Raises:
        InvalidValue: The store belongs to another study, or the study has an assignment other than
            `everyone`.
        FloatingPointNoise: The study requests noise in floating point, and the source is not simulated.
        PlanMismatch: A journalled plan differs from the one that this study computes.
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
        check_study(study, simulated=self.noise.simulated)
        self.study = study
        self._store = store
        self._deadlines = deadlines or Deadlines()
        self._clock = clock or StoreClock(store)
        self._collector = collector
        self._check_plan = check_plan
        self.transactions = transactions or OneByOne(store, hook)
        self.journal = Journal(study, self.transactions)
        made = custody or (lambda _plan, _attempt: PlainCustody(self.noise))
        self._releasing = Releasing(journal=self.journal, custody=made, minimum=self.minimum, hook=hook)
        self._counted_at, self._count_after = 0.0, 0.0
        self._must_forget = True  # a process that died may have left deleted reports on the disk
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
        """The learner's state after the releases that it has processed."""
        return self.journal.state

    def now(self) -> float:
        """Return the time in seconds since 1970 that deadlines are compared with."""
        return self._clock.now()

    def seconds_left(self, attempt: Attempt) -> float | None:
        """Return the time until the deadline of an attempt; None if it has none.

        Args:
            attempt: The attempt.
        """
        return attempt.remaining(self._clock.now())

    @property
    def clock_skew(self) -> float:
        """The seconds by which the store's clock is ahead of this machine's; 0 with another clock."""
        return self._clock.skew if isinstance(self._clock, StoreClock) else 0.0

    def current(self) -> Attempt | None:
        """Return the latest attempt; None before the first `advance`."""
        return self.read(lambda transaction: transaction.latest())

    def plan(self, phase: int) -> Plan:
        """Return the journalled plan of a phase.

        Args:
            phase: The phase, counted from 1.
        """
        known = self.journal.known_plan(phase)
        return known or self.read(lambda transaction: self.journal.plan(transaction, phase))

    def minimum(self, plan: Plan) -> int:
        """Return the smallest number of reports with which a phase is released.

        Args:
            plan: The plan of the phase.
        """
        return self.study.privacy.minimum_reports(plan.cohort)

    def advance(self) -> bool:
        """Take the next step if one is due.

        Returns:
            Whether another step may be due at once.
        """
        if self._must_forget:
            self._store.forget()
            self._must_forget = False
        latest, standing = self.read(lambda transaction: (transaction.latest(), standing_of(transaction)))
        if standing == PAUSED:
            return False
        if stops(standing, latest):
            return self._stop(latest)
        if latest is None or latest.over:
            return self._next(latest)
        if latest.phase > self.state.phase:  # another worker has advanced the study
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

    def _stop(self, latest: Attempt | None) -> bool:
        """End a study that its operator has closed. No reports are lost, and no more clients are asked."""
        if latest is None:
            return False
        if not latest.over:
            return self.change("stopped", latest, replace(latest, state="failed", seconds=None))
        if latest.state != "failed" and latest.phase >= self.state.phase:
            self.journal.learn()
        return False

    def _next(self, latest: Attempt | None) -> bool:
        if latest is not None and latest.state == "failed":
            return self._add("ask-again", None, self._first(self.plan(latest.phase), latest.number + 1))
        if latest is not None and latest.phase >= self.state.phase:
            self.journal.learn()
            return True
        if self.state.ended:
            return False
        plan = ask(self.state)  # may take long, so it runs outside a transaction
        if plan.asks:
            self._check_plan(plan)
        return self._add("ask", plan, self._first(plan, 1))

    def _first(self, plan: Plan, number: int) -> Attempt:
        """Return a new attempt; if its plan asks nobody, it starts with playing."""
        state = "gathering" if plan.asks else "playing"
        seconds = self._deadlines.join_seconds if plan.asks else None
        return Attempt(phase=plan.phase, number=number, state=state, since=self._clock.now(), seconds=seconds)

    def _add(self, name: str, plan: Plan | None, attempt: Attempt) -> bool:
        def journal(transaction: Transaction) -> None:
            if standing_of(transaction) != RUNNING:  # the operator was faster
                return
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
        """Return whether the whole cohort has reported.

        Counting many reports takes time, so the count is repeated only after 50 times as long as it took.
        """
        began = self._clock.now()
        if self._counted_at <= began < self._count_after:  # not so after the clock was set back
            return False
        count = self.read(lambda transaction: transaction.count_reports(latest.phase, latest.number))
        now = self._clock.now()
        self._counted_at, self._count_after = began, now + 50 * (now - began)
        return count >= latest.joined

    def _release(self, latest: Attempt) -> bool:
        self._must_forget = True
        self.transactions.run("release", lambda t: self._releasing.end(t, latest), alone=True)
        return True

    def _collected_elsewhere(self, latest: Attempt) -> bool:
        assert self._collector is not None
        if latest.seconds is None:  # the collector was unreachable at the deadline
            again = self._collecting(latest)
            if not self._collector.is_collecting(latest):  # it has closed, but its reply was lost
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
        """Change the latest attempt, unless another worker or a client has changed it first.

        Args:
            name: The name of the step, for the hook.
            before: The attempt as it was read.
            after: The attempt as it shall be.

        Returns:
            Always True: the next step reads the attempt again.
        """

        def change(transaction: Transaction) -> None:
            if transaction.latest(lock=True) == before:
                transaction.change_attempt(before, after)

        self.transactions.run(name, change, alone=True)
        return True

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work`, which only reads.

        Args:
            work: What to read in a transaction.

        Returns:
            The result of `work`.
        """
        return self.transactions.run("read", work)


def stops(standing: str, latest: Attempt | None) -> bool:
    """Return whether a closed study ends now: nobody can have reported in an attempt that goes on.

    Args:
        standing: The standing of the study, as of `standing_of`.
        latest: The latest attempt; None if there is none.

    Returns:
        False if the study is not closed, or if its latest attempt may have reports.
    """
    return standing == CLOSED and (latest is None or latest.over or latest.state in _WITHOUT_REPORTS)


def check_study(study: Study, *, simulated: bool = False) -> None:
    """Check that a study can be run outside a simulation.

    Args:
        study: The study.
        simulated: Whether the noise of releases is simulated. It may then be in floating point.

    Raises:
        InvalidValue: The assignment is not `everyone`.
        FloatingPointNoise: The study requests noise in floating point, and the source is not simulated.
    """
    study.require_one_cohort("a deployed study")
    if study.privacy.only_simulated and not simulated:
        raise FloatingPointNoise(
            f"noise: got {study.privacy.mechanism_noise}, expected integer noise such as discrete-gaussian: "
            "noise in floating point is for simulations only"
        )
