"""The interface of an assignment of clients to actions, as the learner uses it.

An `Assignment` plans which clients of a phase report on which actions, and computes the evidence from their
release. `MeanErrors` bounds how far the released means of one phase may be from the mean rewards that they
estimate. Reward models compute their confidence widths from `MeanErrors`, so every reward model works with
every assignment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import NotAvailable
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._messages import Plan

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study
    from dpbandits.protocol.model import Fit


class Crowd(Protocol):
    """The simulated clients of a study."""

    def averages(
        self, cohort: int, support: Sequence[int], plays: Sequence[int], rng: np.random.Generator
    ) -> FloatArray:
        """Draw the average reward of each client for each supported action.

        Args:
            cohort: The number of clients.
            support: The indices of the actions.
            plays: How often each action is played.
            rng: Draws clients and rewards.

        Returns:
            One row per client and one column per action.
        """

    def rewards(self, cohort: int, action: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Draw one reward per client for one action.

        Args:
            cohort: The number of clients.
            action: The index of the action.
            rng: Draws clients and rewards.

        Yields:
            Columns of rewards, in blocks.
        """


class Played(Protocol):
    """What a phase plays: a design, or a design to which the current option was added."""

    @property
    def support(self) -> IntArray:
        """The indices of the supported actions."""

    @property
    def rank(self) -> int:
        """The dimension of their span."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pull:
    """How far clipping moves some combinations of the means of a phase.

    Attributes:
        most: An upper bound for each combination, if the bounds on clipping of the phase hold.
        slopes: If not None, combination j moves by at most slopes[j]·u, where u ≥ 0 is the normalised excess
            of all clients, with E exp(u) ≤ exp(expected).
        expected: See `slopes`.
    """

    most: FloatArray
    slopes: FloatArray | None
    expected: float


class MeanErrors(ABC):
    """The errors e of the released means of one phase: released mean = expected mean + e.

    Attributes:
        study: The study.
        evidence: The phase.

    Example:
        >>> from dpbandits import examples
        >>> study = examples.study()
        >>> (evidence,) = examples.after_one_phase(study).history
        >>> errors = study.assignment_rule.errors(study, evidence.unfitted)
        >>> errors.variances.shape == (evidence.plan.numbers,)
        True
    """

    def __init__(self, study: Study, evidence: PhaseEvidence) -> None:
        self.study = study
        self.evidence = evidence

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """The number of plays in each mean, up to a common factor: the weights of the paper."""

    @property
    @abstractmethod
    def variances(self) -> FloatArray:
        """The variance of each mean, without the `common` part that all means share."""

    @property
    @abstractmethod
    def common(self) -> float:
        """The variance, along every unit vector, of the mean of the clients' own parameters."""

    def factor(self, coefficients: FloatArray) -> FloatArray:
        """Return F such that FF' is the covariance of coefficients·means, without the `common` part.

        Args:
            coefficients: As in `radius`.
        """
        return coefficients * np.sqrt(self.variances)

    @abstractmethod
    def radius(
        self, coefficients: FloatArray, directions: FloatArray, *, confidence: float | None = None
    ) -> FloatArray:
        """Return upper bounds of ⟨a, e⟩ that fail with a small probability, clipping included.

        Args:
            coefficients: One row a of coefficients of the reported numbers per bound.
            directions: For each row a, the same combination of the features of the reported numbers. The
                deviations of the clients' own parameters enter along this direction.
            confidence: The failure probability of each bound; β = `Study.bound_failure` by default.

        Returns:
            One bound per row. Each bound is one-sided: ⟨a, e⟩ may be far below zero.
        """

    def proxies(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray | None:  # noqa: ARG002
        """Return the variance proxies of ⟨a, e⟩ without clipping, if the errors are sub-Gaussian.

        Args:
            coefficients: As in `radius`.
            directions: As in `radius`.

        Returns:
            One proxy per row; None if the errors are not sub-Gaussian.
        """
        return None

    def certain_pull(self, coefficients: FloatArray) -> Pull:
        """Return how far clipping moves each row of coefficients·means, if `proxies` is not None.

        Args:
            coefficients: As in `radius`.
        """
        nothing = np.zeros(len(coefficients))
        return Pull(most=nothing, slopes=nothing, expected=0.0)

    def planned_information(
        self,
        coefficients: FloatArray,  # noqa: ARG002
        directions: FloatArray,  # noqa: ARG002
    ) -> FloatArray:
        """Return roughly the sum of 1/proxy over this phase and all planned later ones.

        Args:
            coefficients: As in `radius`.
            directions: As in `radius`.

        Returns:
            One positive number per row.

        Raises:
            NotAvailable: The assignment does not pool phases.
        """
        raise NotAvailable(f"phases are not pooled with assignment {self.study.assignment}")

    def norm_radius(
        self,
        coefficients: FloatArray,  # noqa: ARG002
        directions: FloatArray,  # noqa: ARG002
        *,
        confidence: float | None = None,  # noqa: ARG002
    ) -> float:
        """Return an upper bound on the norm of the vector of all ⟨a, e⟩ that fails with a small probability.

        Args:
            coefficients: As in `radius`.
            directions: As in `radius`.
            confidence: The failure probability of the bound; β = `Study.bound_failure` by default.

        Raises:
            NotAvailable: The assignment has no such bound.
        """
        raise NotAvailable(f"no bound on the length of errors with assignment {self.study.assignment}")

    def factors(
        self,
        map_in_span: FloatArray,  # noqa: ARG002
        covariance: FloatArray,  # noqa: ARG002
    ) -> tuple[float, float] | None:
        """Return a lower and an upper bound of `radius`, as multiples of the standard deviation.

        Args:
            map_in_span: The linear map from means to the estimate, in a basis of the span.
            covariance: The covariance of the estimate in the same basis.

        Returns:
            The two factors; None if they are unknown, so that every width must be computed.
        """
        return None

    @abstractmethod
    def paper_width(self) -> float:
        """Return the paper's W_l, one width for all actions."""


class Assignment(ABC):
    """A rule for how many clients a phase asks, and on which actions each of them reports."""

    one_cohort: ClassVar[bool]
    """Whether a phase has one cohort, in which every client reports on all actions."""

    @abstractmethod
    def check(self, study: Study) -> None:
        """Raise an error if the study's schedule does not suit the assignment, or its privacy cannot be met.

        Args:
            study: The study.

        Raises:
            InvalidValue: The schedule does not suit the assignment.
            PrivacyError: No mechanism meets the privacy request.
        """

    @abstractmethod
    def participants(self, study: Study) -> int:
        """Return an upper bound on the number of clients that the study asks.

        Args:
            study: The study.
        """

    def has_cohort(self, state: State) -> bool:  # noqa: ARG002
        """Return whether enough clients are left for the next phase, before its design is computed.

        Args:
            state: The state before the phase.
        """
        return True

    def has_clients(self, state: State, plays: IntArray) -> bool:  # noqa: ARG002
        """Return whether enough clients are left for a phase with these plays.

        Args:
            state: The state before the phase.
            plays: How often the phase plays each action.
        """
        return True

    @abstractmethod
    def plan(self, state: State, design: Played, plays: IntArray, known: Fit | None) -> Plan:
        """Plan a phase that asks clients.

        Args:
            state: The state before the phase.
            design: What the phase plays.
            plays: The number of rounds for each supported action.
            known: The last fit, around which clients may clip; None before the first release.

        Returns:
            A plan with a mechanism, or with one mechanism per action.
        """

    @abstractmethod
    def evidence(self, state: State, plan: Plan, counts: tuple[int, ...], known: Fit | None) -> PhaseEvidence:
        """Return the evidence of a phase without its means and estimate: what the errors depend on.

        Args:
            state: The state before the phase.
            plan: The plan of the phase.
            counts: How many clients reported through each mechanism of the plan.
            known: The last fit before the phase, around which clients may have clipped.
        """

    @abstractmethod
    def errors(self, study: Study, evidence: PhaseEvidence) -> MeanErrors:
        """Return the errors of the released means of a phase.

        Args:
            study: The study.
            evidence: The evidence of the phase.
        """

    @abstractmethod
    def simulate(self, plan: Plan, crowd: Crowd, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
        """Yield the reports of the clients of each mechanism of a plan, before clipping.

        Args:
            plan: The plan.
            crowd: Draws the clients and their rewards.
            rng: The random generator.

        Yields:
            The reports for one mechanism, in blocks of rows.
        """
