"""How often open pages ask for news: less often the more of them are open.

    open pages    up to 125    up to 250    up to 500    more
    interval            5 s         10 s         20 s    40 s

Up to 1,000 pages together then ask at most 25 times per second, which takes about a thirtieth of a core.
Pages of one reader share a cookie, so pages are counted by how often they ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_INTERVALS = (5, 10, 20, 40)  # seconds
_POLLS = 25.0  # per second, of all pages together
_SLACK = 0.9  # the share of `_POLLS` below which the interval becomes shorter again


class PagePace:
    """Counts the requests of open pages, and says how long a page should wait for the next one.

    A window is as long as the interval, so every open page asks about once in it.

    Args:
        clock: Returns the time in seconds; tests pass their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + _INTERVALS[0]
        self._count = 0
        self.seconds = _INTERVALS[0]
        """The interval between two requests of a page."""

    def polled(self) -> None:
        """Count a request."""
        now = self._clock()
        if now >= self._until:
            over = now - self._until  # no page asked for a while, so the window was longer
            self.seconds = self._interval(self._count * self.seconds / (self.seconds + over))
            self._until, self._count = now + self.seconds, 0
        self._count += 1

    def _interval(self, pages: float) -> int:
        """Return the shortest interval with which this many pages do not ask too often."""
        fitting = [one for one in _INTERVALS if pages / one <= _POLLS]
        shortest = fitting[0] if fitting else _INTERVALS[-1]
        if shortest < self.seconds and pages / shortest > _SLACK * _POLLS:
            return self.seconds  # do not change back and forth at a limit
        return shortest
