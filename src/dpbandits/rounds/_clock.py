"""Time as an argument: the clock, and how long clients have."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from dpbandits._checks import positive


class Clock(Protocol):
    """Seconds since 1970, as a carrier counts them."""

    def now(self) -> float:
        """The time, never less than at the last call."""
        ...


class SteadyClock:
    """The wall clock at the start of the process, advanced by the monotonic clock.

    Within a process it only goes forward, however the machine's clock is set. Stored deadlines are compared
    with it after a restart. A clock that was set forward ends a wait early, which costs at most one cohort.
    A clock that was set back makes a wait begin again, so it lasts at most twice as long as configured.
    """

    def __init__(self) -> None:
        self._began = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970, if the clock was right at the start."""
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
