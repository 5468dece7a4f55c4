"""The clock, and the deadlines of clients. Both are arguments of `Rounds`, so that tests can replace them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from dpbandits._checks import positive


class Clock(Protocol):
    """A source of time in seconds since 1970."""

    def now(self) -> float:
        """Return the time, which is never less than at the previous call."""
        ...


class SteadyClock:
    """The wall clock at the start of the process, advanced by the monotonic clock.

    Within a process it only goes forward, even if the machine's clock is changed. After a restart, stored
    deadlines are compared with it. If the clock was set forward, a wait ends early, which costs at most one
    cohort. If the clock was set back, a wait starts again, so it lasts at most twice as long as configured.
    """

    def __init__(self) -> None:
        self._began = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since 1970, if the wall clock was right at the start."""
        return self._began + time.monotonic()


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """How long clients have to join and to report.

    Attributes:
        report_seconds: How long an attempt collects reports.
        join_seconds: After this time a phase starts with fewer clients than its cohort, if the minimum is
            there. None waits until the cohort is full.
    """

    report_seconds: float = 3600.0
    join_seconds: float | None = None

    def __post_init__(self) -> None:
        positive(report_seconds=self.report_seconds)
        if self.join_seconds is not None:
            positive(join_seconds=self.join_seconds)
