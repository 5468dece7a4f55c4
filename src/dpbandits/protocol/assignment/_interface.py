"""What the learner needs to know about an assignment of clients to actions.

An `Assignment` plans whom a phase asks for what, and says what can be concluded from the release. A
`MeanErrors` says how far the released means of one phase may lie from the mean rewards they stand for. Reward
models compute their confidence widths from it, so a reward model works with every assignment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design import Design
from dpbandits.errors import NotAvailable
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._messages import Plan

if TYPE_CHECKING:
    from dpbandits.protocol._study import State, Study
    from dpbandits.protocol.model import Fit


class Crowd(Protocol):
    """The simulated clients of a study."""

    def averages(
        self, cohort: int, support: Sequence[int], plays: Sequence[int], rng: np.random.Generator
    ) -> FloatArray:
        """The average reward of each supported action: one row per client."""

    def rewards(self, cohort: int, action: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """One reward of one action per client: columns, a block of clients at a time."""


class MeanErrors(ABC):
    """The errors e of the released means of one phase: mean = expected mean + e.

    Attributes:
        study: The study.
        evidence: The phase.
    """

    def __init__(self, study: Study, evidence: PhaseEvidence) -> None:
        self.study = study
        self.evidence = evidence

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """How many plays are behind each mean, up to a factor: the paper's weights of least squares."""

    @property
    @abstractmethod
    def variances(self) -> FloatArray:
        """The variance of each mean, except for what all reports of a client have in common."""

    @property
    @abstractmethod
    def common(self) -> float:
        """The variance, along every unit vector, of the mean of the clients' own parameters."""

    def factor(self, coefficients: FloatArray) -> FloatArray:
        """F, so that FF' is the covariance of coefficients·means, except for the `common` part."""
        return coefficients * np.sqrt(self.variances)

    @abstractmethod
    def radius(
        self, coefficients: FloatArray, directions: FloatArray, *, confidence: float | None = None
    ) -> FloatArray:
        """What ⟨a, e⟩ exceeds with a small probability, clipping included.

        Args:
            coefficients: One row a of coefficients of the reported numbers per bound.
            directions: For each row the same combination of the numbers' features, along which clients'
                own parameters deviate.
            confidence: The probability, β = `Study.confidence` if not given.

        Returns:
            One bound per row. Each holds on one side: ⟨a, e⟩ may also be far below zero.
        """

    def norm_radius(self, coefficients: FloatArray, directions: FloatArray) -> float:  # noqa: ARG002
        """What the length of the vector of all ⟨a, e⟩ exceeds with a probability of at most β."""
        raise NotAvailable(f"no bound on the length of errors with assignment {self.study.assignment}")

    def factors(
        self,
        map_in_span: FloatArray,  # noqa: ARG002
        covariance: FloatArray,  # noqa: ARG002
    ) -> tuple[float, float] | None:
        """What `radius` is at least and at most, as multiples of the standard deviation.

        Args:
            map_in_span: The linear map from means to the estimate, in a basis of the span.
            covariance: The covariance of the estimate in the same basis.

        Returns:
            The two factors; None if they are unknown, and every width must be computed.
        """
        return None

    @abstractmethod
    def paper_width(self) -> float:
        """W_l, one width for all actions, with the paper's constants."""


class Assignment(ABC):
    """Who is asked for what in a phase."""

    @abstractmethod
    def check_privacy(self, study: Study) -> None:
        """Raise the calibration's error if the study's privacy request cannot be met."""

    @abstractmethod
    def participants(self, study: Study) -> int:
        """The most clients that the study can ask."""

    def has_cohort(self, state: State) -> bool:  # noqa: ARG002
        """Whether enough clients are left for the next phase, as far as its length is not yet known."""
        return True

    def has_clients(self, state: State, plays: IntArray) -> bool:  # noqa: ARG002
        """Whether enough clients are left for a phase that plays each action this often."""
        return True

    @abstractmethod
    def plan(self, state: State, design: Design, plays: IntArray, known: Fit | None) -> Plan:
        """The plan of a phase that asks clients.

        Args:
            state: The state before the phase.
            design: What the phase plays.
            plays: The rounds of each supported action.
            known: The last fit, around which clients may clip; None before the first release.

        Returns:
            A plan with a mechanism, or with one mechanism per action.
        """

    @abstractmethod
    def evidence(self, state: State, plan: Plan, counts: tuple[int, ...], known: Fit | None) -> PhaseEvidence:
        """What the errors of a phase depend on, clipping included; without means and estimate.

        Args:
            state: The state before the phase.
            plan: The plan of the phase.
            counts: How many clients reported through each mechanism of the plan.
            known: The last fit before the phase, around which clients may have clipped.
        """

    @abstractmethod
    def errors(self, study: Study, evidence: PhaseEvidence) -> MeanErrors:
        """How far the means of a phase may be off."""

    @abstractmethod
    def simulate(self, plan: Plan, crowd: Crowd, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
        """For each mechanism of the plan, what its clients report before clipping, in blocks of clients."""
