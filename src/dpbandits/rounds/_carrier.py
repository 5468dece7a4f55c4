"""What a carrier may bring to the rounds: how it keeps reports, and who collects them if it does not.

Both have defaults, so an in-process carrier needs neither. The service brings both: reports that are sealed
to its key (`Custody`), and a shuffler (`Collector`).
"""

from __future__ import annotations

from typing import Protocol

from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Plan, Sums
from dpbandits.storage import Attempt, ReleaseRecord, StoredReport


class Custody(Protocol):
    """The reports of one attempt at its end, and the noise of its release.

    The rounds make one for each release or failure, call `open` for every report in the order of pseudonyms,
    or `revealed` once, and only then `noise`. So noise may be a function of the reports.
    """

    def open(self, report: StoredReport) -> bytes:
        """Read the payload of a stored report (`Report.payload`)."""
        ...

    def revealed(self, sums: Sums) -> None:
        """Take note of the sums that a collector revealed instead of reports."""
        ...

    def noise(self) -> NoiseSource:
        """The source of the release's noise."""
        ...

    def intend(self, record: ReleaseRecord) -> None:
        """Take note of a release before it is committed; raise an error to stop it."""
        ...

    def give_up(self) -> None:
        """Take note that the attempt fails, before that is committed; raise an error to stop it."""
        ...


class PlainCustody:
    """Reports as they are, for a carrier whose store may hold them readable until the release."""

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise

    def open(self, report: StoredReport) -> bytes:
        """The payload as it was stored."""
        return report.sealed

    def revealed(self, sums: Sums) -> None:
        """Nothing to note."""

    def noise(self) -> NoiseSource:
        """The carrier's source."""
        return self._noise

    def intend(self, record: ReleaseRecord) -> None:
        """Nothing to note."""

    def give_up(self) -> None:
        """Nothing to note."""


class Collector(Protocol):
    """Another party that takes reports in and reveals their sums: a shuffler, or secure aggregation.

    Every call may be repeated and then has the same effect. A call that cannot reach the party raises
    `Unreachable`, and the rounds retry.
    """

    def open(self, plan: Plan, attempt: Attempt) -> None:
        """Give it the plan and the cohort; reports may come in from now on."""
        ...

    def is_collecting(self, attempt: Attempt) -> bool:
        """Whether reports can still come in."""
        ...

    def close(self, plan: Plan, attempt: Attempt) -> Sums | None:
        """End the collection and return the sums, or None if there are too few reports for any."""
        ...
