"""The record of a simulated run: one entry per phase, and the totals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy import Guarantee, Mechanism
from dpbandits.protocol import Progress


@dataclass(frozen=True, kw_only=True)
class PhaseTrace:
    """One phase: the learner's own record of it, and what only a simulation knows.

    Attributes:
        progress: What the learner records of the phase.
        active: How many actions could be best before the phase.
        support: How many actions the phase played.
        plays: How many rounds the phase played.
        regret: What these rounds lost against the best action.
        communication: What clients sent, in the run's `unit`.
        clipped: The share of the reported numbers that clipping changed.
        elapsed: Seconds taken: the only entry that differs between two runs of the same seed.
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
        """The phase, counted from 1."""
        return self.progress.phase

    @property
    def cohort(self) -> int:
        """How many clients the phase asked."""
        return self.progress.cohort

    @property
    def width(self) -> float | None:
        """The largest width that decided which actions stay; None if nobody was asked."""
        return self.progress.largest_width if self.cohort else None


@dataclass(frozen=True, kw_only=True)
class RunTrace:
    """One run. Regret is measured against the truth that the learner never saw.

    `final_action` is the best guess at the end. Each play of it loses `final_gap` against the best action.
    If the actions stand for a continuous set, `cover_loss` is the most that the best action can lose to the
    best point of that set over all rounds. It is not part of `regret`.
    """

    seed: int
    phases: tuple[PhaseTrace, ...]
    unit: str
    actions_left: int
    best_action_survived: bool
    final_action: int
    final_gap: float
    guarantee: Guarantee | None
    mechanism: Mechanism | None  # the one with the largest δ, so that its privacy can be computed again
    simulated: bool = True
    cover_loss: float = 0.0

    @property
    def width(self) -> float | None:
        """The last stated width; None if nobody was asked."""
        return next((phase.width for phase in reversed(self.phases) if phase.width is not None), None)

    @property
    def regret(self) -> float:
        """R(T)."""
        return float(sum(phase.regret for phase in self.phases))

    @property
    def regret_with_cover(self) -> float:
        """An upper bound of R(T) against the best point of the continuous set."""
        return self.regret + self.cover_loss

    @property
    def rounds(self) -> int:
        """T."""
        return sum(phase.plays for phase in self.phases)

    @property
    def communication(self) -> int:
        """C(T), in `unit`."""
        return sum(phase.communication for phase in self.phases)

    @property
    def participants(self) -> int:
        """The clients that were asked, each once."""
        return sum(phase.cohort for phase in self.phases)

    def regret_at(self, times: FloatArray) -> FloatArray:
        """R(t) at the given rounds, linear within a phase."""
        ends = np.cumsum([0, *(phase.plays for phase in self.phases)])
        totals = np.cumsum([0.0, *(phase.regret for phase in self.phases)])
        return np.asarray(np.interp(times, ends, totals), dtype=np.float64)
