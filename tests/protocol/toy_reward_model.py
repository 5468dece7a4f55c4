"""A reward model in one file: the mean reward of action x is tanh⟨θ*, x⟩.

It is the example of docs/how-to/new-reward-model.md, and it serves in tests to show that the learner does not
know which model it has.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Fit, PhaseEvidence, RewardModel, Study, register_model
from dpbandits.protocol.assignment import MeanErrors

LARGEST = math.tanh(1)  # ‖θ*‖ ≤ 1 and ‖x‖ ≤ 1, so no mean reward is larger
SLOPE = 1 / (1 - LARGEST**2)  # of artanh, at most, on [−LARGEST, LARGEST]


class TanhFit(Fit):
    """Least squares on artanh of the released means.

    artanh moves an error by a factor of at most `SLOPE`. tanh makes none larger.
    """

    @cached_property
    def rows(self) -> FloatArray:
        """The features of the actions that were played."""
        return self.study.actions.matrix[list(self.evidence.plan.support)]

    @cached_property
    def map(self) -> FloatArray:
        """From artanh of the means to the estimate."""
        return np.linalg.pinv(self.rows)

    @cached_property
    def estimate(self) -> FloatArray:
        """θ̃."""
        means = np.clip(self.evidence.means, -LARGEST, LARGEST)
        return np.asarray(self.map @ np.arctanh(means), dtype=np.float64)

    def covariance(self) -> FloatArray:
        """An upper bound, as `SLOPE` is one."""
        scaled = SLOPE * self.errors.factor(self.map)
        return np.asarray(scaled @ scaled.T, dtype=np.float64)

    @cached_property
    def radii(self) -> FloatArray:
        """All released means together are off by more than these with a probability of at most β."""
        count = len(self.rows)
        share = self.study.confidence / (2 * count)  # either side of each mean
        return SLOPE * self.errors.radius(np.eye(count), self.rows, confidence=share)

    def widths(self, actions: IntArray, *, towards: int | None = None) -> FloatArray:
        """Of a difference at most the widths of both actions together."""
        widths = np.abs(self.study.actions.matrix[actions] @ self.map) @ self.radii
        if towards is None:
            return np.asarray(widths, dtype=np.float64)
        own = np.abs(self.study.actions.matrix[towards] @ self.map) @ self.radii
        return np.asarray(np.where(actions == towards, 0.0, widths + own), dtype=np.float64)


@register_model
class Tanh(RewardModel):
    """Mean reward tanh⟨θ*, x⟩, for clients that do not differ."""

    name = "tanh"
    steps = ("differences", "pooled", "committed")

    def check(self, study: Study) -> None:
        """The mean of tanh over clients that differ is not tanh of the mean."""
        if study.heterogeneity:
            raise InvalidValue("heterogeneity", study.heterogeneity, "0 with the reward model tanh")

    def fit(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> TanhFit:
        """Fit one phase."""
        return TanhFit(study, evidence, errors)

    def means(self, matrix: FloatArray, actions: IntArray, parameter: FloatArray) -> FloatArray:
        """tanh⟨x, parameter⟩."""
        return np.tanh(matrix[actions] @ parameter)

    def distance(self, one: FloatArray, other: FloatArray) -> float:
        """tanh makes no distance larger, and actions have norm one at most."""
        return float(np.linalg.norm(one - other))
