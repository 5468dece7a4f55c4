"""What mechanisms have in common whose noise is shared among clients: the fewest reports with noise."""

from __future__ import annotations

import math

from dpbandits._checks import between, whole
from dpbandits.errors import InvalidValue


def noisy_reports(minimum_reports: int, silent_share: float) -> int:
    """Return how many of the fewest reports in a release are certain to contain noise.

    Example: `noisy_reports(100, 0.2)` is 80.

    Args:
        minimum_reports: The fewest reports in a release.
        silent_share: The share of the reporting clients that may add no noise.

    Returns:
        minimum_reports·(1 − silent_share), rounded down.
    """
    return math.floor(minimum_reports * (1 - silent_share) + 1e-9)


class SharedNoise:
    """The base class of mechanisms with shared noise, which suffices for the fewest reports.

    Attributes:
        cohort: The number of clients that are asked.
        least_reports: The fewest reports in a release.
        silent_share: The share of the reporting clients that may add no noise.
    """

    cohort: int
    least_reports: int
    silent_share: float

    @property
    def minimum_reports(self) -> int:
        """The fewest reports in a release. The noise is calibrated to this number."""
        return self.least_reports

    @property
    def noisy_reports(self) -> int:
        """The number of clients whose noise is accounted for."""
        return noisy_reports(self.least_reports, self.silent_share)

    def _check_reports(self) -> None:
        whole(1, self.cohort, minimum_reports=self.least_reports)
        between(0, 0.99, silent_share=self.silent_share)
        if self.noisy_reports < 1:
            expected = "a share that leaves at least one report with noise"
            raise InvalidValue("silent_share", self.silent_share, expected)
