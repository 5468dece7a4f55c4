"""The test of lack of fit: a cohort that reports residual coordinates, so that a wrong model can be noticed.

Reports of learning phases have few more numbers than the rank of the actions, so almost all mean rewards fit
a linear model. A fit test asks new clients for q combinations √T·N'y of their averages y of s actions with
features X. T is the number of plays of each action. The columns of N are orthonormal, and orthogonal to those
of X. For a linear model the mean of each combination is 0 for every θ*, and the deviation of the client's own
parameter cancels. So clients may clip to a small ball, and the noise is small. docs/theory.md has the proof.

For clients, the third party and the server a fit test is a phase like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import positive, whole
from dpbandits.actions import Actions
from dpbandits.design import Design, Selection, near_g_optimal
from dpbandits.errors import InvalidValue, PrivacyError
from dpbandits.privacy import calibrate, may_use_ball
from dpbandits.protocol._clipping import MARGIN, clip_radius, mean_excess, on_grid
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._misfit import largest_norm
from dpbandits.protocol._reporting import FAR, Reporting, Statistics, first_least, ranked, rounded
from dpbandits.protocol._schedule import Schedule

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study

MOST_COORDINATES = 100
FIT_LEVEL = 0.01
"""The probability of a false alarm."""
_GOLDEN = (1 + 5**0.5) / 2
_ZERO = 1e-9  # smaller relative singular values count as 0
_FEW_ROUNDS = 0.05  # the largest share of the horizon that a test plays by default
_NOTICED = 0.5  # a test is planned such that its threshold is at most this share of the expected length
_MOST = 0.5  # the largest share of the participants that a test reserves


@dataclass(frozen=True, kw_only=True)
class FitTest:
    """A cohort that tests whether mean rewards are linear in the features.

    Attributes:
        cohort: How many clients are asked.
        plays: How often each action is played, T. A deviation m of mean rewards moves a coordinate by about
            √T·m.
        coordinates: How many residual coordinates are reported, from 1 to 100; fewer if there are too few
            actions.

    Example:
        >>> from dataclasses import replace
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> study = replace(examples.study(), horizon=10_000, fit_test=dp.FitTest(cohort=50))
        >>> study.fit_test.plays
        32
    """

    cohort: int
    plays: int = 32
    coordinates: int = 8

    def __post_init__(self) -> None:
        whole(1, cohort=self.cohort)
        whole(1, 10**9, plays=self.plays)
        whole(1, MOST_COORDINATES, coordinates=self.coordinates)

    def check(self, study: Study) -> None:
        """Raise an error if a study cannot have this test, or if no mechanism can meet its privacy.

        Args:
            study: The study.

        Raises:
            InvalidValue: The study's assignment is not "everyone", its reward model is not linear, or it has
                too few actions.
            PrivacyError: No mechanism meets the privacy of the study.
        """
        study.require_one_cohort("a fit test")
        if not study.reward_model.linear_in_features:
            raise InvalidValue("model", study.model, "linear, if the study has a fit test")
        if study.actions.count <= study.actions.dimension:
            expected = f"more than {study.actions.dimension}: fewer always fit a linear model"
            raise InvalidValue("actions", study.actions.count, expected)
        calibrate(study.privacy, coordinates=self.coordinates, cohort=self.cohort, bound=study.bound)


def may_test_fit(state: State) -> bool:
    """Return whether the fit test has not taken place, and fits into the horizon and the population."""
    study, own = state.study, state.study.fit_test
    if own is None or state.fit_test_evidence is not None or not state.history:
        return False
    left = math.inf if study.population is None else study.population - state.clients_asked - study.confirming
    rounds = own.plays * (study.actions.dimension + own.coordinates)
    return own.cohort <= left and rounds <= study.horizon - state.rounds_played


def tested_actions(
    study: Study, estimate: FloatArray, *, barred: IntArray | None, current: int | None
) -> tuple[int, ...]:
    """Return the actions that a fit test plays: those of a design, and those with the highest estimates.

    Args:
        study: The study.
        estimate: The estimate from all phases together.
        barred: The actions that may not be played; None if all may.
        current: A further action that is played; None for none.

    Returns:
        The actions in ascending order; empty if the actions that may be played always fit a linear model.
    """
    own, matrix = study.fit_test, study.actions.matrix
    assert own is not None
    banned = np.zeros(0, dtype=np.int64) if barred is None else barred
    design = _design(study.actions, banned.tobytes())
    first = design.support[np.argsort(-design.weights, kind="stable")]
    scores = study.reward_model.means(matrix, np.arange(len(matrix)), estimate)
    scores[design.support] = -np.inf
    scores[banned] = -np.inf
    missing = min(own.coordinates + design.rank, len(matrix) - len(banned)) - len(first)
    best = ranked(scores)[: max(0, missing)]
    found = {*first.tolist(), *best.tolist(), *([] if current is None else [current])}
    return tuple(sorted(found)) if len(found) > design.rank else ()


@lru_cache(maxsize=2)
def _design(actions: Actions, barred: bytes) -> Design:
    """Return a design of all actions but some, whose indices are given as bytes."""
    if not barred:
        return near_g_optimal(actions.matrix, tolerance=2.0)
    left = np.setdiff1d(np.arange(actions.count), np.frombuffer(barred, dtype=np.int64))
    found = near_g_optimal(Selection(actions.matrix, left), tolerance=2.0)
    return replace(found, support=left[found.support])


def fit_test_plan(state: State, actions: tuple[int, ...]) -> Plan:
    """Return the plan of the fit test.

    Args:
        state: The state after the learning phases.
        actions: The actions, from `tested_actions`.
    """
    return replace(_planned(state.study, actions), phase=state.phase)


def _planned(study: Study, actions: tuple[int, ...]) -> Plan:
    own = study.fit_test
    assert own is not None
    statistics = _statistics(study, actions)
    shapes = ("ball", "box") if may_use_ball(study.privacy) else ("box",)
    ways = [_clipped(study, statistics, shape) for shape in shapes]
    best = ways[0]
    if study.privacy.trust_model.private:
        best = first_least(ways, [way.width(study, own.cohort) for way in ways])
    assert statistics.mixing is not None
    return Plan(
        study=study.name,
        phase=1,
        support=actions,
        plays=(own.plays,) * len(actions),
        rank=len(statistics.mixing),
        mechanism=calibrate(
            study.privacy,
            coordinates=len(statistics.mixing),
            cohort=own.cohort,
            bound=best.bound,
            shape=best.shape,
            confidence=FIT_LEVEL / (2 * len(statistics.mixing)),
        ),
        mixing=tuple(map(tuple, statistics.mixing.tolist())),
    )


def _statistics(study: Study, actions: tuple[int, ...]) -> Statistics:
    own, rows = study.fit_test, study.actions.matrix[list(actions)]
    assert own is not None
    mixing = rounded(math.sqrt(own.plays) * residual_basis(rows, own.coordinates).T)
    plays = np.full(len(actions), float(own.plays))
    return Statistics(rows=rows, plays=plays, heterogeneity=study.heterogeneity, mixing=mixing)


def residual_basis(rows: FloatArray, wanted: int) -> FloatArray:
    """Return orthonormal columns that are orthogonal to all columns of a matrix.

    They are computed from fixed vectors without a preferred direction, by removing the part in the column
    space. So all machines compute the same columns up to rounding.

    Args:
        rows: The matrix, one row of features per action.
        wanted: How many columns are wanted. Fewer are returned if the orthogonal space has fewer dimensions.
    """
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    basis = left[:, sizes > sizes[0] * _ZERO]
    size, count = len(rows), min(wanted, len(rows) - basis.shape[1])
    fixed = np.sin(_GOLDEN * np.outer(np.arange(1, size + 1) ** 2, np.arange(1, count + 1)))
    for _ in range(2):  # the second time removes rounding errors of the first
        fixed = fixed - basis @ (basis.T @ fixed)
    found, triangular = qr(fixed, mode="economic")
    return np.asarray(found * np.sign(np.diag(triangular)), dtype=np.float64)


def _off(study: Study, statistics: Statistics, shape: str) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the means of the residual coordinates for a linear model, and standard deviations.

    Means differ from 0 because the mixing matrix is rounded, and because of the study's misfit. For a ball,
    both results have one entry, for the length of the vector of coordinates.
    """
    mean = leak(study, statistics) + study.misfit * statistics.reach("box", 1.0)
    spread = np.sqrt(np.diag(statistics.covariance))
    if shape == "box":
        return mean, spread
    spectrum = np.linalg.eigvalsh(statistics.covariance)
    length = float(np.linalg.norm(mean)) + math.sqrt(float(spectrum.sum()))
    return np.array([length]), np.sqrt(spectrum[-1:])


def leak(study: Study, statistics: Statistics) -> FloatArray:
    """Return how far mean rewards Xθ in [−B, B] may move each coordinate from 0, because of rounding.

    Let M be the rounded matrix. MXθ = (M·X·X⁺)·Xθ, and the entries of Xθ are at most B.
    """
    inside = statistics.targets @ np.linalg.pinv(statistics.rows)
    return np.asarray(study.bound * np.abs(inside).sum(axis=1), dtype=np.float64)


def _clipped(study: Study, statistics: Statistics, shape: str) -> Reporting:
    margin = MARGIN if study.privacy.trust_model.private else FAR
    bound = float(on_grid(clip_radius(*_off(study, statistics, shape), margin), up=True))
    if study.bounded_rewards:
        bound = min(bound, float(on_grid(statistics.reach(shape, study.bound).max(), up=True)))
    return Reporting(statistics=statistics, shape=shape, bound=bound, recentred=False)


def fit_test_evidence(study: Study, plan: Plan, reports: int, means: tuple[float, ...] = ()) -> PhaseEvidence:
    """Return the evidence of a fit test. Its bounds on clipping fail with probability `FIT_LEVEL`/10.

    Args:
        study: The study.
        plan: The plan of the fit test.
        reports: How many clients reported.
        means: The released means; empty to predict errors before the release.
    """
    mechanism, statistics = plan.asked_mechanism, _statistics(study, plan.support)
    bias = tuple[float, ...]()
    lossless = float(on_grid(statistics.reach(mechanism.shape, study.bound).max(), up=True))
    if not study.bounded_rewards or mechanism.bound < lossless:
        off, spread = _off(study, statistics, mechanism.shape)
        chance = FIT_LEVEL / (10 * len(off))
        bias = tuple(mean_excess(mechanism.bound, off, spread, reports, chance).tolist())
    return PhaseEvidence(plan=plan, reports=reports, means=means, clipping_bias=bias)


@dataclass(frozen=True, kw_only=True)
class FitVerdict:
    """The verdict of a fit test, on the study's scale of rewards.

    Attributes:
        explained: Whether a linear model, with the study's misfit, explains the residual coordinates.
        at_least: A lower bound on the largest deviation of mean rewards; 0 if `explained`.
        about: An estimate of the root mean square of the deviations.
        coordinates: The number of residual coordinates.
    """

    explained: bool
    at_least: float
    about: float
    coordinates: int


def fit_verdict(study: Study, evidence: PhaseEvidence) -> FitVerdict:
    """Return the verdict of a fit test.

    Args:
        study: The study.
        evidence: The evidence of its fit test.
    """
    statistics, values = _statistics(study, evidence.plan.support), np.array(evidence.means)
    mixing = statistics.full_mixing
    sizes: FloatArray = np.abs(values)
    if _by_length(evidence):
        sizes = np.array([np.linalg.norm(values)])
    excess = float(np.max(sizes - threshold(study, evidence)))
    scatter = study.assignment_rule.errors(study, evidence).factor(np.eye(len(values)))
    square = float(values @ values - np.einsum("ij,ij->", scatter, scatter))
    return FitVerdict(
        explained=excess <= 0,
        at_least=study.misfit + excess / largest_norm(mixing) if excess > 0 else 0.0,
        about=math.sqrt(max(0.0, square)) / float(np.linalg.norm(mixing)),
        coordinates=len(values),
    )


def _by_length(evidence: PhaseEvidence) -> bool:
    """Return whether the length of the vector of coordinates is tested, instead of each coordinate."""
    return evidence.plan.asked_mechanism.sub_gaussian


def threshold(study: Study, evidence: PhaseEvidence) -> FloatArray:
    """Return the threshold for the length of the residual coordinates, or one for each coordinate.

    If mean rewards are linear up to the study's misfit, a threshold is exceeded with a probability of at most
    `FIT_LEVEL`.
    """
    statistics = _statistics(study, evidence.plan.support)
    count, chance = len(statistics.targets), 0.9 * FIT_LEVEL  # a tenth is for clipping
    errors, mixing = study.assignment_rule.errors(study, evidence), statistics.full_mixing
    leaked = leak(study, statistics)
    if _by_length(evidence):
        radius = errors.norm_radius(np.eye(count), statistics.targets, confidence=chance)
        largest = study.misfit * largest_norm(mixing)
        return np.array([radius + float(np.linalg.norm(leaked)) + largest])
    each = errors.radius(np.eye(count), statistics.targets, confidence=chance / (2 * count))
    allowed = leaked + study.misfit * np.abs(mixing).sum(axis=1)
    return np.asarray(each + allowed, dtype=np.float64)


def reserved_fit_test(study: Study, participants: int, misfit: float, *, plays: int | None = None) -> FitTest:
    """Return the smallest fit test that is expected to notice a misfit.

    If mean rewards deviate from a linear function by independent amounts, uniform in [−m, m], the expected
    squared length of the q residual coordinates is T·m²·q/3. The cohort is the smallest for which the
    threshold is at most half of that length. If each coordinate is tested alone, its threshold must be at
    most √(T/3)·m.

    Args:
        study: The study; its schedule is not used.
        participants: How many clients the study asks in total.
        misfit: The m to notice, on the study's scale of rewards.
        plays: How often each action is played. The default is 32, or fewer such that the test takes about a
            twentieth of the horizon at most.

    Returns:
        The test.

    Raises:
        InvalidValue: Half of the participants are too few, or the study cannot have a fit test.
    """
    positive(misfit=misfit)
    rounds = study.actions.dimension + FitTest.coordinates
    usual = max(1, min(FitTest.plays, math.floor(_FEW_ROUNDS * study.horizon / rounds)))

    def sized(cohort: int) -> FitTest:
        return FitTest(cohort=cohort, plays=usual if plays is None else plays)

    low, high = 0, max(1, int(_MOST * participants))
    if not _notices(study, sized(high), misfit):
        expected = "a larger number, or more participants or plays"
        raise InvalidValue("misfit to notice", f"{misfit:.3g}", expected)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _notices(study, sized(middle), misfit) else (middle, high)
    return sized(high)


def _notices(study: Study, test: FitTest, misfit: float) -> bool:
    try:
        tested = replace(study, fit_test=test, schedule=Schedule(cohorts=(1,)))
        nothing = np.zeros(study.actions.dimension)
        plan = _planned(tested, tested_actions(tested, nothing, barred=None, current=None))
    except PrivacyError:  # no mechanism for this number of clients
        return False
    least = threshold(tested, fit_test_evidence(tested, plan, test.cohort))
    if len(least) == 1:
        return float(least[0]) <= _NOTICED * misfit * math.sqrt(test.plays * plan.numbers / 3)
    # The largest coordinate is usually above the root mean square of one, so half of it is not required here.
    return float(np.max(least)) <= misfit * math.sqrt(test.plays / 3)
