"""Open pages ask less often the more of them there are, and more often again when they are closed."""

from __future__ import annotations

import heapq

import pytest

from dpbandits.service.dashboard._pace import PagePace


class Browsers:
    """Open pages in simulated time. Each waits as long as it was told the last time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace = PagePace(lambda: self.now)

    def run(self, pages: int, seconds: float) -> list[float]:
        """Keep pages open for a time, and return when they asked."""
        asked, end = list[float](), self.now + seconds
        due = [(self.now + 5 * number / pages, number) for number in range(pages)]
        heapq.heapify(due)
        while due and due[0][0] < end:
            self.now, number = heapq.heappop(due)
            self.pace.polled()
            asked.append(self.now)
            heapq.heappush(due, (self.now + self.pace.seconds, number))
        self.now = end
        return asked


@pytest.mark.parametrize(
    ("pages", "interval"), [(1, 5), (120, 5), (130, 10), (200, 10), (450, 20), (3000, 40)]
)
def test_the_interval_follows_from_the_number_of_pages(pages: int, interval: int) -> None:
    browsers = Browsers()
    asked = browsers.run(pages, 400)
    late = [one for one in asked if one >= 200]
    assert browsers.pace.seconds == interval
    assert len(late) == pytest.approx(200 * pages / interval, rel=0.05)


def test_the_interval_is_short_again_when_pages_are_closed() -> None:
    browsers = Browsers()
    browsers.run(600, 200)
    assert browsers.pace.seconds == 40
    browsers.run(3, 100)
    assert browsers.pace.seconds == 5


def test_an_hour_without_a_page_is_no_reason_to_ask_rarely() -> None:
    browsers = Browsers()
    browsers.run(600, 200)
    browsers.run(1, 0.1)
    browsers.now += 3600
    browsers.run(1, 30)
    assert browsers.pace.seconds == 5
