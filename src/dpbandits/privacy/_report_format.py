"""`ReportFormat`: what one report of a mechanism looks like, and how reports are added up.

By default a report has one finite number per average.
"""

from __future__ import annotations

import math
from functools import cached_property

from dpbandits._checks import whole
from dpbandits.privacy._message import Message, Payload, Reach


class ReportFormat:
    """The format of reports and of their sums; `Mechanism` derives from it."""

    coordinates: int
    bound: float

    @cached_property
    def message(self) -> Message:
        """The format of one report, which the reader checks. The default accepts any finite numbers."""
        return Message(kind="numbers", shape=(self.coordinates,), low=-math.inf, high=math.inf)

    @property
    def limits_reports(self) -> bool:
        """Whether `message` limits what one report adds to the sums. Only then can clients prove it."""
        return self.message.kind != "numbers"

    @property
    def unit_of_message(self) -> float:
        """The value of one unit of a report's entry, in the units of the rewards; for bits, of one bit."""
        return 1.0

    def reach_of_one(self, reports: int, *, checked: bool = True) -> Reach:
        """Return how far one report can move the means that are released over `reports` clients.

        Args:
            reports: The number of reports in the release.
            checked: Whether each single report is checked. Reports that are split into shares are not, so
                nothing bounds their reach.
        """
        message, unit = self.message, self.unit_of_message / whole(1, reports=reports)
        entries = math.prod(message.shape[1:])  # all bits of one number are added up
        spread = (message.high - message.low) * entries * unit if checked else math.inf
        honest = 2 * self.bound / reports
        if message.largest_square is None:
            return Reach(mean=spread, honest=honest)
        # Two points of a ball differ by at most its diameter, which is the largest √Σ(2x − 2c)².
        length = math.sqrt(message.largest_square) * unit if checked else math.inf
        return Reach(mean=min(spread, length), honest=honest, length=length, honest_length=honest)

    @property
    def sum_bits(self) -> int:
        """Sums of integer reports are known modulo 2^sum_bits, which is enough for a whole cohort."""
        return 63

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """Return a batch for which `analyze` gives the same result as for any reports with these sums.

        Args:
            sums: The sum of each reported number.
            reports: The number of reports.
        """
        return sums[None, :]

    @property
    def message_size(self) -> int:
        """The size of one report, in `unit`. The default is one number per average."""
        return self.coordinates

    def batch_shape(self, reports: int) -> tuple[int, ...]:
        """Return the shape of the output of `shuffle` for this many reports.

        Args:
            reports: The number of reports.
        """
        return (reports, *self.message.shape)
