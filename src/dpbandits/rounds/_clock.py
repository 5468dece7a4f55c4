"""Clocks, and the deadlines of clients. Both are arguments of `Rounds`, so that tests can replace them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Protocol

from dpbandits._checks import positive
from dpbandits.storage import Store

log = logging.getLogger("dpbandits.rounds")

_AGREED = 10.0  # seconds after which the store is asked for the time again; clocks drift by less than 1 ms
_NOTABLE = 1.0  # seconds of skew that are logged


class Clock(Protocol):
    """A source of time in seconds since 1970."""

    def now(self) -> float:
        """Return the time. It goes back only if the clock of a database is set back."""
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


class StoreClock:
    """The clock of a store: workers on several machines agree on deadlines, whatever their own clocks say.

    The store is asked for the time every 10 seconds. In between, the machine's clock measures the time that
    has passed. A store without a clock of its own, such as SQLite, has the machine's clock.

    Args:
        store: The store that the workers share.
        machine: The machine's clock; by default a `SteadyClock`.

    Attributes:
        skew: The seconds by which the store's clock is ahead of the machine's. A change of more than one
            second is logged.
    """

    def __init__(self, store: Store, *, machine: Clock | None = None) -> None:
        self._store = store
        self._machine = machine or SteadyClock()
        self._asked: float | None = None
        self._logged = 0.0
        self.skew = 0.0

    def now(self) -> float:
        """Return the seconds since 1970 by the store's clock.

        Raises:
            StorageError: The store was asked for the time and cannot be reached.
        """
        began = self._machine.now()
        if self._asked is None or not self._asked <= began < self._asked + _AGREED:
            self._compare(began)
        return self._machine.now() + self.skew

    def _compare(self, began: float) -> None:
        read = self._store.now()
        if read is not None:
            self.skew = read - (began + self._machine.now()) / 2  # the reply was made halfway, on average
        self._asked = began
        if abs(self.skew - self._logged) > _NOTABLE:
            self._logged = self.skew
            told = (
                f"the store's clock is {self.skew:+.1f} s from this machine's; "
                "deadlines follow the store's clock"
            )
            log.warning("clock-skew", extra={"kind": "clock", "told": told})


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """How long clients have to join and to report.

    Attributes:
        report_seconds: How long an attempt collects reports.
        join_seconds: After this time a phase starts with fewer clients than its cohort, if the minimum is
            there. None waits until the cohort is full.

    Example:
        >>> from dpbandits.rounds import Deadlines
        >>> Deadlines(report_seconds=600, join_seconds=60).join_seconds
        60
    """

    report_seconds: float = 3600.0
    join_seconds: float | None = None

    def __post_init__(self) -> None:
        positive(report_seconds=self.report_seconds)
        if self.join_seconds is not None:
            positive(join_seconds=self.join_seconds)
