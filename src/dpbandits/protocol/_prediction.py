"""Predicts the regret of a study before any client is asked.

Actions, horizon and noise are public, θ* is not. So regret is predicted for some θ* drawn from a prior, the
uniform distribution on the unit sphere (`_near_ties.py`), without drawing any reward. The prediction assumes
that an action is dropped in the first phase in which its gap exceeds its width. It assumes that the errors of
estimates are normal, with a random scale if the noise has heavier tails (`_heavy_tails.py`). It computes the
expected gap of the best guess at the end without bias (`_best_guess.py`). No guarantee depends on a
prediction: it is used only to choose the schedule.

θ* for which the same actions were dropped so far share their phases, so that each design is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import one_of, whole
from dpbandits.actions import Actions
from dpbandits.design import Design, near_g_optimal
from dpbandits.protocol._best_guess import RIGHT, ErrorDraws, Guess, best_guess
from dpbandits.protocol._heavy_tails import drawn_scales
from dpbandits.protocol._near_ties import drawn_parameters
from dpbandits.protocol._reporting import Statistics, choose
from dpbandits.protocol._study import Study

DRAWS = 64
"""How many θ* are drawn by default."""
_ERRORS = 16  # draws of the errors per θ*


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The expected cost of a study.

    Attributes:
        regret: The expected regret over the horizon.
        median_regret: The median of the regret. It is far below the mean if rare errors cost much.
        chance_of_best: The probability that the best guess at the end is the best action.
        expected_gap: The expected gap of the best guess at the end: what each later round would lose.
        bound: The upper bound of the regret that the widths prove, which holds with probability 1 − 5L/T.
            Until an action is dropped, each play of it may cost twice the largest width of a difference in
            the previous phase. The same holds for the best guess at the end.
        rounds_asked: The rounds of all phases that ask clients.
        first_elimination: The first phase that is expected to drop an action; None if no phase is.
        actions_left: How many actions are expected to be left at the end.
    """

    regret: float
    median_regret: float
    chance_of_best: float
    expected_gap: float
    bound: float
    rounds_asked: float
    first_elimination: int | None
    actions_left: float


def predict(study: Study, *, draws: int = DRAWS, seed: int = 0) -> Prediction:
    """Predict the cost of a study as the weighted mean over some θ* drawn from the prior.

    Args:
        study: A study with assignment "everyone".
        draws: How many θ* are drawn.
        seed: The seed of the draws; equal seeds give equal predictions.

    Returns:
        The prediction.

    Raises:
        InvalidValue: The study has another assignment, or `draws` is less than 1.
    """
    one_of(("everyone",), assignment=study.assignment)
    truths = _truths(study.actions, whole(1, draws=draws), seed)
    return _summary(study, _outcomes(study, truths, np.arange(draws)), truths.weights)


def predicted_regrets(study: Study, first: int, last: int) -> tuple[FloatArray, FloatArray]:
    """Return the predicted regret of the draws `first` … `last` − 1 of `predict`, and their weights.

    The draws are those of the default arguments, and the weighted mean over all of them is the prediction. A
    search can compare schedules with few draws and add more later.
    """
    truths = _truths(study.actions, DRAWS, 0)
    outcomes = _outcomes(study, truths, np.arange(first, last))
    return np.array([one.total(study) for one in outcomes]), truths.weights[first:last]


def _outcomes(study: Study, truths: _Truths, members: IntArray) -> list[_Outcome]:
    """Return the outcomes for some of the θ*, in their order."""
    found = [outcome for path in _paths(study, truths, members) for outcome in path.outcomes(truths)]
    return sorted(found, key=lambda one: one.member)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What is predicted for one θ*: the regret of the phases, and the best guess after them."""

    member: int
    regret: float
    bound: float
    rounds: float
    first_elimination: int | None
    actions_left: int
    guess: Guess

    def total(self, study: Study) -> float:
        """Return the expected regret over the horizon."""
        return self.regret + (study.horizon - self.rounds) * self.guess.expected_gap


def _summary(study: Study, outcomes: Sequence[_Outcome], weights: FloatArray) -> Prediction:
    firsts = [one.first_elimination for one in outcomes if one.first_elimination is not None]

    def mean(values: Sequence[float]) -> float:
        return float(np.average(values, weights=weights))

    return Prediction(
        regret=mean([one.total(study) for one in outcomes]),
        median_regret=_median(study, outcomes, weights),
        chance_of_best=min(1.0, max(0.0, mean([one.guess.right for one in outcomes]))),
        expected_gap=mean([one.guess.expected_gap for one in outcomes]),
        bound=mean([one.bound for one in outcomes]),
        rounds_asked=mean([one.rounds for one in outcomes]),
        first_elimination=min(firsts, default=None),
        actions_left=mean([one.actions_left for one in outcomes]),
    )


def _median(study: Study, outcomes: Sequence[_Outcome], weights: FloatArray) -> float:
    """Return the weighted median of the regret over all θ* and all drawn errors."""
    values, chances = list[FloatArray](), list[FloatArray]()
    for one, weight in zip(outcomes, weights, strict=True):
        values.append(one.regret + (study.horizon - one.rounds) * np.append(one.guess.gaps, 0.0))
        own = np.append(one.guess.chances, max(0.0, one.guess.right))
        chances.append(weight * own / own.sum())  # estimated probabilities may add up to more than one
    regrets, shares = np.concatenate(values), np.concatenate(chances)
    order = np.argsort(regrets)
    place = int(np.searchsorted(np.cumsum(shares[order]), shares.sum() / 2))
    return float(regrets[order[min(place, len(order) - 1)]])


@dataclass(frozen=True, kw_only=True)
class _Truths:
    """The drawn θ*, in terms of the actions.

    Attributes:
        weights: The weight of each θ*.
        gaps: One row per θ*, with the gap of each action.
        best: The best action for each θ*.
        errors: The random numbers for the errors of the last estimate, for each θ*.
    """

    weights: FloatArray
    gaps: FloatArray
    best: IntArray
    errors: tuple[ErrorDraws, ...]


@lru_cache(maxsize=8)
def _truths(actions: Actions, draws: int, seed: int) -> _Truths:
    """Draw θ* and the random numbers. With more draws, the first ones stay the same."""
    drawn = drawn_parameters(actions, draws, seed)
    rewards = drawn.thetas @ actions.matrix.T
    best = np.argmax(rewards, axis=1)
    rng = np.random.default_rng([seed, 1])
    return _Truths(
        weights=drawn.weights,
        gaps=np.asarray(rewards[np.arange(draws), best][:, None] - rewards, dtype=np.float64),
        best=best,
        errors=tuple(ErrorDraws.drawn(rng, _ERRORS, actions.dimension) for _ in range(draws)),
    )


@dataclass(frozen=True, kw_only=True)
class _Knowledge:
    """The errors of the estimate after a predicted phase.

    Attributes:
        of_plays: P, and
        of_noise: N, so that the estimate has covariance PP' + NN' + common·I.
        tails: How heavy the tails of the noise are; see `noise_tails`.
        common: The part of the variance that the clients' own parameters add.
        rank: The dimension of the span of the actions of the phase.
        level: The quantile √(2·log(1/β)), by which deviations are multiplied to get widths.
        widths_form: W, so that the width in direction v is level·√(v'Wv). It is the covariance, with a
            larger part for noise that has heavier tails than normal noise.
    """

    of_plays: FloatArray
    of_noise: FloatArray
    tails: str
    common: float
    rank: int
    level: float
    widths_form: FloatArray

    @cached_property
    def without_noise(self) -> FloatArray:
        """The part of the covariance that noise does not add."""
        full = self.of_plays @ self.of_plays.T + self.common * np.eye(len(self.of_plays))
        return np.asarray(full, dtype=np.float64)

    @cached_property
    def covariance(self) -> FloatArray:
        """C, the covariance of the estimate."""
        return np.asarray(self.without_noise + self.of_noise @ self.of_noise.T, dtype=np.float64)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """An orthonormal basis of the span, d × rank, and the variance of the estimate along each column."""
        factor = np.hstack([self.of_plays, self.of_noise])
        left, values, _ = np.linalg.svd(factor, full_matrices=False)
        return left[:, : self.rank], values[: self.rank] ** 2 + self.common

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """Return the width for each row."""
        spread = np.einsum("ij,ij->i", targets @ self.widths_form, targets)
        return np.asarray(self.level * np.sqrt(np.maximum(spread, 0)), dtype=np.float64)

    def target_radius(self, targets: FloatArray) -> float:
        """Return √tr + level·√λ for the covariance of the errors, with trace tr and largest eigenvalue λ."""
        spectrum = np.linalg.eigvalsh(targets @ self.covariance @ targets.T)
        return float(np.sqrt(spectrum.sum()) + self.level * np.sqrt(spectrum[-1]))

    def widths_between(self, rows: FloatArray, best: FloatArray) -> FloatArray:
        """Return the width of the difference to each row of `best`, one row each, for all rows."""
        images, of_best = rows @ self.widths_form, best @ self.widths_form
        squares = np.einsum("ij,ij->i", images, rows) + np.einsum("ij,ij->i", of_best, best)[:, None]
        return np.asarray(self.level * np.sqrt(np.maximum(squares - 2 * of_best @ rows.T, 0)))


@dataclass(frozen=True, kw_only=True)
class _Pooled:
    """The errors of the means of actions, as the pooled estimate of some phases has them.

    Attributes:
        known: The phases.
        rows: One row per action.
    """

    known: Sequence[_Knowledge]
    rows: FloatArray

    @cached_property
    def _basis(self) -> FloatArray:
        return self.known[0].spectrum[0]  # the span of the first phase contains the others

    @cached_property
    def _precisions(self) -> list[FloatArray]:
        """For each phase a matrix W: in the basis, the phase adds WW' to the precision."""
        spectra = [one.spectrum for one in self.known]
        return [self._basis.T @ own / np.sqrt(variances) for own, variances in spectra]

    @cached_property
    def _precision(self) -> FloatArray:
        return np.asarray(sum(one @ one.T for one in self._precisions), dtype=np.float64)

    @cached_property
    def normal(self) -> FloatArray:
        """One row y per action: the estimate of its mean has error ⟨y, z⟩, z standard normal."""
        lower = cholesky(self._precision, lower=True)
        return np.asarray(solve_triangular(lower, (self.rows @ self._basis).T, lower=True).T)

    @cached_property
    def _gains(self) -> list[FloatArray]:
        """For each phase the map from the error of its estimate to that of the pooled one, in the basis."""
        return [
            np.asarray(np.linalg.solve(self._precision, part / np.sqrt(one.spectrum[1]) @ one.spectrum[0].T))
            for part, one in zip(self._precisions, self.known, strict=True)
        ]

    def guess(self, gaps: FloatArray, draws: ErrorDraws) -> Guess:
        """Return the best guess of the pooled estimate, given the gap of each action."""
        if all(one.tails == "normal" for one in self.known):
            return best_guess(gaps, self.normal, draws)
        rng, count = np.random.default_rng(draws.seed), len(draws.picks)
        covariances, weights = np.zeros((count, *self._precision.shape)), np.ones(count)
        for gain, one in zip(self._gains, self.known, strict=True):
            covariances += gain @ one.without_noise @ gain.T
            noise = gain @ one.of_noise
            if one.tails == "normal":
                covariances += noise @ noise.T
                continue
            scales = drawn_scales(one.tails, noise.shape[1], count, rng)
            covariances += (noise * scales.variances[:, None, :]) @ noise.T
            weights *= scales.weights
        errors = self.rows @ self._basis @ np.linalg.cholesky(covariances)
        guesses = [best_guess(gaps, errors[draw], draws.single(draw)) for draw in range(count)]
        return Guess(
            gaps=np.concatenate([one.gaps for one in guesses]),
            chances=np.concatenate(
                [one.chances * weight / count for one, weight in zip(guesses, weights, strict=True)]
            ),
        )


@dataclass(frozen=True, kw_only=True)
class _Path:
    """The phases so far, for all θ* for which they are the same.

    Attributes:
        study: The study.
        members: The indices of these θ*.
        active: The actions that are left.
        regret: The regret so far, for each member.
        bound: The proved bound of the regret so far, for each member.
        worst: An upper bound on the cost of one play, for each member.
        known: What is known after each phase.
        rounds: The rounds so far.
        first_elimination: The first phase that dropped an action.
    """

    study: Study
    members: IntArray
    active: IntArray
    regret: FloatArray
    bound: FloatArray
    worst: FloatArray
    known: tuple[_Knowledge, ...] = field(default=())
    rounds: float = 0.0
    first_elimination: int | None = None

    @property
    def number(self) -> int:
        """The number of the next phase."""
        return len(self.known) + 1

    def outcomes(self, truths: _Truths) -> Iterator[_Outcome]:
        """Yield the outcome of each member, when no further phase asks clients."""
        study, decided = self.study, len(self.active) == 1
        later = range(self.number, study.schedule.reporting_phases(study.horizon) + 1) if decided else ()
        rounds = min(float(study.horizon), self.rounds + sum(map(study.schedule.length, later)))
        known = self.known if study.learning.pooled else self.known[-1:]
        pooled = _Pooled(known=known, rows=study.actions.matrix[self.active]) if known else None
        for place, member in enumerate(self.members):
            gaps = truths.gaps[member, self.active]
            worst = 0.0 if decided else float(self.worst[place])
            yield _Outcome(
                member=int(member),
                regret=float(self.regret[place]),
                bound=float(self.bound[place]) + (study.horizon - rounds) * worst,
                rounds=rounds,
                first_elimination=self.first_elimination,
                actions_left=len(self.active),
                guess=_guess(gaps, pooled, truths.errors[member], decided=decided),
            )

    def after(self, phase: _Phase, truths: _Truths) -> Iterator[_Path]:
        """Yield the paths after a phase, one for each set of actions that is left."""
        gaps = truths.gaps[self.members]
        rounds = float(phase.plays.sum())
        regret = self.regret + gaps[:, phase.support] @ phase.plays
        bound = self.bound + self.worst * rounds
        matrix = self.study.actions.matrix
        widths = phase.knowledge.widths_between(matrix[self.active], matrix[truths.best[self.members]])
        kept = gaps[:, self.active] <= widths
        kept |= self.active == truths.best[self.members, None]  # against rounding
        worst = np.minimum(self.worst, 2 * np.max(np.where(kept, widths, 0), axis=1))
        for left, own in _groups(kept):
            drops = self.first_elimination is None and not left.all()
            yield _Path(
                study=self.study,
                members=self.members[own],
                active=self.active[left],
                regret=regret[own],
                bound=bound[own],
                worst=worst[own],
                known=(*self.known, phase.knowledge),
                rounds=self.rounds + rounds,
                first_elimination=self.number if drops else self.first_elimination,
            )


def _guess(gaps: FloatArray, pooled: _Pooled | None, draws: ErrorDraws, *, decided: bool) -> Guess:
    if decided:
        return RIGHT
    if pooled is None:  # nothing is known: any action may be the guess
        wrong = gaps[gaps > 0]
        return Guess(gaps=wrong, chances=np.full(len(wrong), 1 / len(gaps)))
    return pooled.guess(gaps, draws)


def _groups(kept: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], IntArray]]:
    """Yield each different row, with the indices of the rows that are equal to it."""
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(np.packbits(kept, axis=1)):
        places.setdefault(row.tobytes(), []).append(place)
    for own in places.values():
        yield kept[own[0]], np.array(own)


def _paths(study: Study, truths: _Truths, members: IntArray) -> Iterator[_Path]:
    """Yield the path of each group of θ* at the end of its last phase that asks clients."""
    nothing = np.zeros(len(members))
    start = _Path(
        study=study,
        members=members,
        active=np.arange(study.actions.count),
        regret=nothing,
        bound=nothing,
        worst=truths.gaps[members].max(axis=1),
    )
    open_paths = [start]
    while open_paths:
        path = open_paths.pop()
        phase = None if len(path.active) == 1 else _phase(study, path)
        if phase is None or path.rounds + phase.plays.sum() > study.horizon:
            yield path
        else:
            open_paths.extend(path.after(phase, truths))


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A predicted phase: the actions that it plays, how often, and the errors of the estimate after it."""

    support: IntArray
    plays: FloatArray
    knowledge: _Knowledge


def _phase(study: Study, path: _Path) -> _Phase | None:
    """Return the next phase; None if it does not fit into the horizon or asks nobody."""
    schedule, number = study.schedule, path.number
    if not schedule.asks(number) or schedule.length(number) > study.horizon:
        return None
    design = _design(study.actions, path.active.tobytes(), study.design_tolerance)
    plays = np.ceil(schedule.length(number) * design.weights - 1e-9)
    support, before = path.active[design.support], path.known[-1] if path.known else None
    clients, rows = schedule.cohort(number), study.actions.matrix[support]
    statistics = Statistics(rows=rows, plays=plays, heterogeneity=study.heterogeneity)
    reporting = choose(study, statistics, design.rank, clients, before)
    estimator = reporting.estimator(study, design.rank, clients)
    of_plays = reporting.statistics.weights_on_averages(estimator) / np.sqrt(clients * plays)
    level, deviation = math.sqrt(2 * math.log(1 / study.bound_failure)), reporting.deviation(study, clients)
    private = study.privacy.trust_model.private
    wide = max(deviation, reporting.width(study, clients) / level) if private else 0.0
    common = study.heterogeneity**2 / clients
    knowledge = _Knowledge(
        of_plays=of_plays,
        of_noise=deviation * estimator,
        tails=reporting.tails(study, clients),
        common=common,
        rank=design.rank,
        level=level,
        widths_form=of_plays @ of_plays.T
        + wide**2 * estimator @ estimator.T
        + common * np.eye(study.actions.dimension),
    )
    return _Phase(support=support, plays=plays, knowledge=knowledge)


@lru_cache(maxsize=512)
def _design(actions: Actions, active: bytes, tolerance: float) -> Design:
    return near_g_optimal(actions.matrix[np.frombuffer(active, dtype=np.int64)], tolerance=tolerance)
