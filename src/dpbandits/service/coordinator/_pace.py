"""How often clients poll: the more clients there are, the less often each of them polls.

Every client polls, so the polls of a large cohort could keep a coordinator busy that has nothing to tell. The
interval grows with the number of clients, so that all clients together poll about `_POLLS` times per
second. This growth ends at a quarter of `report_seconds`, so that every client learns in time that it should
report, and at 45 seconds, so that connections stay open between polls. The interval is never shorter than
`poll_seconds` of the study file.

    clients                  100     1,000     5,000     20,000
    interval (5 s, 60 s)     5 s       5 s      15 s       15 s
    interval (5 s, 600 s)    5 s       5 s      20 s       45 s

The interval reveals roughly how many clients poll, and nothing else. Clients may know this number: the sizes
of cohorts are public.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dpbandits.service.shared import Timing

_POLLS = 250.0  # polls per second of all clients together, which take about a tenth of a core
_LONGEST = 45.0  # seconds; an idle connection ends after 60
_WINDOW = 5.0  # the shortest time, in seconds, in which clients are counted


def poll_interval(clients: int, timing: Timing) -> float:
    """Return the seconds between two polls of a client.

    Args:
        clients: How many clients poll.
        timing: The timing of the study.
    """
    most = min(_LONGEST, timing.report_seconds / 4)
    return max(timing.poll_seconds, min(most, clients / _POLLS))


class Pace:
    """Counts the clients that poll, and says when they should poll again.

    Clients are counted in windows that are 1.5 times as long as the interval, and at least 5 seconds long. So
    each client polls at least once per window, although clients vary the interval.

    Args:
        timing: The timing of the study.
        clock: Returns the time in seconds; tests pass their own.
    """

    def __init__(self, timing: Timing, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._timing = timing
        self._clock, self._since = clock, clock()
        self._seen = set[int]()
        self._before = 0
        self.seconds = timing.poll_seconds
        """The interval between two polls of a client."""

    def polled(self, credential: str) -> None:
        """Count the poll of a client."""
        if self._clock() - self._since >= max(_WINDOW, 1.5 * self.seconds):
            self._before, self._seen, self._since = len(self._seen), set(), self._clock()
        self._seen.add(hash(credential))
        self.seconds = poll_interval(max(self._before, len(self._seen)), self._timing)
