"""`State`: what a study has learnt from the releases so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import IntArray
from dpbandits.protocol._bitmap import unpacked
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._progress import Progress
from dpbandits.protocol._study import Study
from dpbandits.protocol.model import Fit, fitted


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that has been learnt from the releases so far.

    Attributes:
        study: The study.
        active: The actions that may still be best, as a packed bitmap; `active_actions` has their indices.
        phase: The number of the next phase, counted from 1.
        rounds_played: The rounds of all phases so far.
        clients_asked: The clients of all cohorts so far.
        width: The largest width of the last learning phase; None before the first. If more than 2¹⁴ actions
            were active and too many of them may have the largest width, it is an upper bound of that width.
            This happens only with clipping or with noise that is not Gaussian.
        history: The evidence of each learning phase, in order: the phases that asked clients, without the fit
            test and the confirmation.
        progress: One record per phase that was played, in order.
        confirmation_evidence: The evidence of the confirmation; None before it, or if the study has none.
        fit_test_evidence: The evidence of the fit test; None before it, or if the study has none.
        barred: The actions that the study's safeguard does not play again, as a packed bitmap; empty if there
            are none. `barred_actions` has their indices.

    Example:
        >>> from dpbandits import examples
        >>> study = examples.study()
        >>> state = study.begin()
        >>> state.phase, state.ended, state.clients_left
        (1, False, inf)
    """

    study: Study
    active: bytes
    phase: int = 1
    rounds_played: int = 0
    clients_asked: int = 0
    width: float | None = None
    history: tuple[PhaseEvidence, ...] = ()
    progress: tuple[Progress, ...] = ()
    confirmation_evidence: PhaseEvidence | None = None
    fit_test_evidence: PhaseEvidence | None = None
    barred: bytes = b""

    @property
    def released(self) -> tuple[PhaseEvidence, ...]:
        """The evidence of all phases that asked clients: learning phases, fit test and confirmation."""
        return tuple(
            one
            for one in (*self.history, self.fit_test_evidence, self.confirmation_evidence)
            if one is not None
        )

    @property
    def fits(self) -> list[Fit]:
        """The fitted reward model of each learning phase, in order."""
        return [fitted(self.study, evidence.unfitted) for evidence in self.history]

    @property
    def ended(self) -> bool:
        """Whether all rounds have been played."""
        return self.rounds_played >= self.study.horizon

    @property
    def clients_left(self) -> float:
        """How many clients learning phases can still ask; infinite without a population limit."""
        population = self.study.population
        reserved = self.study.after_learning
        return float("inf") if population is None else population - self.clients_asked - reserved

    @cached_property
    def active_actions(self) -> IntArray:
        """The indices of the actions that may still be best, in ascending order."""
        return unpacked(self.active, self.study.actions.count)

    @property
    def barred_actions(self) -> IntArray:
        """The indices of the actions that are not played again, in ascending order."""
        return unpacked(self.barred, self.study.actions.count) if self.barred else np.zeros(0, dtype=np.int64)

    @property
    def evidence(self) -> PhaseEvidence | None:
        """The evidence of the last learning phase; None before the first release."""
        return self.history[-1] if self.history else None

    @property
    def estimate(self) -> tuple[float, ...] | None:
        """The estimate of θ* from the last learning phase; None before the first release."""
        return self.history[-1].estimate if self.history else None
