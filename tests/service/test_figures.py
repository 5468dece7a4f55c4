"""The scale of a figure has round numbers over its whole length."""

from __future__ import annotations

import re

import pytest

from dpbandits.service.reporting import Bar, intervals


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.3, 0.32, [0.3, 0.305, 0.31, 0.315, 0.32]),
        (-0.01, 0.012, [-0.01, -0.005, 0, 0.005, 0.01]),
        (0.123456, 0.123466, [0.123456, 0.123458, 0.12346, 0.123462, 0.123464, 0.123466]),
        (-1.0, 2.5, [-1, 0, 1, 2]),
        (0, 1000, [0, 200, 400, 600, 800, 1000]),
        (0.25, 0.25, [0.25]),
    ],
)
def test_a_scale_has_round_numbers_from_end_to_end(low: float, high: float, expected: list[float]) -> None:
    figure = intervals([Bar(name="a", low=low, middle=(low + high) / 2, high=high)], "a figure")
    ticks = re.findall(r'<text class="tick"[^>]*>([^<]*)</text>', figure)
    assert [float(tick) for tick in ticks] == expected
