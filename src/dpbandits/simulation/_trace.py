"""The result of a simulated run: one record per phase, and the totals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy import Guarantee, Mechanism
from dpbandits.protocol import Progress


@dataclass(frozen=True, kw_only=True)
class PhaseTrace:
    """The record of one phase: the learner's own record, and figures that only a simulation knows.

    Attributes:
        progress: The learner's record of the phase.
        active: The number of actions that may be best, before the phase.
        support: The number of actions that the phase played.
        plays: The number of rounds that the phase played.
        regret: The reward that these rounds lost, compared with the best action.
        communication: The size of all reports, in the run's `unit`.
        clipped: The share of the reported numbers that clipping changed.
        elapsed: The duration in seconds. It is the only field that differs between two runs with the same
            seed, and it is ignored by comparisons.
    """

    progress: Progress
    active: int
    support: int
    plays: int
    regret: float
    communication: int
    clipped: float
    elapsed: float = field(compare=False)

    @property
    def index(self) -> int:
        """The number of the phase, counted from 1."""
        return self.progress.phase

    @property
    def cohort(self) -> int:
        """The number of clients that the phase asked."""
        return self.progress.cohort

    @property
    def width(self) -> float | None:
        """The largest confidence width in the elimination; None if no client was asked."""
        return self.progress.largest_width if self.cohort else None


@dataclass(frozen=True, kw_only=True)
class RunTrace:
    """The record of one run. Regret is computed with the true θ*, which the learner does not know.

    Attributes:
        seed: The seed of the run.
        phases: One record per phase.
        unit: The unit of `communication`: "numbers" or "bits".
        actions_left: The number of actions that may be best, at the end.
        best_action_survived: Whether the best action is one of them.
        final_action: The best guess at the end.
        final_gap: The reward that one play of `final_action` loses, compared with the best action.
        guarantee: The guarantee that holds; None without privacy.
        mechanism: The weakest mechanism that was used, from which `dpbandits account` can compute the
            guarantee again; None without privacy.
        simulated: Always true.
        cover_loss: If the actions cover a continuous set, an upper bound on the reward that the best action
            loses over all rounds, compared with the best point of the set. It is not part of `regret`.
    """

    seed: int
    phases: tuple[PhaseTrace, ...]
    unit: str
    actions_left: int
    best_action_survived: bool
    final_action: int
    final_gap: float
    guarantee: Guarantee | None
    mechanism: Mechanism | None
    simulated: bool = True
    cover_loss: float = 0.0

    @property
    def width(self) -> float | None:
        """The confidence width of the last phase that asked clients; None if there is no such phase."""
        return next((phase.width for phase in reversed(self.phases) if phase.width is not None), None)

    @property
    def regret(self) -> float:
        """R(T): the reward lost over all rounds."""
        return float(sum(phase.regret for phase in self.phases))

    @property
    def regret_with_cover(self) -> float:
        """Upper bound on the regret compared with the best point of the continuous set."""
        return self.regret + self.cover_loss

    @property
    def rounds(self) -> int:
        """T: the number of rounds."""
        return sum(phase.plays for phase in self.phases)

    @property
    def communication(self) -> int:
        """C(T): the size of all reports, in `unit`."""
        return sum(phase.communication for phase in self.phases)

    @property
    def participants(self) -> int:
        """The number of clients that were asked. Each was asked once."""
        return sum(phase.cohort for phase in self.phases)

    def regret_at(self, times: FloatArray) -> FloatArray:
        """Return R(t) at the given rounds, interpolated linearly within each phase.

        Args:
            times: Numbers of rounds, between 0 and T.
        """
        ends = np.cumsum([0, *(phase.plays for phase in self.phases)])
        totals = np.cumsum([0.0, *(phase.regret for phase in self.phases)])
        return np.asarray(np.interp(times, ends, totals), dtype=np.float64)
