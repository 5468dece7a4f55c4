"""What the clients of a cohort report, and where they clip it.

They report their averages, or, with the step `whitened`, as many linear statistics of them as the actions
have rank: the client's own least-squares estimate, in coordinates in which clients scatter by one in every
direction. Nothing is lost for the estimate (docs/theory.md), there is less to be hidden, and noise of one
size in all coordinates is as large, compared with the clients' scatter, in one direction as in another.

Clipping is to a box, or, for noise that is accounted for there, to a ball. From the second phase on, what the
last public estimate leaves open is reported and clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from dpbandits._arrays import FloatArray
from dpbandits.privacy import may_use_ball, typical_deviation
from dpbandits.protocol._clipping import GRID, MARGIN, clip_radius, mean_excess, on_grid
from dpbandits.protocol._linear_algebra import least_squares

if TYPE_CHECKING:
    from dpbandits.protocol._study import Study

# Of the mixing so many binary digits are kept, for the same reason; all that follows is computed from these.
_DIGITS = 14
# Without privacy, clipping only keeps absurd answers out.
_FAR = 12.0
_INDEPENDENT = 1e-8


class Known(Protocol):
    """What is known of θ* before a phase."""

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """How far the estimated mean of reports with these features may be off, for each row."""

    def target_radius(self, targets: FloatArray) -> float:
        """How long the vector of these errors may be."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What one client reports of its averages of the actions `rows`: `mixing` times them."""

    rows: FloatArray
    plays: FloatArray
    heterogeneity: float
    mixing: FloatArray | None = None

    @cached_property
    def targets(self) -> FloatArray:
        """A client's report has the mean ⟨target, θ*⟩ for each row."""
        return self.rows if self.mixing is None else self.mixing @ self.rows

    def weights_on_averages(self, coefficients: FloatArray) -> FloatArray:
        """From coefficients of the reported numbers to those of the averages."""
        return coefficients if self.mixing is None else coefficients @ self.mixing

    @property
    def full_mixing(self) -> FloatArray:
        """The identity where averages are reported as they are."""
        return np.eye(len(self.rows)) if self.mixing is None else self.mixing

    @cached_property
    def covariance(self) -> FloatArray:
        """One client's report scatters as a sub-Gaussian vector with this proxy."""
        of_plays = (self.full_mixing / self.plays) @ self.full_mixing.T
        return np.asarray(of_plays + self.heterogeneity**2 * self.targets @ self.targets.T, dtype=np.float64)

    def reach(self, shape: str, bound: float) -> FloatArray:
        """What reports cannot exceed if averages lie in [−bound, bound]: each, or their length."""
        if shape == "box":
            return np.asarray(bound * np.abs(self.full_mixing).sum(axis=1), dtype=np.float64)
        # ‖Qy‖ ≤ ‖Q·diag(T)^(−1/2)‖·‖diag(T)^(1/2)·y‖
        return np.array([bound * self._stretch * math.sqrt(float(self.plays.sum()))])

    @cached_property
    def _stretch(self) -> float:
        return float(np.linalg.norm(self.full_mixing / np.sqrt(self.plays), 2))

    def residuals(self, study: Study, shape: str, before: Known | None) -> tuple[FloatArray, FloatArray]:
        """How far reports may be off zero on average, and how one client's scatters; for a ball, its length.

        Before there is an estimate to subtract, mean rewards lie in [−bound, bound], and no more is known.
        """
        if shape == "box":
            off = (
                self.reach(shape, study.bound)
                if before is None
                else before.target_widths(self.targets) + 1 / GRID
            )
            return off, np.sqrt(np.diag(self.covariance))
        if before is None:
            off = self.reach(shape, study.bound)
        else:
            off = np.array([before.target_radius(self.targets) + math.sqrt(len(self.targets)) / GRID])
        return off + math.sqrt(float(self._spectrum.sum())), np.sqrt(self._spectrum[-1:])

    @cached_property
    def _spectrum(self) -> FloatArray:
        return np.asarray(np.linalg.eigvalsh(self.covariance), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """Statistics, the shape and size they are clipped to, and whether around the last estimate."""

    statistics: Statistics
    shape: str
    bound: float
    recentred: bool

    def deviation(self, study: Study, clients: int) -> float:
        """Of the error that privacy leaves on the mean of each number, roughly."""
        return typical_deviation(
            study.privacy,
            coordinates=len(self.statistics.targets),
            clients=clients,
            bound=self.bound,
            shape=self.shape,
        )

    def estimator(self, study: Study, rank: int, clients: int) -> FloatArray:
        """The map of least squares from the reported numbers, with roughly the weights of the learner."""
        if self.statistics.mixing is not None:
            return least_squares(self.statistics.targets, np.ones(rank), rank)
        variances = 1 / (clients * self.statistics.plays) + self.deviation(study, clients) ** 2
        return least_squares(self.statistics.rows, 1 / variances, rank)


def choose(study: Study, statistics: Statistics, rank: int, clients: int, before: Known | None) -> Reporting:
    """Averages or whitened statistics, whichever leaves the smaller errors on the supported actions."""
    if not study.learning.whitened or not study.privacy.trust_model.private:
        return _clipped(study, statistics, "box", before)
    shape = "ball" if may_use_ball(study.privacy) else "box"
    decorrelated = _clipped(study, whitened(statistics, rank), shape, before)
    if shape == "ball" and decorrelated.recentred:  # a box around averages is then larger by far
        return decorrelated
    averages = _clipped(study, statistics, "box", before)

    def error(reporting: Reporting) -> float:
        found = statistics.rows @ reporting.estimator(study, rank, clients)
        return reporting.deviation(study, clients) * float(np.linalg.norm(found))

    return min(decorrelated, averages, key=error)


def clipping_bias(
    study: Study, reporting: Reporting, before: Known | None, clients: int
) -> tuple[float, ...]:
    """How far clipping may pull the mean of each number, or all together in a ball; empty if it cannot.

    See `PhaseEvidence.clipping_bias`.
    """
    statistics, shape = reporting.statistics, reporting.shape
    lossless = float(statistics.reach(shape, study.bound).max())
    if study.bounded_rewards and not reporting.recentred and reporting.bound >= lossless:
        return ()
    off, spread = statistics.residuals(study, shape, before if reporting.recentred else None)
    return tuple(mean_excess(reporting.bound, off, spread, clients, study.confidence).tolist())


def _clipped(study: Study, statistics: Statistics, shape: str, before: Known | None) -> Reporting:
    """Around zero, or around the last estimate where that is closer."""

    private = study.privacy.trust_model.private

    def radius(known: Known | None) -> float:
        margin = MARGIN if private else _FAR
        return float(on_grid(clip_radius(*statistics.residuals(study, shape, known), margin), up=True))

    around_zero = radius(None)
    if study.bounded_rewards:
        around_zero = min(around_zero, float(on_grid(statistics.reach(shape, study.bound).max(), up=True)))
    around_estimate = radius(before) if private and before is not None else math.inf
    recentred = around_estimate < around_zero
    return Reporting(
        statistics=statistics,
        shape=shape,
        bound=around_estimate if recentred else around_zero,
        recentred=recentred,
    )


def whitened(statistics: Statistics, rank: int) -> Statistics:
    """L⁻¹·B'·D of the averages y, D = diag(√T), B an orthonormal basis of the columns of DX.

    B'Dy = B'DX·θ_u + noise of identity covariance; LL' = I + σ²·B'DX·(B'DX)' takes in the clients' own
    deviations, too.
    """
    roots = np.sqrt(statistics.plays)[:, None]
    scaled = roots * statistics.rows
    basis = _column_basis(scaled, rank)
    inner = basis.T @ scaled
    factor = cholesky(np.eye(rank) + statistics.heterogeneity**2 * inner @ inner.T, lower=True)
    mixing = solve_triangular(factor, basis.T, lower=True) * roots.T
    return Statistics(
        rows=statistics.rows,
        plays=statistics.plays,
        heterogeneity=statistics.heterogeneity,
        mixing=_rounded(mixing),
    )


def _column_basis(matrix: FloatArray, rank: int) -> FloatArray:
    """Orthonormal columns that span those of the matrix, the same on every machine but for rounding."""
    basis, triangular = qr(matrix, mode="economic")
    sizes = np.abs(np.diag(triangular))
    independent = np.flatnonzero(sizes > _INDEPENDENT * sizes.max())
    if len(independent) != rank:  # a column that depends on others which come later
        independent = np.sort(qr(matrix, mode="r", pivoting=True)[1][:rank])
    if len(independent) < matrix.shape[1]:
        basis, triangular = qr(matrix[:, independent], mode="economic")
    return np.asarray(basis * np.sign(np.diag(triangular)), dtype=np.float64)


def _rounded(mixing: FloatArray) -> FloatArray:
    steps = 2.0 ** (np.ceil(np.log2(np.abs(mixing).max(axis=1, keepdims=True))) - _DIGITS)
    return on_grid(mixing, step=steps)
