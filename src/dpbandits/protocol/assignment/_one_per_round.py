"""Assignment "one_per_round": every round has a new client, who reports one reward (Algorithm 3, DP-PE).

There is one cohort and one mechanism per action. A reward of action x has mean ⟨θ*, x⟩ and is sub-Gaussian
around it with variance v = 1 + σ²‖x‖²: each client reports once, so its own deviation acts as additional
noise. So the means of n(x) rewards are independent between actions, and

    ⟨u, θ̃ − θ*⟩   has variance proxy   Σ_x (A'u)²_x·(v(x)/n(x) + s²(x))

for every direction u, where s(x) is the mechanism's error.

A reward minus its offset has mean m with |m| ≤ W and is clipped at R = W + z√v. The amount e ≥ 0 that is cut
off satisfies P(e > t) ≤ p·exp(−t/c) with p = 2·exp(−z²/2), c = √v/z. Hence E e ≤ p·c, and e is sub-Gamma
around its mean with variance 2p·c² and scale c. With probability 1 − β, clipping moves ⟨u, θ̃⟩ by less than

    Σ|a|·p·c + √(2·log(1/β)·Σ a²·2p·c²/n) + log(1/β)·max |a|·c/n,   a = A'u.

Proofs: docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.privacy import Mechanism, calibrate_per_action, per_action_deviations, per_action_radius
from dpbandits.privacy.tails import NOTHING
from dpbandits.privacy.trust import CentralLattice, LocalLattice
from dpbandits.protocol._clipping import GRID, on_grid, residual_deviations
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._messages import Plan
from dpbandits.protocol.assignment._interface import Assignment, Crowd, MeanErrors, Played

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study
    from dpbandits.protocol.model import Fit

# Clipping cuts about _CUT·√n of n rewards. It then moves the mean by about a hundredth of the standard
# deviation that the rewards themselves cause.
_CUT = 0.04
# A reward is this many standard deviations from its mean with a probability below 10⁻³⁴⁷.
_NOBODY = 40.0


class OnePerRound(Assignment):
    """One cohort per action, with one client per round."""

    one_cohort = False

    def check(self, study: Study) -> None:
        """Raise the calibration's error if the study's privacy request cannot be met."""
        calibrate_per_action(study.privacy, cohorts=[1], bounds=[study.bound])

    def participants(self, study: Study) -> int:
        """Return the horizon: there is one client per round."""
        return study.horizon

    def has_clients(self, state: State, plays: IntArray) -> bool:
        """Return whether there is a client for every round of the phase."""
        return bool(plays.sum() <= state.clients_left)

    def plan(self, state: State, design: Played, plays: IntArray, known: Fit | None) -> Plan:
        """Return a plan with one mechanism per action. Once there is a fit, clients may clip around it."""
        study, support = state.study, tuple(design.support.tolist())
        bounds, offsets = np.full(len(plays), study.bound), list[float]()
        if study.clips_what_is_likely:
            chosen = _clipping(study, support, plays, known)
            bounds = on_grid(chosen.bounds, up=True)
            if known is not None and chosen.recentred.any():
                centre = on_grid(known.target_means(study.actions.matrix[design.support]))
                offsets = np.where(chosen.recentred, centre, 0.0).tolist()
        return Plan(
            study=study.name,
            phase=state.phase,
            support=support,
            plays=tuple(plays.tolist()),
            rank=design.rank,
            mechanism=None,
            offsets=tuple(offsets),
            per_action=calibrate_per_action(
                study.noise_request, cohorts=plays.tolist(), bounds=bounds.tolist()
            ),
        )

    def evidence(self, state: State, plan: Plan, counts: tuple[int, ...], known: Fit | None) -> PhaseEvidence:
        """Return the evidence with the clipping scales.

        The scales follow from what was known before the phase, so they are recomputed instead of stored in
        the plan.
        """
        study, scales = state.study, tuple[float, ...]()
        if study.clips_what_is_likely:
            scales = tuple(_clipping(study, plan.support, np.array(plan.plays), known).scales.tolist())
        return PhaseEvidence(plan=plan, reports=sum(counts), counts=counts, clipping_scales=scales)

    def errors(self, study: Study, evidence: PhaseEvidence) -> MeanErrors:
        """Return the errors of independent means, one per action."""
        return PerActionErrors(study, evidence)

    def simulate(self, plan: Plan, crowd: Crowd, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
        """Yield, for each action, the single rewards of its own clients."""
        for cohort, action, offset in zip(plan.plays, plan.support, plan.centre.tolist(), strict=True):
            rewards = crowd.rewards(cohort, action, rng)
            yield _shifted(rewards, offset) if offset else rewards


def _shifted(rewards: Iterable[FloatArray], offset: float) -> Iterator[FloatArray]:
    for block in rewards:
        yield block - offset


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How the clients of each action clip.

    Attributes:
        bounds: The clip radius of each action.
        recentred: Whether clients of the action subtract the last estimate before they clip.
        scales: The scale c of the amount that clipping cuts off; 0 if it cuts nothing.
    """

    bounds: FloatArray
    recentred: BoolArray
    scales: FloatArray


def clipping(study: Study, rows: FloatArray, cohorts: IntArray, widths: FloatArray | None) -> Clipping:
    """Choose, for each action, to clip around zero or around the last estimate, whichever radius is smaller.

    Around zero, means lie within the study's bound. The last estimate is off by at most `widths`; None if
    there is no estimate.
    """
    deviations = reward_deviations(study, rows)
    if not study.privacy.trust_model.private:
        nowhere = np.zeros(len(rows), dtype=bool)
        return Clipping(bounds=study.bound + _NOBODY * deviations, recentred=nowhere, scales=0 * deviations)
    margins = np.sqrt(2 * np.log(2 * np.sqrt(cohorts) / _CUT))
    around_zero = study.bound + (0 if study.bounded_rewards else margins) * deviations
    around_estimate = np.inf if widths is None else widths + margins * deviations
    recentred = around_estimate < around_zero
    return Clipping(
        bounds=np.where(recentred, around_estimate, around_zero),
        recentred=recentred,
        # Clipping bounded rewards at their bound cuts nothing.
        scales=np.where(~recentred & study.bounded_rewards, 0.0, deviations / margins),
    )


def _clipping(study: Study, support: tuple[int, ...], plays: IntArray, known: Fit | None) -> Clipping:
    rows, widths = study.actions.matrix[list(support)], None
    if known is not None and study.privacy.trust_model.private:
        widths = _widths(study, known, support)
    return clipping(study, rows, plays, widths)


@lru_cache(maxsize=1)
def _widths(study: Study, known: Fit, support: tuple[int, ...]) -> FloatArray:
    """Bound the error of the last estimate. Cached, since a phase needs it at its start and at its end."""
    found = known.target_widths(study.actions.matrix[list(support)]) + 1 / GRID + study.misfit
    found.flags.writeable = False
    return found


def reward_deviations(study: Study, rows: FloatArray) -> FloatArray:
    """Return √v of a single reward of each action, including the client's own deviation."""
    return residual_deviations(rows, np.ones(len(rows)), study.heterogeneity)


class PerActionErrors(MeanErrors):
    """The errors of independent means, each over the clients of one action."""

    @property
    def weights(self) -> FloatArray:
        """How many clients reported on each action."""
        return np.array(self.evidence.counts, dtype=np.float64)

    @property
    def variances(self) -> FloatArray:
        """v(x)/n(x) + s²(x)."""
        noise = per_action_deviations(self.evidence.plan.per_action, self.evidence.counts) ** 2
        return np.asarray(self._scatter + noise, dtype=np.float64)

    @property
    def common(self) -> float:
        """Zero: every reward has its own client, so the means share no deviation."""
        return 0.0

    def radius(
        self,
        coefficients: FloatArray,
        directions: FloatArray,  # noqa: ARG002
        *,
        confidence: float | None = None,
    ) -> FloatArray:
        """Return bounds from the joint distribution of all mechanisms' errors, plus the effect of clipping.

        If clipping may cut rewards, each of the two parts may fail with probability β/2.
        """
        evidence, cut = self.evidence, any(self.evidence.clipping_scales)
        confidence = (confidence or self.study.bound_failure) / (2 if cut else 1)
        radius = per_action_radius(
            evidence.plan.per_action,
            coefficients,
            coefficients**2 @ self._scatter,
            confidence,
            evidence.counts,
        )
        return radius + self.pull(coefficients, confidence) if cut else radius

    def proxies(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray | None:  # noqa: ARG002
        """Return Σ a²·(v(x)/n(x) + s²(x)) if the noise is sub-Gaussian and clipping cuts nothing."""
        normal = all(own.sub_gaussian for own in self.evidence.plan.per_action)
        if not normal or any(self.evidence.clipping_scales):
            return None
        return np.asarray(coefficients**2 @ self.variances, dtype=np.float64)

    def planned_information(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the information of this and all later reporting phases.

        It is the information of this phase, multiplied by the rounds of these phases and divided by its own.
        """
        schedule, first = self.study.schedule, self.evidence.plan.phase
        last = max(first, schedule.reporting_phases(self.study.horizon))
        rounds = sum(schedule.length(phase) for phase in range(first, last + 1))
        variances = np.maximum(coefficients**2 @ self._scatter, NOTHING)
        return np.asarray(rounds / schedule.length(first) / variances, dtype=np.float64)

    def pull(self, coefficients: FloatArray, confidence: float) -> FloatArray:
        """Return how far clipping moves an estimate at most, with probability 1 − `confidence`."""
        scales, counts = np.array(self.evidence.clipping_scales), np.array(self.evidence.counts)
        with np.errstate(divide="ignore"):  # a scale of zero gives an infinite margin: nothing is cut
            chances = 2 * np.exp(-((reward_deviations(self.study, self._rows) / scales) ** 2) / 2)
        level, sizes = math.log(1 / confidence), np.abs(coefficients)
        steady = sizes @ (chances * scales)
        wandering = np.sqrt(2 * level * (sizes**2 @ (2 * chances * scales**2 / counts)))
        single = level * np.max(sizes * (scales / counts), axis=1)
        return np.asarray(steady + wandering + single, dtype=np.float64)

    def paper_width(self) -> float:
        """Return W_l = (√(2d/h) + σ_n)·√(2 log(1/β)) with σ_n of Table 5, where d is the rank of the span.

        Table 5: σ_n = 2dσ_nc√s/h, 2dσ_nl√(2s/h), 2dσ_ns√s/h, in standard deviations of one action's sum
        (central, shuffle) or of one client's report (local). Since clients differ, the variance of a reward
        is 1 + σ² instead of 1.
        """
        study, plan, level = self.study, self.evidence.plan, math.log(1 / self.study.bound_failure)
        length, support = study.schedule.length(plan.phase), len(plan.support)
        action_related = math.sqrt(2 * plan.rank / length * (1 + study.heterogeneity**2))
        width = action_related * math.sqrt(2 * level)
        laplace = [_laplace_scale(own) for own in plan.per_action]
        if min(laplace) > 0:
            return width + 2 * plan.rank / length * max(laplace) * self._laplace_sum(level)
        deviations = per_action_deviations(plan.per_action, self.evidence.counts)
        counts = np.array(self.evidence.counts, dtype=np.float64)
        if study.privacy.trust_model.noise_per_client:
            privacy = float(np.max(deviations * np.sqrt(counts))) * math.sqrt(2 * support / length)
        else:
            privacy = float(np.max(deviations * counts)) * math.sqrt(support) / length
        return width + 2 * plan.rank * privacy * math.sqrt(2 * level)

    def _laplace_sum(self, level: float) -> float:
        """Bound the sum of N Laplace variables of scale 1, each times a factor of at most 1.

        The paper prints no width for this case. Each variable is sub-Gamma with variance 2 and scale 1, so
        the sum exceeds 2√(N·log(1/β)) + log(1/β) with probability at most β. N is the number of noise
        variables: one per action, or one per client.
        """
        plan = self.evidence.plan
        noises = (
            self.evidence.reports if plan.per_action[0].trust_model.noise_per_client else len(plan.support)
        )
        return 2 * math.sqrt(noises * level) + level

    @cached_property
    def _rows(self) -> FloatArray:
        return self.study.actions.matrix[list(self.evidence.plan.support)]

    @cached_property
    def _scatter(self) -> FloatArray:
        """v(x)/n(x): the variance of each mean that comes from the rewards themselves."""
        found = reward_deviations(self.study, self._rows) ** 2 / np.array(self.evidence.counts)
        return np.asarray(found, dtype=np.float64)


def _laplace_scale(mechanism: Mechanism) -> float:
    """Return the scale of Laplace noise in units of rewards; zero for any other noise."""
    if isinstance(mechanism, CentralLattice | LocalLattice) and mechanism.noise == "laplace":
        return mechanism.scale * mechanism.lattice.step
    return 0.0
