"""The trace of a simulated run: one entry per phase, and totals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy import Guarantee, Mechanism
from dpbandits.protocol import Progress


@dataclass(frozen=True, kw_only=True)
class PhaseTrace:
    """One phase: the learner's record of the phase, and values that only a simulation knows.

    Attributes:
        progress: The learner's record of the phase.
        actions_before: The number of active actions before the phase.
        actions_played: The number of actions that were played.
        rounds: The number of rounds.
        regret: The loss of these rounds against the best action.
        communication: The size of all messages, in the `unit` of the run.
        clipped: The share of the reported numbers that the bound clipped.
        elapsed: The seconds that the phase took. Only this value differs between two runs of the same seed.
    """

    progress: Progress
    actions_before: int
    actions_played: int
    rounds: int
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
    """One run. Regret is measured against the truth, which the learner does not see.

    Attributes:
        seed: The seed of the run.
        phases: The phases, in order.
        unit: The unit of `communication`: numbers or bits.
        actions_left: The number of active actions at the end.
        best_action_survived: Whether the truly best action is active at the end.
        final_action: The best guess at the end.
        final_gap: The loss of one play of `final_action` against the best action.
        guarantee: The guarantee that holds; None without privacy.
        mechanism: The mechanism with the weakest guarantee; None without privacy.
        simulated: Always True: simulated noise does not protect anybody.
        cover_loss: If the actions cover a continuous set, an upper bound on the loss of the best action
            against the best point of that set, over all rounds. It is not part of `regret`.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> study = examples.study()
        >>> population = dp.Population(dp.Instance(study.actions, theta=[0.9, 0.1]), heterogeneity=0.1)
        >>> trace = dp.simulate(study, population, seed=7)
        >>> trace.participants, len(trace.phases), trace.guarantee
        (20, 2, None)
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
        """The width after the last phase that asked clients; None if no phase did."""
        return next((phase.width for phase in reversed(self.phases) if phase.width is not None), None)

    @property
    def regret(self) -> float:
        """The regret R(T)."""
        return float(sum(phase.regret for phase in self.phases))

    @property
    def regret_with_cover(self) -> float:
        """An upper bound on the regret against the best point of the covered continuous set."""
        return self.regret + self.cover_loss

    @property
    def rounds(self) -> int:
        """The number of rounds T."""
        return sum(phase.rounds for phase in self.phases)

    @property
    def communication(self) -> int:
        """The communication C(T), in `unit`."""
        return sum(phase.communication for phase in self.phases)

    @property
    def participants(self) -> int:
        """The number of clients that were asked. Each is asked once."""
        return sum(phase.cohort for phase in self.phases)

    def regret_at(self, times: FloatArray) -> FloatArray:
        """Return the regret R(t) at the given rounds, interpolated linearly within a phase.

        Args:
            times: The rounds.

        Returns:
            The regret at each of them.
        """
        ends = np.cumsum([0, *(phase.rounds for phase in self.phases)])
        totals = np.cumsum([0.0, *(phase.regret for phase in self.phases)])
        return np.asarray(np.interp(times, ends, totals), dtype=np.float64)
