"""From a release to what is known: the estimate, and how far it may be off in any direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbandits.privacy import Mechanism
from dpbandits.protocol.estimation import LeastSquares
from dpbandits.protocol.messages import Plan
from dpbandits.protocol.study import Evidence, State, Study
from dpbandits.protocol.widths import tight_widths

FloatArray = NDArray[np.float64]

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
        return _inference(study, evidence)

    @staticmethod
    def compute(study: Study, evidence: Evidence) -> Inference:
        """What `of` remembers."""
        plan, mechanism = evidence.plan, mechanism_of(evidence.plan)
        plays = np.array(plan.plays, dtype=np.float64)
        weights = plays
        if study.learning.weighted:
            own = mechanism.error_deviation(evidence.reports) ** 2
            weights = 1 / (1 / (evidence.reports * plays) + own)
        rows = study.actions.matrix[list(plan.support)]
        return Inference(
            study=study, evidence=evidence, estimator=LeastSquares.weighted(rows, weights, plan.rank)
        )

    def precision(self) -> FloatArray:
        """The inverse, on the span, of C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I."""
        plan, reports = self.evidence.plan, self.evidence.reports
        plays = np.array(plan.plays, dtype=np.float64)
        variances = 1 / (reports * plays) + mechanism_of(plan).error_deviation(reports) ** 2
        left, values, _ = np.linalg.svd(self.estimator.map * np.sqrt(variances), full_matrices=False)
        spectrum = values[: plan.rank] ** 2 + self.study.heterogeneity**2 / reports
        basis = left[:, : plan.rank]
        return np.asarray((basis / spectrum) @ basis.T, dtype=np.float64)

    def widths(self, directions: FloatArray) -> FloatArray:
        """What ⟨θ̃ − θ*, v⟩ exceeds with probability at most β, for each row v, clipping included."""
        plan = self.evidence.plan
        noise = tight_widths(
            directions,
            estimator=self.estimator,
            plays=np.array(plan.plays, dtype=np.float64),
            mechanism=mechanism_of(plan),
            clients=self.evidence.reports,
            heterogeneity=self.study.heterogeneity,
            confidence=self.study.confidence,
        )
        if not self.evidence.excess:
            return noise
        clipped: FloatArray = np.abs(directions @ self.estimator.map) @ np.array(self.evidence.excess)
        return noise + clipped


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


def products(matrix: FloatArray, active: NDArray[np.int64], vector: FloatArray) -> FloatArray:
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
        own = Inference.of(study, evidence).precision() @ basis
        precision += basis.T @ own
        total += own.T @ np.array(evidence.estimate)
    return np.asarray(basis @ np.linalg.solve(precision, total), dtype=np.float64)
