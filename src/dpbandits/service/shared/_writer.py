"""The writer: one thread that owns the store and commits many requests in one transaction (group commit).

Jobs that arrive during a commit wait and are committed together in the next one. A caller gets its result
after the commit, so every result that was returned is durable. Jobs from the same pass of an event loop are
queued together, and their callers are woken together.

If a group cannot be committed, because another worker process changed the same rows or because one job
failed, each of its jobs is retried alone. This is safe: no result of the failed group had left the process.

The hook is called with a name around every commit: `NAME-before-commit` inside the transaction, and
`NAME-after-commit` before any caller gets its result. Tests inject crashes there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from dpbandits.errors import Refused, StorageError
from dpbandits.rounds import Hook
from dpbandits.storage import Store, StoredReport, Transaction

Result = TypeVar("Result")

READ = "read"
"""The name of jobs that change nothing."""

_TOGETHER = 1024  # once a group has this many jobs, no more are added
_TRIES = 5  # tries per job while another worker changes the same rows


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job and the future of its result. `loop` is the event loop that waits for it; None for a thread."""

    name: str
    work: Callable[[Transaction], Any] | StoredReport
    alone: bool
    done: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None
    begun: bool = False

    def begin(self) -> bool:
        """Mark the job as started, and return False if its caller has cancelled it."""
        if not self.begun and isinstance(self.done, Future):
            self.begun = self.done.set_running_or_notify_cancel()
        elif not self.begun:
            self.begun = not self.done.cancelled()
        return self.begun


class Writer:
    """The writer thread of a store.

    Args:
        store: The store; only the writer thread opens transactions on it.
        hook: Called with the name of each step around a commit.
    """

    def __init__(self, store: Store, *, hook: Hook = lambda _step: None) -> None:
        self._store = store
        self._hook = hook
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self.changes = 0
        """Increases before callers get results, unless all jobs were refused or are named `read`."""
        self._since: float | None = None  # when the current transaction began, if its job runs alone
        self._passing: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    @property
    def long_step(self) -> float | None:
        """The seconds for which a step with its own transaction has been running; None if none is running."""
        since = self._since
        return None if since is None else time.monotonic() - since

    def submit(
        self, name: str, work: Callable[[Transaction], Result] | StoredReport, *, alone: bool = False
    ) -> Future[Result]:
        """Run `work` in a transaction, or store a report, without waiting for it.

        Args:
            name: The name of the step, for the hook.
            work: What to do in the transaction. It is run again if the transaction fails. Unless `alone` is
                set, it must not raise `Refused` after it has written: the group would commit these writes.
                If it is a report, one SQL statement stores it together with all reports of its group.
            alone: Whether to use a transaction that is not shared with other jobs.

        Returns:
            A future with the result of `work`, or with the outcome of the report as `Transaction.accept`
            returns it. It is done after the commit.
        """
        done = Future[Result]()
        self._queue.put([_Job(name=name, work=work, alone=alone, done=done)])
        return done

    async def run_async(
        self, name: str, work: Callable[[Transaction], Result] | StoredReport, *, alone: bool = False
    ) -> Result:
        """Run a job as `submit` does, and wait for its commit.

        Args:
            name: The name of the step, for the hook.
            work: What to do in the transaction, or a report to store.
            alone: Whether to use a transaction that is not shared with other jobs.

        Returns:
            The result of `work`, or the outcome of the report.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._gather(loop, _Job(name=name, work=work, alone=alone, done=done, loop=loop))
        return await done

    def _gather(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        """Queue a job together with all others from the same pass of the event loop."""
        if loop in self._passing:
            self._passing[loop].append(job)
        else:
            self._passing[loop] = [job]
            loop.call_soon(lambda: self._queue.put(self._passing.pop(loop)))

    def run(self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False) -> Result:
        """Run `work` in a transaction and block until the commit; the arguments are those of `submit`."""
        return self.submit(name, work, alone=alone).result()

    def close(self) -> None:
        """Finish all submitted jobs and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended and (jobs := self._queue.get()) is not None:
            ended = self._add_waiting(jobs)
            for alone, run in itertools.groupby(jobs, key=lambda job: job.alone):
                for together in ([job] for job in run) if alone else (list(run),):
                    self._commit(together)

    def _add_waiting(self, jobs: list[_Job]) -> bool:
        """Add the jobs that have arrived meanwhile; return whether `close` was called."""
        while len(jobs) < _TOGETHER:
            try:
                following = self._queue.get_nowait()
            except queue.Empty:
                return False
            if following is None:
                return True
            jobs += following
        return False

    def _commit(self, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if job.begin()]
        if not jobs:
            return
        self._since = time.monotonic() if jobs[0].alone else None
        try:
            outcomes = self._transact(jobs)
        except Exception as error:
            outcomes = [self._again(jobs[0], error)] if len(jobs) == 1 else self._one_by_one(jobs)
        finally:
            self._since = None
        settled = list(zip(jobs, outcomes, strict=True))
        # Refused jobs change nothing. If they counted, bad requests would make polls read the store.
        self.changes += any(job.name != READ and not isinstance(found, Refused) for job, found in settled)
        _fulfil(settled)

    def _one_by_one(self, jobs: list[_Job]) -> list[Any]:
        """Commit each job alone. If the first one finds the store unreachable, fail the others at once."""
        outcomes = list[Any]()
        for job in jobs:
            if outcomes and isinstance(outcomes[0], StorageError):
                outcomes.append(outcomes[0])
            else:
                outcomes.append(self._again(job, None))
        return outcomes

    def _again(self, job: _Job, error: Exception | None) -> Any:
        """Return the outcome of one job alone; retry a few times while another worker changes its rows."""
        for _ in range(_TRIES):
            if error is not None and not (isinstance(error, Refused) and error.reason == "changed"):
                return error
            try:
                return self._transact([job])[0]
            except Exception as another:
                error = another
        changed = isinstance(error, Refused) and error.reason == "changed"
        return StorageError("storage: other workers keep changing the same rows") if changed else error

    def _transact(self, jobs: list[_Job]) -> list[Any]:
        names = list(dict.fromkeys(job.name for job in jobs))
        with self._store.transaction() as transaction:
            outcomes = self._outcomes(transaction, jobs)
            self._tell(names, "before-commit")
        self._tell(names, "after-commit")
        return outcomes

    def _outcomes(self, transaction: Transaction, jobs: list[_Job]) -> list[Any]:
        reports = [job.work for job in jobs if isinstance(job.work, StoredReport)]
        taken = iter(transaction.accept(reports) if reports else ())
        single = len(jobs) == 1
        return [
            next(taken) if isinstance(job.work, StoredReport) else _attempt(job.work, transaction, single)
            for job in jobs
        ]

    def _tell(self, names: Iterable[str], when: str) -> None:
        for name in names:
            self._hook(f"{name}-{when}")


def _attempt(work: Callable[[Transaction], Any], transaction: Transaction, single: bool) -> Any:
    """Run a job. A refusal rolls back the transaction of a single job. In a group it is a result.

    The reason `changed` means that another worker changed the rows. Then the whole group must be retried.
    """
    try:
        return work(transaction)
    except Refused as refusal:
        if single or refusal.reason == "changed":
            raise
        return refusal


def _fulfil(outcomes: list[tuple[_Job, Any]]) -> None:
    """Deliver all results. Each event loop is woken once for all of its callers."""
    by_loop = dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any]]]()
    for job, outcome in outcomes:
        if job.loop is None:
            _settle(job.done, outcome)
        else:
            by_loop.setdefault(job.loop, []).append((job, outcome))
    for loop, settled in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the event loop is closed, so no caller waits in it
            loop.call_soon_threadsafe(_settle_all, settled)


def _settle_all(outcomes: list[tuple[_Job, Any]]) -> None:
    for job, outcome in outcomes:
        if not job.done.done():
            _settle(job.done, outcome)


def _settle(done: Future[Any] | asyncio.Future[Any], outcome: Any) -> None:
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
