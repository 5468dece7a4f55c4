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
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import one_of, whole
from dpbandits.actions import Actions
from dpbandits.design import near_g_optimal
from dpbandits.protocol._best_guess import RIGHT, ErrorDraws, Guess
from dpbandits.protocol._designs import MOST_COMPARED, WORTH, difference_design
from dpbandits.protocol._near_ties import drawn_parameters
from dpbandits.protocol._predicted_errors import Knowledge, Pooled
from dpbandits.protocol._reporting import Statistics, choose
from dpbandits.protocol._study import Study

DRAWS = 64
"""How many θ* are drawn by default."""
_ERRORS = 16  # draws of the errors per θ*
_MOST_NUMBERS = 10**7  # the size of a cache of phases, in entries of one matrix per phase
_TIME_UNIFORM = 1.1  # widths that hold in all phases, over those of one phase with the same information
_TINY = 1e-50
_LARGE = 0.25  # a smaller part of the variance is not worth another design


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
        participants: How many clients are expected to be asked until one action is left, until the best guess
            is certain to be within `Study.stop_gap` of the best action, or until all planned ones were asked.
            Without `Study.stop_when_decided` the study goes on to ask the others.
        chance_of_sure: The probability of one of the first two.
    """

    regret: float
    median_regret: float
    chance_of_best: float
    expected_gap: float
    bound: float
    rounds_asked: float
    first_elimination: int | None
    actions_left: float
    participants: float
    chance_of_sure: float


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

    Example:
        >>> import dpbandits as dp
        >>> actions = dp.Actions([[1, 0], [0, 1], [0.6, 0.6]])
        >>> schedule = dp.Schedule(cohorts=(20,), first_length=10)
        >>> study = dp.Study(actions=actions, horizon=100, schedule=schedule)
        >>> from dpbandits.protocol import predict
        >>> predict(study, draws=2).regret > 0
        True
    """
    one_of(("everyone",), assignment=study.assignment)
    truths = _truths(study.actions, whole(1, draws=draws), seed)
    return _summary(study, _outcomes(study, truths, np.arange(draws), {}), truths.weights)


def predicted_costs(study: Study, first: int, last: int, phases: PhaseCache) -> tuple[FloatArray, FloatArray]:
    """Return the predicted cost of the draws `first` … `last` − 1 of `predict`, and their weights.

    The cost is the regret or, with the objective "identification", the number of clients until one action is
    left, or the best guess is near enough; it is that of all planned clients if the study is not sure.

    The draws are those of the default arguments, and the weighted mean over all of them is the prediction. A
    search can compare schedules with few draws and add more later. `phases` keeps the phases that were
    predicted before, for studies that differ only in their schedule and design tolerance.
    """
    truths = _truths(study.actions, DRAWS, 0)
    outcomes = _outcomes(study, truths, np.arange(first, last), phases)
    if study.objective == "regret":
        return np.array([one.total(study) for one in outcomes]), truths.weights[first:last]
    everybody = sum(study.schedule.cohorts or (study.schedule.participants(study.horizon),))
    costs = [one.participants if one.sure else everybody for one in outcomes]
    return np.array(costs, dtype=np.float64), truths.weights[first:last]


def _outcomes(study: Study, truths: _Truths, members: IntArray, phases: PhaseCache) -> list[_Outcome]:
    """Return the outcomes for some of the θ*, in their order."""
    paths = _paths(study, truths, members, phases)
    found = [outcome for path in paths for outcome in path.outcomes(truths)]
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
    sure: bool
    participants: int
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
        participants=mean([one.participants for one in outcomes]),
        chance_of_sure=mean([float(one.sure) for one in outcomes]),
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
        near_enough: Whether the best guess is certain to be within the study's `stop_gap` of the best action.
    """

    study: Study
    members: IntArray
    active: IntArray
    regret: FloatArray
    bound: FloatArray
    worst: FloatArray
    known: tuple[Knowledge, ...] = field(default=())
    rounds: float = 0.0
    first_elimination: int | None = None
    near_enough: bool = False

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
        pooled = Pooled(known=known, rows=study.actions.matrix[self.active]) if known else None
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
                sure=decided or self.near_enough,
                participants=sum(map(study.schedule.cohort, range(1, self.number))),
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
        if self.study.pools:
            known = (*self.known, phase.knowledge)
            pooled = _pooled_widths(self.study, known, matrix[self.active], matrix[truths.best[self.members]])
            widths = np.minimum(widths, pooled)
        kept = gaps[:, self.active] <= widths
        kept |= self.active == truths.best[self.members, None]  # against rounding
        near = _near_enough(self.study, np.where(kept, widths - gaps[:, self.active], -np.inf))
        worst = np.minimum(self.worst, 2 * np.max(np.where(kept, widths, 0), axis=1))
        for row, own in _groups(np.column_stack([kept, near])):
            left = row[:-1]
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
                near_enough=bool(row[-1]),
            )


def _near_enough(study: Study, leads: FloatArray) -> NDArray[np.bool_]:
    """Return for each θ* whether the study stops, given bounds on how much better each action may be."""
    if not study.stop_gap:
        return np.zeros(len(leads), dtype=bool)
    return np.asarray(leads.max(axis=1) <= study.stop_gap)


def _pooled_widths(
    study: Study, known: Sequence[Knowledge], rows: FloatArray, best: FloatArray
) -> FloatArray:
    """Return roughly the widths of `_pooling.py`, as `Knowledge.widths_between` does for one phase."""
    deviations = [one.widths_between(rows, best) / one.level for one in known]
    information = np.sum([1 / np.maximum(one, _TINY) ** 2 for one in deviations], axis=0)
    level = 2 * math.log(1 / study.pair_failures[0])
    return np.asarray(_TIME_UNIFORM * np.sqrt(level / information), dtype=np.float64)


def _guess(gaps: FloatArray, pooled: Pooled | None, draws: ErrorDraws, *, decided: bool) -> Guess:
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


def _paths(study: Study, truths: _Truths, members: IntArray, phases: PhaseCache) -> Iterator[_Path]:
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
        phase = None if len(path.active) == 1 or path.near_enough else _phase(study, path, phases)
        if phase is None or path.rounds + phase.plays.sum() > study.horizon:
            yield path
        else:
            open_paths.extend(path.after(phase, truths))


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A predicted phase: the actions that it plays, how often, and the errors of the estimate after it."""

    support: IntArray
    plays: FloatArray
    knowledge: Knowledge


def _phase(study: Study, path: _Path, phases: PhaseCache) -> _Phase | None:
    """Return the next phase; None if it does not fit into the horizon or asks nobody."""
    schedule, number = study.schedule, path.number
    if not schedule.asks(number) or schedule.length(number) > study.horizon:
        return None
    usual = _designed(
        study, path, _played(study.actions, path.active.tobytes(), study.design_tolerance), phases
    )
    if study.objective == "regret" or not _worth_comparing(study, path.active, usual.knowledge):
        return usual
    left = _bitmap(path.active, study.actions.count)
    other = difference_design(study.actions, left, study.design_tolerance)
    rows = study.actions.matrix[other.support]
    played = _Played(support=other.support, rows=rows, weights=other.weights, rank=other.rank)
    phase = _designed(study, path, played, phases)

    def widest(one: _Phase) -> float:
        rows = study.actions.matrix[path.active]
        return float(np.max(one.knowledge.widths_between(rows, rows)))

    return phase if widest(phase) <= WORTH * widest(usual) else usual


def _worth_comparing(study: Study, active: IntArray, known: Knowledge) -> bool:
    """Return whether few actions are left, and plays are a large part of the variance of a difference."""
    if not 1 < len(active) <= MOST_COMPARED:
        return False
    rows = study.actions.matrix[active]
    of_plays = np.square((rows[1:] - rows[0]) @ known.of_plays).sum(axis=1)
    total = np.square(known.widths_between(rows[1:], rows[:1])[0] / known.level)
    return bool(np.max(of_plays / np.maximum(total, _TINY)) > _LARGE)


def _bitmap(active: IntArray, count: int) -> bytes:
    left = np.zeros(count, dtype=bool)
    left[active] = True
    return np.packbits(left).tobytes()


def _designed(study: Study, path: _Path, played: _Played, phases: PhaseCache) -> _Phase:
    """Return the phase that plays a design."""
    length, clients = study.schedule.length(path.number), study.schedule.cohort(path.number)
    before = path.known[-1] if path.known else None
    key = (played, length, clients, before)
    if key not in phases:
        if len(phases) * study.actions.dimension**2 > _MOST_NUMBERS:
            phases.clear()
        statistics = played.statistics(length, study.heterogeneity)
        knowledge = _knowledge(study, statistics, played.rank, clients, before)
        phases[key] = _Phase(support=played.support, plays=statistics.plays, knowledge=knowledge)
    return phases[key]


def _knowledge(
    study: Study, statistics: Statistics, rank: int, clients: int, before: Knowledge | None
) -> Knowledge:
    """Return the errors of the estimate after a phase with these statistics."""
    reporting = choose(study, statistics, rank, clients, before)
    estimator = reporting.estimator(study, rank, clients)
    of_plays = reporting.statistics.weights_on_averages(estimator) / np.sqrt(clients * statistics.plays)
    level, deviation = math.sqrt(2 * math.log(1 / study.bound_failure)), reporting.deviation(study, clients)
    private = study.privacy.trust_model.private
    wide = max(deviation, reporting.width(study, clients) / level) if private else 0.0
    common = study.heterogeneity**2 / clients
    return Knowledge(
        of_plays=of_plays,
        of_noise=deviation * estimator,
        tails=reporting.tails(study, clients),
        common=common,
        rank=rank,
        level=level,
        widths_form=of_plays @ of_plays.T
        + wide**2 * estimator @ estimator.T
        + common * np.eye(study.actions.dimension),
    )


@dataclass(frozen=True, eq=False)
class _Played:
    """A design, and the statistics of the phases that play it, by their length."""

    support: IntArray
    rows: FloatArray
    weights: FloatArray
    rank: int
    _statistics: dict[tuple[float, float], Statistics] = field(default_factory=dict)

    def statistics(self, length: float, heterogeneity: float) -> Statistics:
        """Return the statistics of a phase. Equal phases share them, with everything computed from them."""
        key = (length, heterogeneity)
        if key not in self._statistics:
            plays = np.ceil(length * self.weights - 1e-9)
            self._statistics[key] = Statistics(rows=self.rows, plays=plays, heterogeneity=heterogeneity)
        return self._statistics[key]


@lru_cache(maxsize=512)
def _played(actions: Actions, active: bytes, tolerance: float) -> _Played:
    left = np.frombuffer(active, dtype=np.int64)
    rows = actions.matrix[left]
    design = near_g_optimal(rows, tolerance=tolerance)
    support = design.support
    return _Played(support=left[support], rows=rows[support], weights=design.weights, rank=design.rank)


PhaseCache = dict[tuple[_Played, float, int, Knowledge | None], _Phase]
"""The phases that were predicted so far, by their design, length, cohort and what was known before."""
