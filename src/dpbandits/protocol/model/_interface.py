"""The interface of a reward model, as the learner uses it.

A `RewardModel` defines how mean rewards depend on an unknown parameter, and fits the parameter to the
released means of a phase. A `Fit` holds the estimate and computes how far the estimated mean reward of an
action may be from the true one. The learner needs only these two classes. A new model is one file:

    @register_model
    class Tanh(RewardModel):
        name = "tanh"
        ...

    study = Study(..., model="tanh")

docs/how-to/new-reward-model.md explains an example step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.errors import NotAvailable
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._linear_algebra import span_of, within
from dpbandits.protocol.assignment import MeanErrors, Pull

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study


@dataclass(frozen=True, kw_only=True, eq=False)
class Bracket:
    """Lower and upper bounds of many widths: `low[i]` ≤ width i ≤ `high[i]`.

    Attributes:
        low: The lower bounds.
        high: The upper bounds.
    """

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """What one phase says about some directions, if its errors are sub-Gaussian.

    Attributes:
        estimates: The estimate of each direction, for example of the difference of two mean rewards.
        proxies: The variance proxy of each error, without clipping.
        pull: How far clipping moves each estimate.
        bias: An upper bound on how far a misfit of the model moves each estimate.
        planned: Roughly the sum of 1/proxy over this phase and all planned later ones. Pooled bounds hold for
            any value; a good value makes them narrow.
    """

    estimates: FloatArray
    proxies: FloatArray
    pull: Pull
    bias: FloatArray | float
    planned: FloatArray


class Fit(ABC):
    """A reward model fitted to one phase.

    Attributes:
        study: The study.
        evidence: The phase that the model was fitted to.
        errors: The errors of the released means of the phase.

    Example:
        >>> import numpy as np
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import fitted
        >>> study = examples.study()
        >>> (evidence,) = examples.after_one_phase(study).history
        >>> fit = fitted(study, evidence.unfitted)
        >>> fit.estimate.round(2)
        array([0.9, 0.1])
        >>> fit.widths(np.array([0, 1])).shape
        (2,)
    """

    def __init__(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> None:
        self.study = study
        self.evidence = evidence
        self.errors = errors

    @property
    @abstractmethod
    def estimate(self) -> FloatArray:
        """The fitted parameter."""

    @abstractmethod
    def covariance(self) -> FloatArray:
        """Return the covariance of the estimate, or an upper bound of it."""

    @abstractmethod
    def widths(self, actions: IntArray, *, towards: int | None = None) -> FloatArray:
        """Return the confidence widths of the estimated mean rewards of some actions.

        The error exceeds the width with a probability of at most β = `Study.bound_failure`, on each side.

        Args:
            actions: Indices of actions.
            towards: If given, the widths are those of the differences to this action.

        Returns:
            One width per action.
        """

    @cached_property
    def precision(self) -> FloatArray:
        """The pseudo-inverse of the covariance."""
        return np.asarray(np.linalg.pinv(self.covariance(), hermitian=True), dtype=np.float64)

    def spans(self, directions: FloatArray) -> BoolArray:
        """Return for each direction whether the phase measured it: whether the played actions span it.

        Args:
            directions: One direction per row.
        """
        return within(self._played_span, directions)

    @cached_property
    def _played_span(self) -> FloatArray | None:
        plan = self.evidence.plan
        return span_of(self.study.actions.matrix[list(plan.support)], plan.rank)

    @property
    def common_width(self) -> float | None:
        """One width for all actions, if the preset uses one; None if each action has its own width."""
        return None

    def bracket(
        self,
        state: State,  # noqa: ARG002
        reference: PhaseEvidence,  # noqa: ARG002
        *,
        towards: int | None = None,  # noqa: ARG002
    ) -> Bracket | None:
        """Return bounds of the widths of all active actions that are cheaper to compute than the widths.

        Args:
            state: The state before the phase.
            reference: An earlier phase that played the same actions, or the phase that was fitted.
            towards: As in `widths`.

        Returns:
            The bounds, in the order of `state.active_actions`; None if the model has no cheap bounds.
        """
        return None

    def comparison(self, directions: FloatArray) -> Comparison | None:  # noqa: ARG002
        """Return estimates of some directions, for bounds from all phases together.

        Args:
            directions: One row per direction: an action, or the difference of two actions. The phase must
                have played actions that span it.

        Returns:
            The estimates; None if the errors are not sub-Gaussian, or if the model has no comparisons.
        """
        return None

    def target_means(self, targets: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the estimated mean of reports with these features, for the step `recentred`.

        Args:
            targets: One row of features per reported number.

        Raises:
            NotAvailable: The model does not support the step.
        """
        raise NotAvailable(_no_recentring(self.study))

    def target_widths(self, targets: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the confidence width of each of these means, for the step `recentred`.

        Args:
            targets: One row of features per reported number.

        Raises:
            NotAvailable: The model does not support the step.
        """
        raise NotAvailable(_no_recentring(self.study))

    def target_radius(self, targets: FloatArray) -> float:  # noqa: ARG002
        """Return an upper bound on the norm of the errors of these means, for the step `recentred`.

        Args:
            targets: One row of features per reported number.

        Raises:
            NotAvailable: The model does not support the step.
        """
        raise NotAvailable(_no_recentring(self.study))


def _no_recentring(study: Study) -> str:
    return f"steps: got recentred, which the reward model {study.model} does not support"


class RewardModel(ABC):
    """How the mean reward of an action depends on its features and on an unknown parameter.

    Example:
        >>> import numpy as np
        >>> from dpbandits.protocol import REWARD_MODELS
        >>> model = REWARD_MODELS["linear"]
        >>> model.means(np.eye(2), np.array([1]), np.array([0.5, 0.2]))
        array([0.2])
    """

    name: ClassVar[str]
    """The value of `Study.model` that selects this model."""
    steps: ClassVar[tuple[str, ...]] = ("differences", "committed")
    """The steps beyond the paper that the model supports, see `Steps`. Its studies take no other steps."""
    compares: ClassVar[bool] = False
    """Whether fits have a `comparison`, so that the estimates of all phases together can drop actions."""
    linear_in_features: ClassVar[bool] = False
    """Whether the mean reward of an action is a linear function of its features, and fits are `LinearFit`.
    Fit tests, a stated `misfit`, effects of features and intervals of answers need this."""

    def check(self, study: Study) -> None:  # noqa: B027 - most models serve every study
        """Raise an `InvalidValue` if the model cannot serve a study with these settings.

        Args:
            study: The study.
        """

    @abstractmethod
    def fit(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> Fit:
        """Fit the parameter to the released means of a phase.

        Args:
            study: The study.
            evidence: The phase, with the released means.
            errors: The errors of these means.

        Returns:
            The fit. It must be a function of the arguments alone, since replaying a study computes it again.
        """

    @abstractmethod
    def means(self, matrix: FloatArray, actions: IntArray, parameter: FloatArray) -> FloatArray:
        """Return the mean rewards of some rows of the action matrix for a given parameter.

        Args:
            matrix: The features of all actions, one row each.
            actions: Indices of rows.
            parameter: The parameter.
        """

    def distance(self, one: FloatArray, other: FloatArray) -> float:  # noqa: ARG002
        """Return an upper bound on the difference of any action's mean reward between two parameters.

        Args:
            one: A parameter.
            other: Another parameter.
        """
        return float("inf")

    def pool(self, fits: Sequence[Fit]) -> FloatArray:
        """Return the mean of all phases' estimates, weighted by their precisions.

        Args:
            fits: The fits of all phases so far.
        """
        precision = sum(one.precision for one in fits)
        total = sum(one.precision @ one.estimate for one in fits)
        return np.asarray(np.linalg.pinv(precision, hermitian=True) @ total, dtype=np.float64)


@lru_cache(maxsize=64)  # enough for the phases of a study; cached fits keep the actions in memory
def fitted(study: Study, evidence: PhaseEvidence) -> Fit:
    """Fit the study's reward model to a phase. Recent fits are cached, and the same object is returned.

    Widths, the clipping of the next phase and all best guesses use the same fit.

    Args:
        study: The study.
        evidence: The phase. For evidence from `State.history`, pass `evidence.unfitted` to get the cached
            fit.

    Returns:
        The fit. It does not depend on `evidence.estimate`.
    """
    return study.reward_model.fit(study, evidence, study.assignment_rule.errors(study, evidence))
