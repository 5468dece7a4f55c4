"""Chooses which numbers the clients of a cohort report, and where they clip them.

Clients report their averages or, with the step `whitened`, r linear statistics of their averages, where r is
the rank of the actions. These are the client's own least-squares estimate, in coordinates in which a client's
report has identity covariance. No information is lost (docs/theory.md), and there are fewer numbers to
protect. Noise of equal size in all coordinates is then equally large in every direction, relative to the
spread of clients.

Clients clip to a box. If the accountant supports the noise in a ball (`may_use_ball`), they may clip to a
ball. From the second phase on they report and clip the residuals after the last public estimate, if this
allows a smaller clip radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import least_width, may_use_ball, noise_tails, typical_deviation
from dpbandits.protocol._clipping import GRID, MARGIN, clip_radius, excess_slopes, mean_excess, on_grid
from dpbandits.protocol._linear_algebra import least_squares

if TYPE_CHECKING:
    from dpbandits.protocol._study import Study

Computed = TypeVar("Computed")

# The mixing matrix is rounded to this many binary digits, so that machines whose floating-point results
# differ in the last bits compute the same plan. Everything else is computed from the rounded matrix.
_DIGITS = 14
# The clip margin without privacy, in standard deviations: clipping then only keeps absurd reports out.
FAR = 12.0
_TIE = 1e-9  # errors that differ by a smaller share, or scores by less, count as equal
_INDEPENDENT = 1e-8  # relative size of a QR diagonal entry above which a column counts as independent


class Known(Protocol):
    """What is known about θ* before a phase."""

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """Return, for each row, an upper bound on the error of the estimated mean of reports on it."""

    def target_radius(self, targets: FloatArray) -> float:
        """Return an upper bound on the Euclidean norm of the vector of these errors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """The numbers that one client reports: `mixing` times its averages of the actions `rows`.

    Objects are compared by identity, so that what is computed from one can be cached.

    Attributes:
        rows: One row of features per supported action.
        plays: How many rewards each average is over.
        heterogeneity: σ, the spread of the clients' own parameters.
        mixing: The matrix; None if clients report the averages themselves.
    """

    rows: FloatArray
    plays: FloatArray
    heterogeneity: float
    mixing: FloatArray | None = None
    _kept: dict[tuple[Any, ...], Any] = field(init=False, repr=False, default_factory=dict)

    def once(self, key: tuple[Any, ...], compute: Callable[[], Computed]) -> Computed:
        """Return `compute()`, and keep the result under `key`. A search needs the same values many times."""
        if key not in self._kept:
            self._kept[key] = compute()
        found: Computed = self._kept[key]
        return found

    @cached_property
    def targets(self) -> FloatArray:
        """One row of features per reported number: the number has mean ⟨target, θ*⟩."""
        return self.rows if self.mixing is None else self.mixing @ self.rows

    def weights_on_averages(self, coefficients: FloatArray) -> FloatArray:
        """Convert coefficients of the reported numbers to coefficients of the averages."""
        return coefficients if self.mixing is None else coefficients @ self.mixing

    @property
    def full_mixing(self) -> FloatArray:
        """`mixing`, or the identity if clients report the averages themselves."""
        return np.eye(len(self.rows)) if self.mixing is None else self.mixing

    @cached_property
    def covariance(self) -> FloatArray:
        """The variance proxy of one client's report, a sub-Gaussian vector."""
        of_plays = (self.full_mixing / self.plays) @ self.full_mixing.T
        return np.asarray(of_plays + self.heterogeneity**2 * self.targets @ self.targets.T, dtype=np.float64)

    def reach(self, shape: str, bound: float) -> FloatArray:
        """Return upper bounds on reports if averages lie in [−bound, bound].

        For a box there is one bound per number; for a ball, one bound on the norm of the vector.
        """
        if shape == "box":
            return np.asarray(bound * np.abs(self.full_mixing).sum(axis=1), dtype=np.float64)
        # ‖Qy‖ ≤ ‖Q·diag(T)^(−1/2)‖·‖diag(T)^(1/2)·y‖
        return np.array([bound * self._stretch * math.sqrt(float(self.plays.sum()))])

    @cached_property
    def _stretch(self) -> float:
        return float(np.linalg.norm(self.full_mixing / np.sqrt(self.plays), 2))

    def residuals(self, study: Study, shape: str, before: Known | None) -> tuple[FloatArray, FloatArray]:
        """Bound the mean and the standard deviation of what is left after subtracting the last estimate.

        Without an estimate (`before` is None), it is only known that mean rewards lie in [−bound, bound].

        Returns:
            For a box, an upper bound on the absolute mean of each number, and the standard deviation of each
            number of one client. For a ball, the same two for the norm of one client's vector.
        """
        if before is None:
            off = self.reach(shape, study.bound)
        elif shape == "box":
            off = before.target_widths(self.targets) + 1 / GRID
        else:
            off = np.array([before.target_radius(self.targets) + math.sqrt(len(self.targets)) / GRID])
        if before is not None and study.misfit:  # the estimate does not know what the model leaves out
            off = off + study.misfit * self.reach(shape, 1.0)
        return self.scattered(shape, off)

    def scattered(self, shape: str, off: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what `residuals` returns, given bounds on the numbers without the scatter of one client."""
        if shape == "box":
            return off, np.sqrt(np.diag(self.covariance))
        return off + math.sqrt(float(self._spectrum.sum())), np.sqrt(self._spectrum[-1:])

    @cached_property
    def _spectrum(self) -> FloatArray:
        return np.asarray(np.linalg.eigvalsh(self.covariance), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """What clients report and how they clip it.

    Attributes:
        statistics: The reported numbers.
        shape: "box" or "ball".
        bound: The clip radius.
        recentred: Whether clients subtract the last estimate before they clip.
    """

    statistics: Statistics
    shape: str
    bound: float
    recentred: bool

    def deviation(self, study: Study, clients: int) -> float:
        """Return roughly the standard deviation of the error that privacy adds to the mean of each number."""
        return self._error(typical_deviation, study, clients)

    def tails(self, study: Study, clients: int) -> str:
        """Return how heavy the tails of that error are; see `noise_tails`."""
        return noise_tails(
            study.noise_request,
            coordinates=len(self.statistics.targets),
            clients=clients,
            shape=self.shape,
            confidence=study.bound_failure,
        )

    def width(self, study: Study, clients: int) -> float:
        """Return roughly the radius of that error at the confidence of the study."""
        return self._error(least_width, study, clients)

    def _error(self, predicted: Callable[..., float], study: Study, clients: int) -> float:
        return predicted(
            study.noise_request,
            coordinates=len(self.statistics.targets),
            clients=clients,
            bound=self.bound,
            shape=self.shape,
            confidence=study.bound_failure,
        )

    def estimator(self, study: Study, rank: int, clients: int) -> FloatArray:
        """Return the least-squares map from the reported numbers, with roughly the learner's weights."""
        if self.statistics.mixing is not None:
            targets = self.statistics.targets
            return self.statistics.once(("map", rank), lambda: least_squares(targets, np.ones(rank), rank))
        variances = 1 / (clients * self.statistics.plays) + self.deviation(study, clients) ** 2
        return least_squares(self.statistics.rows, 1 / variances, rank)


def choose(study: Study, statistics: Statistics, rank: int, clients: int, before: Known | None) -> Reporting:
    """Choose averages or whitened statistics, whichever gives smaller errors on the supported actions."""
    if not study.learning.whitened or not study.privacy.trust_model.private:
        return _clipped(study, statistics, "box", before)
    mixed = whitened(statistics, rank)
    shapes = ("ball", "box") if may_use_ball(study.noise_request) else ("box",)
    if study.reward_variance is not None:  # a bound on the length of a report would need all its moments
        shapes = ("box",)
    candidates = [_clipped(study, mixed, shape, before) for shape in shapes]
    best = first_least(candidates, [reporting.width(study, clients) for reporting in candidates])
    if best.shape == "ball" and best.recentred:  # a box for averages is then much larger
        return best
    averages = _clipped(study, statistics, "box", before)

    def error(reporting: Reporting) -> float:
        found = statistics.rows @ reporting.estimator(study, rank, clients)
        return reporting.width(study, clients) * float(np.linalg.norm(found))

    return first_least([averages, best], [error(averages), error(best)])


def first_least(options: Sequence[Reporting], errors: Sequence[float]) -> Reporting:
    """Return the first option whose error is the least up to rounding.

    Errors are often equal, for example if one action is left. Which of them is computed as the smaller one
    then depends on the processor, and the plan must not.
    """
    limit = min(errors) * (1 + _TIE)
    return next(option for option, error in zip(options, errors, strict=True) if error <= limit)


def ranked(scores: FloatArray) -> IntArray:
    """Return indices, the highest score first; scores that are equal up to rounding are ordered by index."""
    return np.argsort(-np.round(scores / _TIE), kind="stable")


def clipping_bias(
    study: Study, reporting: Reporting, before: Known | None, clients: int
) -> tuple[float, ...]:
    """Return upper bounds on how far clipping moves the means, as `PhaseEvidence.clipping_bias` has them."""
    statistics, shape = reporting.statistics, reporting.shape
    if study.bounded_rewards and not reporting.recentred:
        lossless = float(statistics.reach(shape, study.bound).max())
        if reporting.bound >= on_grid(lossless, up=True):
            return ()
    off, spread = statistics.residuals(study, shape, before if reporting.recentred else None)
    radius: FloatArray | float = reporting.bound
    if study.reward_variance is not None:  # its bound on tails holds up to the margin
        radius = np.minimum(radius, off + MARGIN * spread)
    return tuple(mean_excess(radius, off, spread, clients, study.bound_failure).tolist())


def clipping_slope(study: Study, reporting: Reporting, before: Known | None, clients: int) -> float:
    """Return c so that the bound of `clipping_bias` in a ball is c·(log(1/β) + n·p).

    β is the study's failure probability, n the number of clients, and p bounds the probability that one
    client is clipped.
    """
    off, spread = reporting.statistics.residuals(study, "ball", before if reporting.recentred else None)
    return float(excess_slopes(reporting.bound, off, spread, clients, study.bound_failure)[0])


def _clipped(study: Study, statistics: Statistics, shape: str, before: Known | None) -> Reporting:
    """Choose the clip radius: around zero, or around the last estimate if that radius is smaller."""
    private = study.privacy.trust_model.private
    margin = MARGIN if private else FAR
    around_zero = statistics.once(
        ("radius", shape, study.bound, margin),
        lambda: _radius(statistics.scattered(shape, statistics.reach(shape, study.bound)), margin),
    )
    if study.bounded_rewards:
        around_zero = min(around_zero, float(on_grid(statistics.reach(shape, study.bound).max(), up=True)))
    around_estimate = math.inf
    if private and before is not None:
        around_estimate = _radius(statistics.residuals(study, shape, before), margin)
    recentred = around_estimate < around_zero
    return Reporting(
        statistics=statistics,
        shape=shape,
        bound=around_estimate if recentred else around_zero,
        recentred=recentred,
    )


def _radius(residuals: tuple[FloatArray, FloatArray], margin: float) -> float:
    return float(on_grid(clip_radius(*residuals, margin), up=True))


def whitened(statistics: Statistics, rank: int) -> Statistics:
    """Return the statistics L⁻¹·B'·D·y of the averages y, which have identity covariance.

    D = diag(√T), and B is an orthonormal basis of the columns of DX. B'Dy = B'DX·θ_u + noise of identity
    covariance, and LL' = I + σ²·B'DX·(B'DX)' is its covariance with the clients' own deviations included.
    """
    return statistics.once(("whitened", rank), lambda: _whitened(statistics, rank))


def _whitened(statistics: Statistics, rank: int) -> Statistics:
    roots = np.sqrt(statistics.plays)[:, None]
    scaled = roots * statistics.rows
    basis = _column_basis(scaled, rank)
    inner = basis.T @ scaled
    factor = cholesky(np.eye(rank) + statistics.heterogeneity**2 * inner @ inner.T, lower=True)
    mixing = solve_triangular(factor, basis.T, lower=True) * roots.T
    return replace(statistics, mixing=rounded(mixing))


def _column_basis(matrix: FloatArray, rank: int) -> FloatArray:
    """Return orthonormal columns with the span of the matrix, equal on every machine up to rounding."""
    basis, triangular = qr(matrix, mode="economic")
    sizes = np.abs(np.diag(triangular))
    independent = np.flatnonzero(sizes > _INDEPENDENT * sizes.max())
    # QR without pivoting miscounts if independent columns follow a dependent one.
    if len(independent) != rank:
        independent = _first_independent(matrix, rank)
    if len(independent) < matrix.shape[1]:
        basis, triangular = qr(matrix[:, independent], mode="economic")
    return np.asarray(basis * np.sign(np.diag(triangular)), dtype=np.float64)


def _first_independent(matrix: FloatArray, rank: int) -> IntArray:
    """Return the first `rank` columns of which none depends on earlier ones.

    Pivoting takes the column that is farthest from the span of those already chosen. Symmetric columns are
    equally far, so its choice would depend on rounding. Pivoting is therefore used only if fewer than `rank`
    columns are found to be independent.
    """
    basis, chosen = np.empty((len(matrix), 0)), list[int]()
    far = _INDEPENDENT * float(np.linalg.norm(matrix, axis=0).max())
    for place, column in enumerate(matrix.T):
        for _ in range(2):  # the second time removes rounding errors of the first
            column = column - basis @ (basis.T @ column)
        length = float(np.linalg.norm(column))
        if length > far and len(chosen) < rank:
            chosen.append(place)
            basis = np.column_stack([basis, column / length])
    if len(chosen) < rank:
        return np.sort(qr(matrix, mode="r", pivoting=True)[1][:rank]).astype(np.int64)
    return np.array(chosen, dtype=np.int64)


def rounded(mixing: FloatArray) -> FloatArray:
    """Return a mixing matrix with 14 binary digits, relative to the largest entry of each row."""
    sizes = np.log2(np.abs(mixing).max(axis=1, keepdims=True))
    # A size that is a power of two up to rounding counts as that power.
    steps = 2.0 ** (np.ceil(sizes - _TIE) - _DIGITS)
    return on_grid(mixing, step=steps)
