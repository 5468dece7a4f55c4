"""Clients are told to poll less often the more of them there are."""

from __future__ import annotations

import heapq

from dpbandits.service.coordinator._pace import Pace
from dpbandits.service.shared import Timing


class Crowd:
    """Clients that poll as they are told, on a clock of their own."""

    def __init__(self, timing: Timing) -> None:
        self.now = 0.0
        self.pace = Pace(timing, clock=lambda: self.now)
        self._due = list[tuple[float, int]]()
        self.polls = list[tuple[float, int]]()

    def join(self, clients: int) -> None:
        """Let clients start within the next second."""
        for number in range(clients):
            heapq.heappush(self._due, (self.now + number / clients, len(self._due)))

    def leave(self, staying: int) -> None:
        self._due = [one for one in self._due if one[1] < staying]
        heapq.heapify(self._due)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due[0][0] < until:
            self.now, number = heapq.heappop(self._due)
            self.pace.polled(f"client {number}")
            self.polls.append((self.now, number))
            heapq.heappush(self._due, (self.now + self.pace.seconds, number))
        self.now = until

    def rate(self, seconds: float) -> float:
        """Return the polls per second over the last seconds."""
        return sum(self.now - when < seconds for when, _ in self.polls) / seconds


def test_few_clients_poll_as_the_study_file_says() -> None:
    crowd = Crowd(Timing(report_seconds=60, poll_seconds=1))
    crowd.join(200)
    crowd.run(30)
    assert crowd.pace.seconds == 1
    assert crowd.rate(10) > 150


def test_a_large_crowd_polls_at_a_bounded_rate_that_settles_at_once() -> None:
    crowd = Crowd(Timing(report_seconds=600, poll_seconds=5))
    crowd.join(5000)
    crowd.run(60)
    assert crowd.pace.seconds == 20
    assert 200 < crowd.rate(40) < 350
    crowd.run(60)
    assert crowd.pace.seconds == 20  # it neither grows further nor swings
    assert 200 < crowd.rate(40) < 350
    crowd.leave(100)
    crowd.run(120)
    assert crowd.pace.seconds == 5


def test_every_client_polls_several_times_before_a_deadline_and_on_the_same_connection() -> None:
    for seconds, longest in ((60, 15.0), (8, 5.0), (7200, 45.0)):
        crowd = Crowd(Timing(report_seconds=seconds, poll_seconds=5))
        crowd.join(12_000)
        crowd.run(2)
        assert crowd.pace.seconds == longest
