"""Assignment "everyone": each client reports on all actions of its phase (paper, Algorithm 1, DP-DPE).

There is one cohort and one mechanism per phase. The error of a released mean has three parts: the noise of
the plays, which is independent between actions; the noise of the mechanism; and the mean deviation of the
clients' own parameters, which all means share. So

    ⟨v, θ̃ − θ*⟩   has variance proxy   v'Cv,   C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I,

where A is the map from the means to the estimate, n the number of reports, T(x) the number of plays of x, s_n
the deviation of the mechanism's noise on a mean, and σ the heterogeneity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design import support_bound
from dpbandits.privacy import Mechanism, calibrate, may_use_ball, typical_deviation
from dpbandits.privacy.tails import NOTHING, Spread, squared_norms
from dpbandits.privacy.trust import CentralLattice
from dpbandits.protocol._clipping import MARGIN, on_grid
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._linear_algebra import extremes
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._reporting import Reporting, Statistics, choose, clipping_bias, clipping_slope
from dpbandits.protocol.assignment._interface import Assignment, Crowd, MeanErrors, Played, Pull

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study
    from dpbandits.protocol.model import Fit

_SLACK = 1e-9  # relative allowance for rounding errors in eigenvalues and factors
_WHOLE = 1 << 24  # a simulated cohort with more numbers than this, 128 MB, is drawn in blocks
_BLOCK = 1 << 20  # numbers in a block; the memory of arrays of this size is reused


class Everyone(Assignment):
    """One cohort per phase, whose clients report on all supported actions."""

    one_cohort = True

    def check(self, study: Study) -> None:
        """Raise if the schedule has no cohorts, or if the study's privacy request cannot be met."""
        study.schedule.cohort(1)
        calibrate(study.noise_request, coordinates=1, cohort=study.privacy.smallest_cohort, bound=study.bound)

    def participants(self, study: Study) -> int:
        """Return the total of the schedule's cohorts within the horizon."""
        return study.schedule.participants(study.horizon)

    def has_cohort(self, state: State) -> bool:
        """Return whether enough clients are left for the scheduled cohort."""
        return state.study.schedule.cohort(state.phase) <= state.clients_left

    def plan(self, state: State, design: Played, plays: IntArray, known: Fit | None) -> Plan:
        """Return a plan with one mechanism. Once there is a fit, clients may report residuals around it."""
        study, clients = state.study, state.study.schedule.cohort(state.phase)
        coordinates, bound, shape, offsets = len(plays), study.bound, "box", list[float]()
        mixing: FloatArray | None = None
        if study.learning.recentred:
            statistics = _statistics(study, design.support, plays)
            chosen = choose(study, statistics, design.rank, clients, known)
            mixing, bound, shape = chosen.statistics.mixing, chosen.bound, chosen.shape
            coordinates = len(chosen.statistics.targets)
            if chosen.recentred and known is not None:
                offsets = on_grid(known.target_means(chosen.statistics.targets)).tolist()
        return Plan(
            study=study.name,
            phase=state.phase,
            support=tuple(design.support.tolist()),
            plays=tuple(plays.tolist()),
            rank=design.rank,
            mechanism=calibrate(
                study.noise_request,
                coordinates=coordinates,
                cohort=clients,
                bound=bound,
                shape=shape,
                confidence=study.bound_failure,
            ),
            offsets=tuple(offsets),
            mixing=() if mixing is None else tuple(map(tuple, mixing.tolist())),
        )

    def evidence(self, state: State, plan: Plan, counts: tuple[int, ...], known: Fit | None) -> PhaseEvidence:
        """Return the evidence with upper bounds on how far clipping may have moved the means."""
        study, mechanism, bias, slope = state.study, plan.asked_mechanism, tuple[float, ...](), 0.0
        if study.learning.recentred:
            statistics = _statistics(study, np.array(plan.support), np.array(plan.plays))
            reporting = Reporting(
                statistics=replace(statistics, mixing=plan.mixing_matrix),
                shape=mechanism.shape,
                bound=mechanism.bound,
                recentred=bool(plan.offsets),
            )
            bias = clipping_bias(study, reporting, known, counts[0])
            if study.pools and bias and mechanism.shape == "ball":
                slope = clipping_slope(study, reporting, known, counts[0])
        return PhaseEvidence(plan=plan, reports=counts[0], clipping_bias=bias, clipping_slope=slope)

    def errors(self, study: Study, evidence: PhaseEvidence) -> MeanErrors:
        """Return the errors of the means of one cohort."""
        if study.reward_variance is not None:
            from dpbandits.protocol.assignment._bounded_variance import BoundedVarianceErrors

            return BoundedVarianceErrors(study, evidence)
        return CohortErrors(study, evidence)

    def simulate(self, plan: Plan, crowd: Crowd, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
        """Yield the reports of the cohort: in one block, or, if it is very large, in several."""
        actions = len(plan.support)
        rows = plan.cohort if plan.cohort * actions <= _WHOLE else max(1, _BLOCK // actions)
        sizes = (min(rows, plan.cohort - first) for first in range(0, plan.cohort, rows))
        yield (plan.reported(crowd.averages(size, plan.support, plan.plays, rng)) for size in sizes)


def _statistics(study: Study, support: IntArray, plays: IntArray) -> Statistics:
    """Return the statistics of a client that reports its averages of the supported actions."""
    rows = study.actions.matrix[support]
    # An average of T rewards of small variance scatters like an average of more rewards of variance 1.
    worth = plays / study.proxy_of_average(float(plays.min()))
    return Statistics(rows=rows, plays=worth, heterogeneity=study.heterogeneity)


class CohortErrors(MeanErrors):
    """The errors of means over one cohort in which every client reports on all actions."""

    @cached_property
    def weights(self) -> FloatArray:
        """T(x), the number of plays of each action."""
        return np.array(self.evidence.plan.plays, dtype=np.float64)

    @cached_property
    def variances(self) -> FloatArray:
        """1/(n·T(x)) + s_n²."""
        own = self._mechanism.error_deviation(self.evidence.reports) ** 2
        return np.asarray(1 / (self.evidence.reports * self.weights) + own, dtype=np.float64)

    @property
    def common(self) -> float:
        """σ²/n."""
        return self.study.heterogeneity**2 / self.evidence.reports

    def factor(self, coefficients: FloatArray) -> FloatArray:
        """Return the factor F. If reports are mixed, the noise of the plays is mixed like the averages."""
        plan, reports = self.evidence.plan, self.evidence.reports
        if plan.mixing_matrix is None:
            return super().factor(coefficients)
        own = self._mechanism.error_deviation(reports)
        scaled = coefficients @ plan.mixing_matrix / np.sqrt(reports * self.weights)
        return np.hstack([scaled, own * coefficients])

    def radius(
        self, coefficients: FloatArray, directions: FloatArray, *, confidence: float | None = None
    ) -> FloatArray:
        """Return the radius, √(2·v'Cv·log(1/β)) for sub-Gaussian noise, plus the clipping bias."""
        variances = self.sampling_variances(coefficients, directions)
        radius = self._mechanism.error_radius(
            coefficients, variances, confidence or self.study.bound_failure, self.evidence.reports
        )
        return radius + self.pull(coefficients)

    def sampling_variances(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the proxies of the noise of the plays and of the clients' own parameters together.

        Args:
            coefficients: One row of coefficients of the reported numbers per bound.
            directions: For each row, the same combination of the features.
        """
        plan, clients = self.evidence.plan, self.evidence.reports
        on_averages = coefficients if plan.mixing_matrix is None else coefficients @ plan.mixing_matrix
        variances = (on_averages**2) @ (1 / (clients * self.weights))
        variances += self.common * np.einsum("ij,ij->i", directions, directions)
        return np.asarray(variances, dtype=np.float64)

    def proxies(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray | None:
        """Return v'Cv if the noise is sub-Gaussian."""
        if not self._mechanism.sub_gaussian:
            return None
        noise = self._mechanism.error_deviation(self.evidence.reports) ** 2
        return self.sampling_variances(coefficients, directions) + noise * squared_norms(coefficients)

    def certain_pull(self, coefficients: FloatArray) -> Pull:
        """Return `pull` and, in a ball, how it follows from the total excess of the clients."""
        most, slope = self.pull(coefficients), self.evidence.clipping_slope
        if not slope:
            return Pull(most=most, slopes=None if most.any() else most, expected=0.0)
        clipped = self.evidence.clipping_bias[0] / slope - math.log(1 / self.study.bound_failure)
        lengths = np.linalg.norm(coefficients, axis=1)
        return Pull(most=most, slopes=lengths * slope, expected=max(clipped, 0.0))

    def planned_information(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray:
        """Return Σ_l n_l/((σ²‖v‖² + p·h/h_l)·(1 + f_l)) over this phase and all planned later ones.

        p is the variance of one client's plays in this phase, and h the length of this phase. Phase l has n_l
        clients and length h_l, so h_l/h times as many plays. Its noise has f_l times the variance of the
        clients' scatter (`later_noise`).
        """
        schedule, first, clients = self.study.schedule, self.evidence.plan.phase, self.evidence.reports
        own = self.study.heterogeneity**2 * squared_norms(directions)
        plays = np.maximum(clients * self.sampling_variances(coefficients, directions) - own, 0.0)
        last = max(first, schedule.reporting_phases(self.study.horizon))
        length, total = schedule.length(first), np.zeros(len(directions))
        for phase in range(first, last + 1):
            variances = own + plays * (length / schedule.length(phase))
            variances *= 1 + later_noise(self.study, self.evidence.plan.rank, schedule.cohort(phase))
            total += schedule.cohort(phase) / np.maximum(variances, NOTHING)
        return total

    def pull(self, coefficients: FloatArray) -> FloatArray:
        """Return how far clipping may have moved each row of coefficients·means.

        Args:
            coefficients: One row of coefficients of the reported numbers per bound.
        """
        bias = np.array(self.evidence.clipping_bias)
        if not bias.size:
            return np.zeros(len(coefficients))
        if self._mechanism.shape == "ball":
            return np.asarray(np.linalg.norm(coefficients, axis=1) * bias[0], dtype=np.float64)
        return np.asarray(np.abs(coefficients) @ bias, dtype=np.float64)

    def norm_radius(
        self, coefficients: FloatArray, directions: FloatArray, *, confidence: float | None = None
    ) -> float:
        """Return √tr K + √(2‖K‖·log(1/β)) for sub-Gaussian errors with proxy K, plus the clipping bias.

        The bound follows from Hsu, Kakade and Zhang 2012.
        """
        errors, bias = self.factor(coefficients), self.evidence.clipping_bias
        spectrum = np.linalg.eigvalsh(errors @ errors.T + self.common * directions @ directions.T)
        level = 2 * math.log(1 / (confidence or self.study.bound_failure))
        radius = math.sqrt(max(0.0, float(spectrum.sum()))) + math.sqrt(level * max(0.0, float(spectrum[-1])))
        if not bias:
            return radius
        if self._mechanism.shape == "ball":
            return radius + float(np.linalg.norm(coefficients, 2)) * bias[0]
        return radius + float(np.linalg.norm(coefficients, axis=0) @ np.array(bias))

    def factors(self, map_in_span: FloatArray, covariance: FloatArray) -> tuple[float, float] | None:
        """Add the factors for the noise (`Mechanism.radius_factors`) and for the clipping bias.

        The clipping bias is e·‖a‖ with a = A'v if clients clip to a ball. For a box it is Σ e_x·|a_x|, which
        is at least the ℓ2 norm of (e_x·a_x), and at most √(Σ e_x)·√(Σ e_x·a_x²) by Cauchy and Schwarz.
        """
        within, mechanism, reports = map_in_span, self._mechanism, self.evidence.reports
        shares = extremes(mechanism.error_deviation(reports) ** 2 * (within @ within.T), covariance)
        if shares is None:
            return None
        steepest = np.sqrt(np.max(np.einsum("ij,ij->j", within, np.linalg.solve(covariance, within))))
        spread = Spread(
            least=min(max(shares[0] * (1 - _SLACK), 0.0), 1.0),
            most=min(shares[1] * (1 + _SLACK), 1.0),
            largest=float(steepest) * (1 + _SLACK),
        )
        low, high = mechanism.radius_factors(spread, self.study.bound_failure, reports)
        if not self.evidence.clipping_bias:
            return low, high
        bias = _bias_factors(within, np.array(self.evidence.clipping_bias), covariance, mechanism.shape)
        return None if bias is None else (low + bias[0], high + bias[1])

    def paper_width(self) -> float:
        """Return W_l of the paper, with σ_n of Table 4."""
        plan = self.evidence.plan
        return paper_width(
            rank=plan.rank,
            length=self.study.schedule.length(plan.phase),
            mechanism=self._mechanism,
            clients=self.evidence.reports,
            heterogeneity=self.study.heterogeneity,
            confidence=self.study.bound_failure,
        )

    @property
    def _mechanism(self) -> Mechanism:
        return self.evidence.plan.asked_mechanism


def later_noise(study: Study, rank: int, clients: int) -> float:
    """Return roughly the ratio of the variance that privacy adds to a recentred mean to that of its clients.

    Whitened reports have identity covariance and are clipped about MARGIN beyond their usual length.
    """
    if not study.privacy.trust_model.private:
        return 0.0
    ball = may_use_ball(study.noise_request)
    deviation = typical_deviation(
        study.noise_request,
        coordinates=rank,
        clients=clients,
        bound=MARGIN + 1 + (math.sqrt(rank) if ball else 0.0),
        shape="ball" if ball else "box",
        confidence=study.bound_failure,
    )
    return clients * deviation**2


def _bias_factors(
    within: FloatArray, bias: FloatArray, form: FloatArray, shape: str
) -> tuple[float, float] | None:
    if shape == "ball":
        ends = extremes(within @ within.T, form)
        return None if ends is None else (bias[0] * max(ends[0], 0.0) ** 0.5, bias[0] * ends[1] ** 0.5)
    squared, once = within * bias, within * np.sqrt(bias)
    least, most = extremes(squared @ squared.T, form), extremes(once @ once.T, form)
    if least is None or most is None:
        return None
    return max(least[0], 0.0) ** 0.5, (most[1] * float(bias.sum())) ** 0.5


def paper_width(
    *, rank: int, length: int, mechanism: Mechanism, clients: int, heterogeneity: float, confidence: float
) -> float:
    """Return W_l = (√(2d/(|U|h)) + σ/√|U| + σ_n)·√(2 log(1/β)), where d is the rank of the span.

    With Laplace noise of scale b on each of the s means, the last term is 2sdb + 2db·log(1/β) instead: the
    paper prints √(2 log(1/β)), but its proof needs log(1/β).
    """
    quantile = math.sqrt(2 * math.log(1 / confidence))  # of a sub-Gaussian variable, in standard deviations
    action_related = math.sqrt(2 * rank / (clients * length))
    client_related = heterogeneity / math.sqrt(clients)
    width = (action_related + client_related) * quantile
    if isinstance(mechanism, CentralLattice) and mechanism.noise == "laplace":
        on_mean = mechanism.scale * mechanism.lattice.step / clients
        return width + 2 * rank * on_mean * (mechanism.coordinates + math.log(1 / confidence))
    # Table 4: σ_n = 2σ_nc√(Sd), 2σ_nl√(Sd/|U|), 2σ_ns√(Sd). Each is the deviation of the mean times 2√(Sd).
    privacy_noise = 2 * mechanism.error_deviation(clients) * math.sqrt(support_bound(rank) * rank)
    return width + privacy_noise * quantile
