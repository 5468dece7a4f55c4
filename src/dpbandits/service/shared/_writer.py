"""One thread owns the store: what waits while a commit is on its way goes into the next, together.

A caller is answered after the commit, so whatever was answered is durable. What comes in one pass of an event
loop is handed over at once, and its callers are woken at once. If what was put together cannot be committed
together (another worker was faster, or one job failed), each is tried again alone; nothing of it had left the
process.

The hook is told every commit by name, `NAME-before-commit` within the transaction and `NAME-after-commit`
before anybody hears of it: a fault injection can end the process there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from dpbandits.errors import Refused, StorageError
from dpbandits.rounds import Hook
from dpbandits.storage import NewReport, Store, Transaction

Result = TypeVar("Result")

_TOGETHER = 1024  # with so many jobs a commit waits for no more
_TRIES = 5  # when another worker changes the same rows


@dataclass(slots=True, kw_only=True)
class _Job:
    """`done` is of a thread that waits, or of an event loop, `loop`, that does not."""

    name: str
    work: Callable[[Transaction], Any] | NewReport
    alone: bool
    done: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None
    begun: bool = False

    def begin(self) -> bool:
        """Whether anybody still waits for it; from now on it will be done."""
        if not self.begun and isinstance(self.done, Future):
            self.begun = self.done.set_running_or_notify_cancel()
        elif not self.begun:
            self.begun = not self.done.cancelled()
        return self.begun


class Writer:
    """Group commit."""

    def __init__(self, store: Store, *, hook: Hook = lambda _step: None) -> None:
        self._store = store
        self._hook = hook
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        self._passing: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether anything can be written."""
        return self._thread.is_alive()

    def submit(
        self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False
    ) -> Future[Result]:
        """Do it in a transaction, together with others or `alone`. It may be done again if that fails.

        Together with others, `work` must not raise `Refused` once it has written.
        """
        done = Future[Result]()
        self._queue.put([_Job(name=name, work=work, alone=alone, done=done)])
        return done

    def submit_report(self, report: NewReport) -> Future[str]:
        """Take a report in; all that wait are taken in by one statement."""
        done = Future[str]()
        self._queue.put([_Job(name="report", work=report, alone=False, done=done)])
        return done

    async def run_async(
        self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False
    ) -> Result:
        """Submit it and wait, in an event loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._gather(loop, _Job(name=name, work=work, alone=alone, done=done, loop=loop))
        return await done

    async def take_async(self, report: NewReport) -> str:
        """Take a report in, in an event loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        self._gather(loop, _Job(name="report", work=report, alone=False, done=done, loop=loop))
        return await done

    def _gather(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        """Hand it over with all that comes in the same pass of the loop."""
        if loop in self._passing:
            self._passing[loop].append(job)
        else:
            self._passing[loop] = [job]
            loop.call_soon(lambda: self._queue.put(self._passing.pop(loop)))

    def run(self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False) -> Result:
        """Submit it and wait."""
        return self.submit(name, work, alone=alone).result()

    def close(self) -> None:
        """Finish what was submitted."""
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
        """Take what else has come; whether the end has."""
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
        try:
            outcomes = self._transact(jobs)
        except Exception as error:
            outcomes = [self._again(jobs[0], error)] if len(jobs) == 1 else self._one_by_one(jobs)
        _fulfil(list(zip(jobs, outcomes, strict=True)))

    def _one_by_one(self, jobs: list[_Job]) -> list[Any]:
        """Each alone; if already the first finds the store gone, the others are not made to wait for it."""
        outcomes = list[Any]()
        for job in jobs:
            if outcomes and isinstance(outcomes[0], StorageError):
                outcomes.append(outcomes[0])
            else:
                outcomes.append(self._again(job, None))
        return outcomes

    def _again(self, job: _Job, error: Exception | None) -> Any:
        """What a job comes to by itself; tried again while another worker is faster, but not for ever."""
        for _ in range(_TRIES):
            if error is not None and not (isinstance(error, Refused) and error.reason == "changed"):
                return error
            try:
                return self._transact([job])[0]
            except Exception as another:
                error = another
        changed = isinstance(error, Refused) and error.reason == "changed"
        return StorageError("storage: others keep changing the same rows") if changed else error

    def _transact(self, jobs: list[_Job]) -> list[Any]:
        names = list(dict.fromkeys(job.name for job in jobs))
        with self._store.transaction() as transaction:
            outcomes = self._outcomes(transaction, jobs)
            self._tell(names, "before-commit")
        self._tell(names, "after-commit")
        return outcomes

    def _outcomes(self, transaction: Transaction, jobs: list[_Job]) -> list[Any]:
        reports = [job.work for job in jobs if isinstance(job.work, NewReport)]
        taken = iter(transaction.accept(reports) if reports else ())
        single = len(jobs) == 1
        return [
            next(taken) if isinstance(job.work, NewReport) else _attempt(job.work, transaction, single)
            for job in jobs
        ]

    def _tell(self, names: Iterable[str], when: str) -> None:
        for name in names:
            self._hook(f"{name}-{when}")


def _attempt(work: Callable[[Transaction], Any], transaction: Transaction, single: bool) -> Any:
    """Among others a refusal is an outcome, unless another worker is why; alone it undoes all."""
    try:
        return work(transaction)
    except Refused as refusal:
        if single or refusal.reason == "changed":
            raise
        return refusal


def _fulfil(outcomes: list[tuple[_Job, Any]]) -> None:
    """Tell everybody; a loop is woken once for all that wait in it."""
    by_loop = dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any]]]()
    for job, outcome in outcomes:
        if job.loop is None:
            _settle(job.done, outcome)
        else:
            by_loop.setdefault(job.loop, []).append((job, outcome))
    for loop, settled in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
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
