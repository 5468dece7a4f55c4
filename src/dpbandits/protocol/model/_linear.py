"""The linear reward model: the mean reward of action x is ⟨θ*, x⟩ (paper, Section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._linear_algebra import least_squares
from dpbandits.protocol._misfit import largest_norm, misfit_bias
from dpbandits.protocol._steps import STEP_NAMES
from dpbandits.protocol.assignment import MeanErrors
from dpbandits.protocol.model._interface import Bracket, Comparison, Fit, RewardModel
from dpbandits.protocol.model._linear_bounds import BLOCK, bracket

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study

_SPARSE = 8  # if less than an eighth of the rows is needed, these rows are copied first


class LinearFit(Fit):
    """A least-squares fit: the estimate is A·means, so its errors are A times the errors of the means.

    Attributes:
        map: A, d × s; its range is the span of the active actions.
    """

    def __init__(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> None:
        super().__init__(study, evidence, errors)
        plan = evidence.plan
        rows = study.actions.matrix[list(plan.support)]
        if plan.mixing_matrix is None:
            # Weighted with the variances that the server knows, or with the plays alone as in the paper.
            weights = 1 / errors.variances if study.learning.weighted else errors.weights
        else:  # clients report as many numbers as the rank, so weights do not change the solution
            rows, weights = plan.mixing_matrix @ rows, np.ones(plan.rank)
        self.map = least_squares(rows, weights, plan.rank)

    @cached_property
    def estimate(self) -> FloatArray:
        """θ̃, the estimate of θ* within the span."""
        return np.asarray(self.map @ np.array(self.evidence.means), dtype=np.float64)

    def covariance(self) -> FloatArray:
        """Return C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I, or its equivalent for other reports."""
        scaled = self.errors.factor(self.map)
        return np.asarray(scaled @ scaled.T + self.errors.common * np.eye(len(scaled)), dtype=np.float64)

    @cached_property
    def basis(self) -> FloatArray:
        """Orthonormal columns that span the active actions."""
        left = np.linalg.svd(self.map, full_matrices=False)[0]
        return np.asarray(left[:, : self.evidence.plan.rank], dtype=np.float64)

    @cached_property
    def precision(self) -> FloatArray:
        """The inverse of C on the span."""
        rank = self.evidence.plan.rank
        left, values, _ = np.linalg.svd(self.errors.factor(self.map), full_matrices=False)
        spectrum, basis = values[:rank] ** 2 + self.errors.common, left[:, :rank]
        return np.asarray((basis / spectrum) @ basis.T, dtype=np.float64)

    def widths(self, actions: IntArray, *, towards: int | None = None) -> FloatArray:
        """Compute the widths for one block of actions at a time, to save memory."""
        matrix, found = self.study.actions.matrix, np.empty(len(actions))
        for start in range(0, len(actions), BLOCK):
            rows = matrix[actions[start : start + BLOCK]]
            directions = rows if towards is None else matrix[towards] - rows
            found[start : start + BLOCK] = self.errors.radius(directions @ self.map, directions)
            found[start : start + BLOCK] += self._misfit_bias(
                directions, actions[start : start + BLOCK], towards
            )
        return found

    def _misfit_bias(
        self, directions: FloatArray, actions: IntArray, towards: int | None
    ) -> FloatArray | float:
        """Return how far the study's misfit may have moved the estimates in these directions."""
        if not self.study.misfit:
            return 0.0
        return self.study.misfit * misfit_bias(
            self.on_averages(directions), support=self.evidence.plan.support, actions=actions, towards=towards
        )

    def on_averages(self, directions: FloatArray) -> FloatArray:
        """Return, for each row v, the coefficients of the supported actions' averages in ⟨θ̃, v⟩.

        Args:
            directions: One row v per direction.
        """
        mixing, coefficients = self.evidence.plan.mixing_matrix, directions @ self.map
        return np.asarray(coefficients if mixing is None else coefficients @ mixing, dtype=np.float64)

    def misfit_along(self, directions: FloatArray) -> FloatArray:
        """Return how far the study's misfit m may move the estimate of each direction from a mean reward.

        It is m·(Σ|c_i| + 2), where c are the coefficients of the averages. The 2 allows for a difference of
        two actions: the mean reward of each may deviate by m from the linear function.

        Args:
            directions: Features of actions, or differences of the features of two actions.
        """
        if not self.study.misfit:
            return np.zeros(len(directions))
        moved = np.abs(self.on_averages(directions)).sum(axis=1)
        return np.asarray(self.study.misfit * (moved + 2), dtype=np.float64)

    @property
    def common_width(self) -> float | None:
        """The paper's W_l in the preset `paper` without the step `differences`; None otherwise."""
        if self.study.privacy.preset == "paper" and not self.study.learning.differences:
            return self.errors.paper_width()
        return None

    def bracket(
        self, state: State, reference: PhaseEvidence, *, towards: int | None = None
    ) -> Bracket | None:
        """Return bounds from the quadratic forms of an earlier phase, see `_linear_bounds.py`."""
        if self.study.misfit:  # the misfit's part of a width is not a multiple of a standard deviation
            return None
        return bracket(state, self, reference, towards=towards)

    def comparison(self, directions: FloatArray) -> Comparison | None:
        """Return ⟨θ̃, v⟩ with its proxy v'Cv and the pulls of clipping and of a misfit, for each row v."""
        coefficients = directions @ self.map
        proxies = self.errors.proxies(coefficients, directions)
        if proxies is None:
            return None
        return Comparison(
            estimates=directions @ self.estimate,
            proxies=proxies,
            pull=self.errors.certain_pull(coefficients),
            bias=self.misfit_along(directions),
            planned=self.errors.planned_information(coefficients, directions),
        )

    def target_means(self, targets: FloatArray) -> FloatArray:
        """Return ⟨θ̃, v⟩ for each row v."""
        return np.asarray(targets @ self.estimate, dtype=np.float64)

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """Return, for each row v, a bound that ⟨θ̃ − θ*, v⟩ exceeds with probability at most β.

        The bound includes the bias from clipping and from the study's misfit. It is infinite for directions
        that the phase did not measure.
        """
        radius = self.errors.radius(targets @ self.map, targets)
        radius = np.where(self.spans(targets), radius, np.inf)
        if not self.study.misfit:
            return radius
        bias = np.abs(self.on_averages(targets)).sum(axis=1)
        return np.asarray(radius + self.study.misfit * bias, dtype=np.float64)

    def target_radius(self, targets: FloatArray) -> float:
        """Return a bound that ‖V(θ̃ − θ*)‖ exceeds with probability at most β, V the matrix of the rows.

        It is infinite if the phase did not measure some row.
        """
        if not self.spans(targets).all():
            return float("inf")
        bias = self.study.misfit * largest_norm(self.on_averages(targets)) if self.study.misfit else 0.0
        return self.errors.norm_radius(targets @ self.map, targets) + bias


class Linear(RewardModel):
    """The model with mean reward ⟨θ*, x⟩ of action x."""

    name = "linear"
    steps = STEP_NAMES
    compares = True
    linear_in_features = True

    def fit(self, study: Study, evidence: PhaseEvidence, errors: MeanErrors) -> LinearFit:
        """Fit by least squares in the span of the active actions."""
        return LinearFit(study, evidence, errors)

    def means(self, matrix: FloatArray, actions: IntArray, parameter: FloatArray) -> FloatArray:
        """Return ⟨x, parameter⟩ of some rows. The rows are copied only if they are few."""
        found: FloatArray
        if len(actions) * _SPARSE < len(matrix):
            found = matrix[actions] @ parameter
            return found
        found = matrix @ parameter
        return found if len(actions) == len(matrix) else found[actions]

    def distance(self, one: FloatArray, other: FloatArray) -> float:
        """Return ‖one − other‖, which bounds the difference because actions have norm at most 1."""
        return float(np.linalg.norm(one - other))

    def pool(self, fits: Sequence[Fit]) -> FloatArray:
        """Return the pooled estimate, computed in the span of the first phase, which contains the others."""
        first = fits[0]
        assert isinstance(first, LinearFit)
        basis = first.basis
        precision, total = np.zeros((basis.shape[1],) * 2), np.zeros(basis.shape[1])
        for one in fits:
            own = one.precision @ basis
            precision += basis.T @ own
            total += own.T @ one.estimate
        return np.asarray(basis @ np.linalg.solve(precision, total), dtype=np.float64)
