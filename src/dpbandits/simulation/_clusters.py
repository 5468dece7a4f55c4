"""Dask and Ray clusters as backends of joblib.

Ray's own joblib backend is not used, because it returns no result before all runs are done, so an
interruption would lose all results. joblib's own Dask backend is not used, because it waits forever for a run
whose workers died.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from joblib.parallel import ParallelBackendBase

from dpbandits.errors import InvalidValue
from dpbandits.simulation._engine import Engine, Pool, ignoring_interrupts

_SECONDS_TO_ANSWER = 30.0
_SECONDS_WITHOUT_WORKERS = 30.0  # then runs are given up; a worker restarts within a few seconds
Call = Callable[[], Any]


class _Futures(ParallelBackendBase):  # type: ignore[misc]
    """A joblib backend that starts calls with a function which returns futures.

    Args:
        start: Starts a call on the cluster and returns its future.
        slots: How many calls the cluster computes at a time.
    """

    supports_retrieve_callback = True

    def __init__(self, start: Callable[[Call], Any], slots: int) -> None:
        super().__init__()
        self._start, self._slots = start, slots

    def effective_n_jobs(self, n_jobs: int) -> int:  # noqa: ARG002
        """Return the number of slots, but at least 2: joblib would compute a single slot in this process."""
        return max(2, self._slots)

    def submit(self, func: Call, callback: Callable[[Any], None] | None = None) -> Any:
        """Start a call. joblib's callback receives the future when the call is done or has failed."""
        future = self._start(func)
        future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the result of a future that is done, or raise its error."""
        return out.result()


def _pool(start: Callable[[Call], Any], slots: int, workers: int | None, **errors: Any) -> Pool:
    at_once = min(workers or slots, slots)
    # If `workers` is less than the slots, no call may wait in the cluster: a free slot would start it.
    queued = 4 * slots if at_once == slots else at_once
    return Pool(backend=_Futures(start, slots), slots=at_once, queued=queued, **errors)


@contextmanager
def _dask(engine: Engine, workers: int | None) -> Iterator[Pool]:
    distributed = import_module("distributed")
    with ExitStack() as stack:
        place: Any = engine.address
        if place is None:
            with ignoring_interrupts():
                local = distributed.LocalCluster(
                    n_workers=workers or os.cpu_count(),
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.ERROR,  # without warnings about runs that an interruption cancels
                )
            place = stack.enter_context(local)
        try:
            client = distributed.Client(place, timeout=_SECONDS_TO_ANSWER, set_as_default=False)
            stack.enter_context(client)
            client.wait_for_workers(1, timeout=_SECONDS_TO_ANSWER)
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise engine.unreachable(error) from None
        slots, futures = sum(client.nthreads().values()), WeakSet[Any]()

        def start(call: Call) -> Any:
            future = client.submit(call, key=f"dpbandits-{uuid4().hex}")
            futures.add(future)
            return future

        stack.enter_context(_giving_up(client, futures))
        yield _pool(
            start,
            slots,
            workers,
            losses=(distributed.KilledWorker,),  # Dask has tried several workers
            ends=(CancelledError, distributed.comm.CommClosedError),
        )


@contextmanager
def _giving_up(client: Any, futures: WeakSet[Any]) -> Iterator[None]:
    """Cancel the runs if a Dask cluster has no workers for a while. Dask itself would wait forever."""
    done = threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not done.wait(1.0):
            try:
                seen = time.monotonic() if client.nthreads() else seen
            except Exception:  # the connection has ended, so the runs fail without this thread
                return
            if time.monotonic() - seen > _SECONDS_WITHOUT_WORKERS:
                client.cancel(list(futures))
                return

    watcher = threading.Thread(target=watch, name="watch-dask", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextmanager
def _ray(engine: Engine, workers: int | None) -> Iterator[Pool]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send statistics over the network
    ray = import_module("ray")
    started = not ray.is_initialized()
    if started:
        here = {"address": "local", "num_cpus": workers or os.cpu_count(), "include_dashboard": False}
        place = here if engine.address is None else {"address": engine.address}
        try:
            with ignoring_interrupts():
                ray.init(**place, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise engine.unreachable(error) from None
    try:
        remote = ray.remote(num_cpus=1)(_called)
        slots = int(ray.cluster_resources().get("CPU", 0))
        if slots == 0:
            raise InvalidValue("address", engine.address, "a Ray cluster with at least one CPU")
        yield _pool(
            lambda call: remote.remote(call).future(),
            slots,
            workers,
            losses=(ray.exceptions.WorkerCrashedError,),  # Ray has tried several workers
            ends=(ray.exceptions.RaySystemError,),
        )
    finally:
        if started:
            ray.shutdown()


def _called(call: Call) -> Any:
    return call()


OPENERS: dict[str, Callable[[Engine, int | None], AbstractContextManager[Pool]]] = {
    "dask": _dask,
    "ray": _ray,
}
