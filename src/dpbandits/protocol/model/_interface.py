"""What the learner needs to know about a reward model.

A `RewardModel` says how mean rewards depend on an unknown parameter, and fits the parameter to the released
means of a phase. A `Fit` holds the estimate and says how far the mean reward of an action may be off. The
learner eliminates, commits and records progress with these alone. A new model is one file:

    @register_model
    class Tanh(RewardModel):
        name = "tanh"
        ...

    study = Study(..., model="tanh")

docs/how-to/new-reward-model.md walks through an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import NotAvailable
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol.assignment import MeanErrors

if TYPE_CHECKING:
    from dpbandits.protocol._study import State, Study


@dataclass(frozen=True, kw_only=True, eq=False)
class Bracket:
    """Bounds of many widths: each is at least `low` and at most `high`, row by row."""

    low: FloatArray
    high: FloatArray


class Fit(ABC):
    """A reward model fitted to one phase.

    Attributes:
        study: The study.
        evidence: The phase that it was fitted to.
        errors: How far the released means of the phase may be off.
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
        """The covariance of the estimate, or an upper bound."""

    @abstractmethod
    def widths(self, actions: IntArray, *, towards: int | None = None) -> FloatArray:
        """What the error of an estimated mean reward exceeds with a probability of at most β.

        Args:
            actions: Indices of actions.
            towards: If given, the widths are those of the differences to this action.

        Returns:
            One width per action; β is `Study.confidence`.
        """

    @cached_property
    def precision(self) -> FloatArray:
        """The inverse of the covariance, on its range."""
        return np.asarray(np.linalg.pinv(self.covariance(), hermitian=True), dtype=np.float64)

    @property
    def common_width(self) -> float | None:
        """One width for all actions, where the preset states one; None if each action has its own."""
        return None

    def bracket(
        self,
        state: State,  # noqa: ARG002
        reference: PhaseEvidence,  # noqa: ARG002
        *,
        towards: int | None = None,  # noqa: ARG002
    ) -> Bracket | None:
        """Bounds of the widths of all active actions that are cheaper than these; None if there are none.

        Args:
            state: The state before the phase.
            reference: An earlier phase with the same design, or the one that was fitted.
            towards: As in `widths`.

        Returns:
            The bounds, in the order of `state.active_actions`.
        """
        return None

    def target_means(self, targets: FloatArray) -> FloatArray:  # noqa: ARG002
        """The estimated mean of reports that have these features, for the step `recentred`."""
        raise NotAvailable(_no_recentring(self.study))

    def target_widths(self, targets: FloatArray) -> FloatArray:  # noqa: ARG002
        """How far each of these means may be off, for the step `recentred`."""
        raise NotAvailable(_no_recentring(self.study))

    def target_radius(self, targets: FloatArray) -> float:  # noqa: ARG002
        """How long the vector of the errors of these means may be, for the step `recentred`."""
        raise NotAvailable(_no_recentring(self.study))


def _no_recentring(study: Study) -> str:
    return f"steps: got recentred, which the reward model {study.model} does not support"


class RewardModel(ABC):
    """How the mean reward of an action depends on its features and on an unknown parameter."""

    name: ClassVar[str]
    """What `Study.model` calls it."""
    steps: ClassVar[tuple[str, ...]] = ("differences", "committed")
    """The steps beyond the paper that it supports, see `Steps`. A study takes no others."""

    def check(self, study: Study) -> None:  # noqa: B027 - most models serve every study
        """Raise an `InvalidValue` if the model cannot serve a study with these settings."""

    @abstractmethod
    def fit(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> Fit:
        """Fit the parameter to the released means of a phase.

        Args:
            study: The study.
            evidence: The phase, with the released means.
            errors: How far these means may be off.

        Returns:
            The fit; a function of the arguments alone, since it is computed again when a study is replayed.
        """

    @abstractmethod
    def means(self, matrix: FloatArray, actions: IntArray, parameter: FloatArray) -> FloatArray:
        """The mean rewards of some rows of the action matrix, if `parameter` were the truth."""

    def distance(self, one: FloatArray, other: FloatArray) -> float:  # noqa: ARG002
        """The most by which the mean reward of any action differs between two parameters."""
        return float("inf")

    def pool(self, fits: Sequence[Fit]) -> FloatArray:
        """The parameter from all phases: their estimates, weighted by their precisions."""
        precision = sum(one.precision for one in fits)
        total = sum(one.precision @ one.estimate for one in fits)
        return np.asarray(np.linalg.pinv(precision, hermitian=True) @ total, dtype=np.float64)


def fitted(study: Study, evidence: PhaseEvidence) -> Fit:
    """The study's reward model fitted to a phase; the same object for the same phase, while it is cached.

    Args:
        study: The study.
        evidence: The phase, with or without an estimate.

    Returns:
        The fit, which depends on the released means and not on `evidence.estimate`.
    """
    return _fitted(study, replace(evidence, estimate=()))


@lru_cache(maxsize=24)  # a study's phases; entries keep its actions alive, so not many more
def _fitted(study: Study, evidence: PhaseEvidence) -> Fit:
    """A phase's fit is needed for its widths, the next phase's clipping and every best guess."""
    return study.reward_model.fit(study, evidence, study.assignment_rule.errors(study, evidence))
