"""Time as an argument. Within a process it only goes forward, however the machine's clock is set."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970."""

    def now(self) -> float:
        """Never less than it was."""
        ...


class SteadyClock:
    """The wall clock as it was when the process began, and steady time since.

    Stored deadlines are compared with it after a restart: a clock that was set forward ends a wait early,
    which costs a cohort at most; one that was set back makes a wait begin again, and so
    at most twice as long as it was to be.
    """

    def __init__(self) -> None:
        self._began = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since 1970, if the clock was right at the start."""
        return self._began + time.monotonic()
