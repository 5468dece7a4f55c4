"""What a study waits for, in words, for its operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpbandits.protocol import Plan
from dpbandits.storage import Attempt


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The current attempt, with what its operator may know.

    Attributes:
        attempt: The attempt.
        plan: Its plan.
        minimum: The fewest reports with which the phase is released.
        reports: How many reports it has; None while only the shuffler knows.
        shuffled: Whether a shuffler collects the reports.
        ended: Whether all rounds have been played.
        played: The names of the options that the plan plays.
        left: The seconds until the deadline; None if there is none.
    """

    attempt: Attempt
    plan: Plan
    minimum: int
    reports: int | None
    shuffled: bool
    ended: bool
    played: Sequence[str]
    left: float | None

    def words(self) -> str:
        """Return one or two sentences that say what the study waits for, or that it has ended."""
        if self.ended:
            return "the study has ended"
        say: dict[str, Callable[[], str]] = {
            "gathering": self._gathering,
            "playing": self._playing,
            "opening": lambda: f"{self._phase}: the plan and the cohort are being sent to the shuffler",
            "collecting": self._collecting,
            "closed": lambda: f"{self._phase}: the reports are in, and their sums are being released",
            "released": lambda: f"{self._phase} is released; the next phase is being planned",
            "failed": self._failed,
            "done": lambda: f"{self._phase} has been played; the next phase is being planned",
        }
        return say[self.attempt.state]()

    @property
    def _phase(self) -> str:
        return f"phase {self.attempt.phase}"

    def _gathering(self) -> str:
        joined, cohort = self.attempt.joined, self.plan.cohort
        begun = f"{self._phase} waits for clients: {joined:,} of {cohort:,} have joined"
        if self.left is None:
            return f"{begun}; it starts when all have"
        if self.left > 0:
            return f"{begun}; it starts when all have, or in {self._left} with at least {self.minimum:,}"
        return f"{begun}; the time to join is over, and it starts as soon as {self.minimum:,} have"

    def _playing(self) -> str:
        rounds = f"{self.attempt.played:,} of {self.plan.rounds:,} rounds"
        if not self.plan.asks:
            shown = ", ".join(self.played[:3])
            return f"no more clients are asked: the actuator has played {rounds} of {shown}"
        return f"{self._phase}: the actuator has played {rounds}; clients report after that"

    def _collecting(self) -> str:
        joined = f"{self.attempt.joined:,}"
        if self.left is None:
            return f"{self._phase}: the shuffler could not be reached at the deadline; it is asked again"
        if self.shuffled:
            return (
                f"{self._phase}: {joined} clients may report to the shuffler for {self._left} more. Only the "
                f"shuffler knows how many have; it releases their sums if at least {self.minimum:,} have"
            )
        return (
            f"{self._phase}: {self.reports or 0:,} of {joined} clients have reported. It is released when "
            f"all have, or in {self._left} if at least {self.minimum:,} have"
        )

    def _failed(self) -> str:
        differ = ", or the shuffler summed other reports than the coordinator" if self.shuffled else ""
        return (
            f"{self._phase}: attempt {self.attempt.number} had fewer than {self.minimum:,} reports{differ}. "
            "Its reports were deleted, and the phase is repeated with other clients"
        )

    @property
    def _left(self) -> str:
        return f"{max(0.0, self.left or 0.0):,.0f} s"
