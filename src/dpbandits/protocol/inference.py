"""From a release to what is known: the estimate, and how far it may be off in any direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbandits.privacy import Mechanism
from dpbandits.protocol.estimation import LeastSquares
from dpbandits.protocol.messages import Plan
from dpbandits.protocol.study import Evidence, Study
from dpbandits.protocol.widths import tight_widths

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Inference:
    """The least-squares map of one phase, and the widths that its evidence supports."""

    study: Study
    evidence: Evidence
    estimator: LeastSquares

    @staticmethod
    def of(study: Study, evidence: Evidence) -> Inference:
        """Weighted with the variances that the server knows, or with the plays alone, as in the paper."""
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


def mechanism_of(plan: Plan) -> Mechanism:
    """The mechanism of a plan that has one, as every plan with a release does."""
    assert plan.mechanism is not None
    return plan.mechanism
