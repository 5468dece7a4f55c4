"""`Snapshot`: everything that the pages show. It is read at most once per second for all pages together."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from dpbandits.options import Options, name_of
from dpbandits.protocol import Plan, Progress, Study, decode
from dpbandits.service.coordinator import Coordinator, Journalled
from dpbandits.service.dashboard._analysis import Analysis, Analyst
from dpbandits.service.wire import StatusReply, Terms
from dpbandits.storage import Attempt, Transaction

_FRESH, _OLDEST = 1.0, 10.0  # the shortest and the longest time, in seconds, between two reads
_SHARE = 50  # between these limits, the time is this many times as long as a read takes
_COUNTED = ((120.0, 5.0), (float("inf"), 30.0))  # below so much time left, a page counts down in such steps


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a study at one moment.

    Attributes:
        study: The study.
        options: Its options; None if its actions have no names.
        terms: Its terms.
        status: The reply of `/v1/status`.
        progress: The records of `/v1/progress`.
        attempts: All attempts.
        plans: All plans.
        analysis: What was computed from the releases. It may be that of an earlier phase.
        clock_skew: The seconds by which the store's clock is ahead of this machine's.
        version: A digest that changes when a page would change.
    """

    study: Study
    options: Options | None
    terms: Terms
    status: StatusReply
    progress: tuple[Progress, ...]
    attempts: tuple[Attempt, ...]
    plans: tuple[Plan, ...]
    analysis: Analysis
    clock_skew: float
    version: str

    def label(self, action: int) -> str:
        """Return the name of an option."""
        return name_of(self.options, action)


class Snapshots:
    """Reads snapshots.

    Args:
        coordinator: The coordinator.
        trouble: Returns the error that blocks the study, or an empty text.
    """

    def __init__(self, coordinator: Coordinator, trouble: Callable[[], str]) -> None:
        self._coordinator = coordinator
        self._trouble = trouble
        self._analyst = Analyst(coordinator.context.options, coordinator.operator.results_of)
        self._lock = asyncio.Lock()
        self._last: Snapshot | None = None
        self._until = 0.0

    def forget(self) -> None:
        """Read the store again for the next page."""
        self._until = 0.0

    async def read(self) -> Snapshot:
        """Return the newest snapshot: at most a second old, or up to ten seconds if reading takes long."""
        async with self._lock:
            if self._last is None or time.monotonic() >= self._until:
                began = time.monotonic()
                self._last = await self._read()
                took = time.monotonic() - began  # counting many reports takes time
                self._until = time.monotonic() + min(_OLDEST, max(_FRESH, _SHARE * took))
            return self._last

    async def _read(self) -> Snapshot:
        coordinator = self._coordinator
        operator = coordinator.operator

        def look(
            transaction: Transaction,
        ) -> tuple[StatusReply, list[Progress], tuple[Attempt, ...], Journalled]:
            progress = operator.progress(transaction).phases
            return (
                operator.status(transaction),
                progress,
                transaction.attempts(),
                operator.journalled(transaction),
            )

        status, progress, attempts, journalled = await coordinator.writer.run_async("read", look)
        status = msgspec.structs.replace(status, trouble=self._trouble())
        analysis = self._analyst.show(journalled)
        return Snapshot(
            study=coordinator.context.study,
            options=coordinator.context.options,
            terms=coordinator.context.terms,
            status=status,
            progress=tuple(progress),
            attempts=attempts,
            plans=tuple(decode(record.body, Plan) for record in journalled.plans),
            analysis=analysis,
            clock_skew=coordinator.rounds.clock_skew,
            version=_version(status, analysis),
        )


def _version(status: StatusReply, analysis: Analysis) -> str:
    """Return a digest of what can change. The time left is counted in steps, so not every read changes it."""
    left, shown = status.seconds_left, ""
    if left is not None:
        step = next(step for below, step in _COUNTED if left < below)
        shown = f"{left // step}"
    fixed = msgspec.structs.replace(status, seconds_left=None, waiting="")
    done = (
        analysis.phase,
        analysis.dropped is not None,
        len(analysis.curves),
        analysis.prediction is not None,
    )
    text = msgspec.json.encode(fixed) + f"{shown} {done}".encode()
    return hashlib.sha256(text).hexdigest()[:16]
