"""A reward model in one file: the mean reward of action x is tanh⟨θ*, x⟩.

It is the example of docs/how-to/new-reward-model.md. Tests use it to show that the learner works with any
reward model.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Fit, PhaseEvidence, RewardModel, Study, register_model
from dpbandits.protocol.assignment import MeanErrors

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LARGEST = math.tanh(1)  # the largest mean reward, since ‖θ*‖ ≤ 1 and ‖x‖ ≤ 1
SLOPE = 1 / (1 - LARGEST**2)  # the largest slope of artanh on [−LARGEST, LARGEST]


class TanhFit(Fit):
    """Least squares on artanh of the released means.

    artanh multiplies an error by at most `SLOPE`, and tanh makes no error larger.
    """

    @cached_property
    def rows(self) -> FloatArray:
        """The features of the played actions."""
        return self.study.actions.matrix[list(self.evidence.plan.support)]

    @cached_property
    def map(self) -> FloatArray:
        """The linear map from artanh of the means to the estimate."""
        return np.linalg.pinv(self.rows)

    @cached_property
    def estimate(self) -> FloatArray:
        """The estimate θ̃."""
        means = np.clip(self.evidence.means, -LARGEST, LARGEST)
        return np.asarray(self.map @ np.arctanh(means), dtype=np.float64)

    def covariance(self) -> FloatArray:
        """Return an upper bound of the covariance, since `SLOPE` is an upper bound."""
        scaled = SLOPE * self.errors.factor(self.map)
        return np.asarray(scaled @ scaled.T, dtype=np.float64)

    @cached_property
    def radii(self) -> FloatArray:
        """Error bounds that hold for all released means at once with probability 1 − β."""
        count = len(self.rows)
        share = self.study.bound_failure / (2 * count)  # two sides of each mean
        return SLOPE * self.errors.radius(np.eye(count), self.rows, confidence=share)

    def widths(self, actions: IntArray, *, towards: int | None = None) -> FloatArray:
        """Return the widths; for a difference, the sum of the widths of both actions."""
        widths = np.abs(self.study.actions.matrix[actions] @ self.map) @ self.radii
        if towards is None:
            return np.asarray(widths, dtype=np.float64)
        own = np.abs(self.study.actions.matrix[towards] @ self.map) @ self.radii
        return np.asarray(np.where(actions == towards, 0.0, widths + own), dtype=np.float64)


@register_model
class Tanh(RewardModel):
    """The model with mean reward tanh⟨θ*, x⟩, for clients with equal parameters."""

    name = "tanh"
    steps = ("differences", "pooled", "committed")

    def check(self, study: Study) -> None:
        """Refuse heterogeneous clients: the mean of tanh over clients is not tanh of the mean."""
        if study.heterogeneity:
            raise InvalidValue("heterogeneity", study.heterogeneity, "0 with the reward model tanh")

    def fit(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> TanhFit:
        """Fit the model to one phase."""
        return TanhFit(study, evidence, errors)

    def means(self, matrix: FloatArray, actions: IntArray, parameter: FloatArray) -> FloatArray:
        """Return tanh⟨x, parameter⟩ of some rows."""
        return np.tanh(matrix[actions] @ parameter)

    def distance(self, one: FloatArray, other: FloatArray) -> float:
        """Return the distance of the parameters: tanh is 1-Lipschitz, and actions have norm at most 1."""
        return float(np.linalg.norm(one - other))
