"""From a release to what is known: the estimate, and how far it may be off in any direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import Mechanism
from dpbandits.protocol._estimation import LeastSquares
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._separate import mean_variances, separate_widths
from dpbandits.protocol._study import Evidence, State, Study
from dpbandits.protocol._widths import tight_widths

_ROUNDING = 1e-9
_MANY = 1 << 14  # candidates for the lead whose scores are not computed anew
_SPARSE = 8  # where fewer rows than one in so many are wanted, these are gathered first


@dataclass(frozen=True, kw_only=True)
class Inference:
    """The least-squares map of one phase, and the widths that its evidence supports."""

    study: Study
    evidence: Evidence
    estimator: LeastSquares

    @staticmethod
    def of(study: Study, evidence: Evidence) -> Inference:
        """Weighted with the variances that the server knows, or with the plays alone, as in the paper."""
        return _inference(study, replace(evidence, estimate=()))  # what was estimated does not enter

    @staticmethod
    def compute(study: Study, evidence: Evidence) -> Inference:
        """What `of` remembers."""
        plan = evidence.plan
        weights = np.array(evidence.counts if study.separate else plan.plays, dtype=np.float64)
        if study.learning.weighted:
            weights = 1 / _variances(study, evidence)
        rows = study.actions.matrix[list(plan.support)]
        if plan.mixing_matrix is not None:  # as many numbers as the rank: weights play no part
            rows, weights = plan.mixing_matrix @ rows, np.ones(plan.rank)
        return Inference(
            study=study, evidence=evidence, estimator=LeastSquares.weighted(rows, weights, plan.rank)
        )

    def covariance(self) -> FloatArray:
        """C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I, or what takes its place for mixed reports."""
        scaled = self._factor(self.estimator.map)
        common = 0.0 if self.study.separate else self.study.heterogeneity**2 / self.evidence.reports
        return np.asarray(scaled @ scaled.T + common * np.eye(len(scaled)), dtype=np.float64)

    @cached_property
    def precision(self) -> FloatArray:
        """The inverse of C on the span.

        Where every reward has its own client, these have no deviation in common: the last term is missing.
        """
        plan = self.evidence.plan
        left, values, _ = np.linalg.svd(self._factor(self.estimator.map), full_matrices=False)
        spectrum = values[: plan.rank] ** 2
        if not self.study.separate:
            spectrum += self.study.heterogeneity**2 / self.evidence.reports
        basis = left[:, : plan.rank]
        return np.asarray((basis / spectrum) @ basis.T, dtype=np.float64)

    def widths(self, directions: FloatArray) -> FloatArray:
        """What ⟨θ̃ − θ*, v⟩ exceeds with probability at most β, for each row v, clipping included."""
        plan = self.evidence.plan
        if self.study.separate:
            return separate_widths(
                directions, study=self.study, evidence=self.evidence, estimator=self.estimator
            )
        noise = tight_widths(
            directions,
            estimator=self.estimator,
            plays=np.array(plan.plays, dtype=np.float64),
            mixing=plan.mixing_matrix,
            mechanism=mechanism_of(plan),
            clients=self.evidence.reports,
            heterogeneity=self.study.heterogeneity,
            confidence=self.study.confidence,
        )
        return noise + self._pulled(directions @ self.estimator.map) if self.evidence.excess else noise

    def _pulled(self, coefficients: FloatArray) -> FloatArray:
        """How far clipping may move ⟨a, means⟩ for each row a."""
        pulled = np.array(self.evidence.excess)
        if mechanism_of(self.evidence.plan).shape == "ball":
            return np.asarray(np.linalg.norm(coefficients, axis=1) * pulled[0], dtype=np.float64)
        return np.asarray(np.abs(coefficients) @ pulled, dtype=np.float64)

    def norm_radius(self, directions: FloatArray) -> float:
        """What ‖V(θ̃ − θ*)‖ exceeds with probability at most β, V the matrix of directions.

        For sub-Gaussian errors with proxy K it is √tr K + √(2‖K‖·log(1/β)) (Hsu, Kakade and Zhang 2012).
        """
        coefficients = directions @ self.estimator.map
        errors = self._factor(coefficients)
        common = self.study.heterogeneity**2 / self.evidence.reports
        spectrum = np.linalg.eigvalsh(errors @ errors.T + common * directions @ directions.T)
        level = 2 * math.log(1 / self.study.confidence)
        radius = math.sqrt(max(0.0, float(spectrum.sum()))) + math.sqrt(level * max(0.0, float(spectrum[-1])))
        if not self.evidence.excess:
            return radius
        if mechanism_of(self.evidence.plan).shape == "ball":
            return radius + float(np.linalg.norm(coefficients, 2)) * self.evidence.excess[0]
        return radius + float(np.linalg.norm(coefficients, axis=0) @ np.array(self.evidence.excess))

    def _factor(self, coefficients: FloatArray) -> FloatArray:
        """FF' is the covariance of coefficients·means, but for what all of a client's answers share."""
        plan, reports = self.evidence.plan, self.evidence.reports
        if plan.mixing_matrix is None:
            return coefficients * np.sqrt(_variances(self.study, self.evidence))
        plays = reports * np.array(plan.plays, dtype=np.float64)
        own = mechanism_of(plan).error_deviation(reports)
        return np.hstack([coefficients @ plan.mixing_matrix / np.sqrt(plays), own * coefficients])


def _variances(study: Study, evidence: Evidence) -> FloatArray:
    """Of the released mean of each action, but for what all of a client's answers have in common."""
    if study.separate:
        scatter, noise = mean_variances(study, evidence)
        return scatter + noise
    plays, reports = np.array(evidence.plan.plays, dtype=np.float64), evidence.reports
    own = mechanism_of(evidence.plan).error_deviation(reports) ** 2
    return np.asarray(1 / (reports * plays) + own, dtype=np.float64)


@lru_cache(maxsize=24)  # a study's phases; entries keep its actions alive, so not many more
def _inference(study: Study, evidence: Evidence) -> Inference:
    """A phase's least squares are needed for its widths, the next phase's clipping and every best guess."""
    return Inference.compute(study, evidence)


def mechanism_of(plan: Plan) -> Mechanism:
    """The mechanism of a plan that has one, as every plan with a release does."""
    assert plan.mechanism is not None
    return plan.mechanism


def leader(state: State) -> int:
    """The best guess among the active actions; before the first release, any."""
    if not state.history:
        return int(state.active_actions[0])
    pooled = state.study.learning.pooled
    estimate = pooled_estimate(state.study, state.history) if pooled else np.array(state.estimate)
    scores = products(state.study.actions.matrix, state.active_actions, estimate)
    return int(state.active_actions[int(np.argmax(scores))])


def best_guess(study: Study, history: Sequence[Evidence], active: IntArray, scores: FloatArray) -> int:
    """The place of the leader in `active`, found from the scores by the last estimate.

    Actions have norm one at most, so no score by the pooled estimate differs by more than the distance of
    the two estimates. Only actions within twice that of the best score need their score by the pooled one.
    If these are still more than 2¹⁴ the last estimate decides alone, to spare a pass over all actions.
    """
    best = int(np.argmax(scores))
    if not study.learning.pooled:
        return best
    pooled = pooled_estimate(study, history)
    distance = float(np.linalg.norm(pooled - np.array(history[-1].estimate)))
    near = np.flatnonzero(scores >= scores[best] - 2 * distance * (1 + _ROUNDING) - _ROUNDING)
    if near.size > _MANY:
        return best
    return int(near[int(np.argmax(products(study.actions.matrix, active[near], pooled)))])


def products(matrix: FloatArray, active: IntArray, vector: FloatArray) -> FloatArray:
    """⟨x, vector⟩ of the active rows, none of them copied while they are many."""
    found: FloatArray
    if len(active) * _SPARSE < len(matrix):
        found = matrix[active] @ vector
        return found
    found = matrix @ vector
    return found if len(active) == len(matrix) else found[active]


def pooled_estimate(study: Study, history: Sequence[Evidence]) -> FloatArray:
    """All phases' estimates, weighted by the inverses of their covariances, in the first phase's span."""
    first = Inference.of(study, history[0])
    basis = np.linalg.svd(first.estimator.map, full_matrices=False)[0][:, : history[0].plan.rank]
    precision, total = np.zeros((basis.shape[1],) * 2), np.zeros(basis.shape[1])
    for evidence in history:
        own = Inference.of(study, evidence).precision @ basis
        precision += basis.T @ own
        total += own.T @ np.array(evidence.estimate)
    return np.asarray(basis @ np.linalg.solve(precision, total), dtype=np.float64)
