"""Two interfaces that a carrier may implement: `Custody` and `Collector`.

A `Custody` opens stored reports and provides the noise of a release. A `Collector` is another party that
collects reports. Both are optional; an in-process carrier needs neither. The service implements both: it
stores reports that are sealed to its key, and its shuffler is a collector.
"""

from __future__ import annotations

from typing import Protocol

from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Batch, Plan, Sums
from dpbandits.storage import Attempt, ReleaseRecord, StoredReport


class Custody(Protocol):
    """The reports of one attempt at its end, and the noise of its release.

    The rounds create one custody when they end an attempt. They call `open` for every report in the order of
    pseudonyms, or `revealed` once, and only then `noise`. So the noise may be a function of the reports.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> from dpbandits.rounds import Custody
        >>> class Readable:  # reports are stored unencrypted
        ...     def open(self, report):
        ...         return report.sealed
        ...     def revealed(self, batch):
        ...         pass
        ...     def noise(self):
        ...         return dp.SimulatedNoise(np.random.default_rng(1))
        ...     def intend(self, record):
        ...         pass
        ...     def give_up(self):
        ...         pass
        >>> custody: Custody = Readable()
        >>> custody.noise().simulated
        True
    """

    def open(self, report: StoredReport) -> bytes:
        """Return the payload of a stored report (`Report.payload`).

        Args:
            report: The report as it was stored.
        """
        ...

    def revealed(self, batch: Batch | Sums) -> None:
        """Record what a collector revealed instead of reports.

        Args:
            batch: The sums or the batch.
        """
        ...

    def noise(self) -> NoiseSource:
        """Return the source of noise for the release."""
        ...

    def intend(self, record: ReleaseRecord) -> None:
        """Record a release before it is committed, or raise an error to stop it.

        Args:
            record: The release.
        """
        ...

    def give_up(self) -> None:
        """Record a failure of the attempt before it is committed, or raise an error to stop it."""
        ...


class PlainCustody:
    """Reports that are not encrypted, for a carrier whose store may contain them until the release."""

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise

    def open(self, report: StoredReport) -> bytes:
        """Return the payload as it was stored."""
        return report.sealed

    def revealed(self, batch: Batch | Sums) -> None:
        """Do nothing."""

    def noise(self) -> NoiseSource:
        """Return the carrier's source of noise."""
        return self._noise

    def intend(self, record: ReleaseRecord) -> None:
        """Do nothing."""

    def give_up(self) -> None:
        """Do nothing."""


class Collector(Protocol):
    """Another party that collects reports and reveals their sums: a shuffler, or secure aggregation.

    Every call must be idempotent. A call that cannot reach the party raises `Unreachable`, and the rounds
    retry.

    Example:
        >>> from dpbandits.rounds import Collector
        >>> class Nothing:  # a party that never has enough reports
        ...     def open(self, plan, attempt):
        ...         print("opened for a cohort of", plan.cohort)
        ...     def is_collecting(self, attempt):
        ...         return True
        ...     def close(self, plan, attempt):
        ...         return None
        >>> collector: Collector = Nothing()
        >>> collector.is_collecting(None)
        True
    """

    def open(self, plan: Plan, attempt: Attempt) -> None:
        """Send the plan and the cohort; the party accepts reports from now on.

        Args:
            plan: The plan of the phase.
            attempt: The attempt.
        """
        ...

    def is_collecting(self, attempt: Attempt) -> bool:
        """Return whether the party still accepts reports.

        Args:
            attempt: The attempt.
        """
        ...

    def close(self, plan: Plan, attempt: Attempt) -> Batch | Sums | None:
        """Close the collection.

        Args:
            plan: The plan of the phase.
            attempt: The attempt.

        Returns:
            The sums, or the batch that S returns, or None if there are too few reports.
        """
        ...
