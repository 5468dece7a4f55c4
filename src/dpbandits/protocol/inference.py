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
from dpbandits.protocol.separate import mean_variances, separate_widths
from dpbandits.protocol.study import Evidence, State, Study
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
        return _inference(study, evidence)

    @staticmethod
    def compute(study: Study, evidence: Evidence) -> Inference:
        """What `of` remembers."""
        plan = evidence.plan
        weights = np.array(evidence.counts if study.separate else plan.plays, dtype=np.float64)
        if study.learning.weighted:
            weights = 1 / _variances(study, evidence)
        rows = study.actions.matrix[list(plan.support)]
        return Inference(
            study=study, evidence=evidence, estimator=LeastSquares.weighted(rows, weights, plan.rank)
        )

    def precision(self) -> FloatArray:
        """The inverse, on the span, of C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I.

        Where every reward has its own client, these have no deviation in common: the last term is missing.
        """
        plan, variances = self.evidence.plan, _variances(self.study, self.evidence)
        left, values, _ = np.linalg.svd(self.estimator.map * np.sqrt(variances), full_matrices=False)
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
            mechanism=mechanism_of(plan),
            clients=self.evidence.reports,
            heterogeneity=self.study.heterogeneity,
            confidence=self.study.confidence,
        )
        if not self.evidence.excess:
            return noise
        clipped: FloatArray = np.abs(directions @ self.estimator.map) @ np.array(self.evidence.excess)
        return noise + clipped


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
    rows = state.study.actions.matrix[state.active_actions]
    return int(state.active_actions[int(np.argmax(rows @ estimate))])


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
