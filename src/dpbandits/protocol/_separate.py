"""One client a round: every reward has its own client (paper, Algorithm 3; docs/theory.md).

A reward of action x has mean ⟨θ*, x⟩ and is sub-Gaussian around it with v = 1 + σ²‖x‖²: the client's own
deviation is just more noise. So the means of n(x) rewards are independent over actions, and

    ⟨v, θ̃ − θ*⟩   has variance proxy   Σ_x (A'v)²_x·(v(x)/n(x) + s²(x)),   s(x) the mechanism's error.

A reward less its offset, of mean m with |m| ≤ W, is clipped at R = W + z√v. What is cut off, e ≥ 0, has
P(e > t) ≤ p·exp(−t/c) with p = 2·exp(−z²/2), c = √v/z. Hence E e ≤ p·c, and the cut is sub-Gamma around
its mean with variance 2p·c² and scale c: with probability 1 − β all cuts pull ⟨v, θ̃⟩ by less than

    Σ|a|·p·c + √(2·log(1/β)·Σ a²·2p·c²/n) + log(1/β)·max |a|·c/n,   a = A'v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import Mechanism, per_action_deviations, per_action_radius
from dpbandits.privacy.trust import CentralLattice, LocalLattice
from dpbandits.protocol._clipping import residual_deviations
from dpbandits.protocol._estimation import LeastSquares
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._study import Evidence, Study

# Of n rewards about this times √n are cut: their pull is then a hundredth of the rewards' own scatter.
_CUT = 0.04
# Beyond so many deviations there is nobody: the chance is below 10⁻³⁴⁷.
_NOBODY = 40.0


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Where each action's clients clip, whether around the last estimate, and the scale of what is cut."""

    bounds: FloatArray
    recentred: NDArray[np.bool_]
    excess: FloatArray


def clipping(study: Study, rows: FloatArray, cohorts: IntArray, widths: FloatArray | None) -> Clipping:
    """Around zero, where means keep the study's bound, or around an estimate that is off by `widths`."""
    deviations = reward_deviations(study, rows)
    if not study.privacy.trust_model.private:
        nowhere = np.zeros(len(rows), dtype=bool)
        return Clipping(bounds=study.bound + _NOBODY * deviations, recentred=nowhere, excess=0 * deviations)
    margins = np.sqrt(2 * np.log(2 * np.sqrt(cohorts) / _CUT))
    around_zero = study.bound + (0 if study.bounded_rewards else margins) * deviations
    around_estimate = np.inf if widths is None else widths + margins * deviations
    recentred = around_estimate < around_zero
    return Clipping(
        bounds=np.where(recentred, around_estimate, around_zero),
        recentred=recentred,
        # Bounded rewards lose nothing at their bound.
        excess=np.where(~recentred & study.bounded_rewards, 0.0, deviations / margins),
    )


def reward_deviations(study: Study, rows: FloatArray) -> FloatArray:
    """√v of a single reward of each action, its client's deviation included."""
    return residual_deviations(rows, np.ones(len(rows)), study.heterogeneity)


@lru_cache(maxsize=24)  # a study's phases; entries keep its actions alive, so not many more
def mean_variances(study: Study, evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Of each action's mean: what its rewards' scatter makes, and what the mechanism does."""
    plan = evidence.plan
    rows = study.actions.matrix[list(plan.support)]
    scatter = reward_deviations(study, rows) ** 2 / np.array(evidence.counts)
    noise = per_action_deviations(plan.separate, evidence.counts) ** 2
    scatter.flags.writeable = noise.flags.writeable = False
    return scatter, noise


def separate_widths(
    directions: FloatArray, *, study: Study, evidence: Evidence, estimator: LeastSquares
) -> FloatArray:
    """What ⟨θ̃ − θ*, v⟩ exceeds with probability at most β, for each row v, clipping included."""
    coefficients = directions @ estimator.map
    scatter, _ = mean_variances(study, evidence)
    cut = any(evidence.excess)
    confidence = study.confidence / 2 if cut else study.confidence  # half of β pays for what is cut
    radius = per_action_radius(
        evidence.plan.separate, coefficients, coefficients**2 @ scatter, confidence, evidence.counts
    )
    return radius + pull(coefficients, study, evidence, confidence) if cut else radius


def pull(coefficients: FloatArray, study: Study, evidence: Evidence, confidence: float) -> FloatArray:
    """How far clipping moves an estimate at most, with probability 1 − `confidence`."""
    rows = study.actions.matrix[list(evidence.plan.support)]
    scales, counts = np.array(evidence.excess), np.array(evidence.counts)
    with np.errstate(divide="ignore"):  # nothing is cut where the scale is zero: the margin is infinite
        chances = 2 * np.exp(-((reward_deviations(study, rows) / scales) ** 2) / 2)
    level, sizes = math.log(1 / confidence), np.abs(coefficients)
    steady = sizes @ (chances * scales)
    wandering = np.sqrt(2 * level * (sizes**2 @ (2 * chances * scales**2 / counts)))
    single = level * np.max(sizes * (scales / counts), axis=1)
    return np.asarray(steady + wandering + single, dtype=np.float64)


def paper_separate_width(study: Study, evidence: Evidence) -> float:
    """W_l = (√(2d/h) + σ_n)·√(2 log(1/β)) with σ_n of Table 5, and the rank of the span for d.

    Table 5: σ_n = 2dσ_nc√s/h, 2dσ_nl√(2s/h), 2dσ_ns√s/h, in deviations of one action's sum (central,
    shuffle) or of one client's report (local). Clients that differ scatter by 1 + σ² instead of 1.
    """
    plan, level = evidence.plan, math.log(1 / study.confidence)
    length, support = study.schedule.length(plan.phase), len(plan.support)
    action_related = math.sqrt(2 * plan.rank / length * (1 + study.heterogeneity**2))
    width = action_related * math.sqrt(2 * level)
    laplace = [_laplace_scale(own) for own in plan.separate]
    if min(laplace) > 0:
        return width + 2 * plan.rank / length * max(laplace) * _laplace_sum(plan, evidence, level)
    deviations = per_action_deviations(plan.separate, evidence.counts)
    counts = np.array(evidence.counts, dtype=np.float64)
    if study.privacy.trust_model.noise_per_client:
        privacy = float(np.max(deviations * np.sqrt(counts))) * math.sqrt(2 * support / length)
    else:
        privacy = float(np.max(deviations * counts)) * math.sqrt(support) / length
    return width + 2 * plan.rank * privacy * math.sqrt(2 * level)


def _laplace_scale(mechanism: Mechanism) -> float:
    """Of Laplace noise in units of rewards; zero for any other noise."""
    if isinstance(mechanism, CentralLattice | LocalLattice) and mechanism.noise == "laplace":
        return mechanism.scale * mechanism.lattice.step
    return 0.0


def _laplace_sum(plan: Plan, evidence: Evidence, level: float) -> float:
    """What N Laplace variables of scale one, times factors of at most one, add up to: no width is printed.

    Each is sub-Gamma with variance 2 and scale 1, so 2√(N·log(1/β)) + log(1/β) is exceeded with
    probability at most β. N counts the noises: one for each action, or one for each client.
    """
    noises = evidence.reports if plan.separate[0].trust_model.noise_per_client else len(plan.support)
    return 2 * math.sqrt(noises * level) + level
