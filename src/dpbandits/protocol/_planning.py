"""Plans how to spend a budget of participants: predicts the regret of schedules, and searches for a good one.

Actions, horizon and noise are public, θ* is not. So regret is predicted for a few θ* drawn from a prior, the
uniform distribution on the unit sphere, without drawing any reward. The prediction assumes that an action is
dropped in the first phase in which its gap exceeds its width. It takes the errors of the estimates to be
normal when it computes how likely each action is to be the best guess at the end. The prediction is used only
to choose the schedule; no guarantee depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import one_of, whole
from dpbandits.actions import Actions
from dpbandits.design import Design, near_g_optimal
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol._reporting import Statistics, choose
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol._study import Study

_DRAWS = 48
# The search predicts each candidate with few draws of θ*, so near ties may be ranked wrongly. The best
# `_COMPARED` candidates are then compared with all draws.
_SEARCH_DRAWS, _COMPARED = 12, 20
_LARGEST_PLANNED = 20_000  # with more actions than this, planning uses a random sample of them


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The expected cost of a study.

    Attributes:
        regret: The expected regret over the horizon.
        bound: The upper bound of the regret that the widths prove, which holds with probability 1 − 5L/T.
            Until an action is dropped, each play of it may cost twice the largest width of a difference in
            the previous phase. The same holds for the best guess at the end.
        rounds_asked: The rounds of all phases that ask clients.
        first_elimination: The first phase that is expected to drop an action; None if no phase is.
        actions_left: How many actions are expected to be left at the end.
    """

    regret: float
    bound: float
    rounds_asked: float
    first_elimination: int | None
    actions_left: float


def predict(study: Study, *, draws: int = _DRAWS, seed: int = 0) -> Prediction:
    """Predict the cost of a study as the mean over a few θ* drawn from the prior.

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
    rng = np.random.default_rng(seed)
    thetas = rng.standard_normal((whole(1, draws=draws), study.actions.dimension))
    thetas /= np.linalg.norm(thetas, axis=1, keepdims=True)
    first = _first_phase(study)  # does not depend on θ*
    return _mean([_predict_one(study, theta, first) for theta in thetas])


def _mean(parts: Sequence[Prediction]) -> Prediction:
    firsts = [part.first_elimination for part in parts if part.first_elimination is not None]
    averaged = ("regret", "bound", "rounds_asked", "actions_left")
    means = {name: float(np.mean([getattr(part, name) for part in parts])) for name in averaged}
    return Prediction(first_elimination=min(firsts, default=None), **means)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """How a budget of participants is spent.

    Attributes:
        schedule: The length and the cohort of each phase.
        design_tolerance: See `Study`.
    """

    schedule: Schedule
    design_tolerance: float


def budgeted(study: Study, participants: int) -> Spending:
    """Search for the spending with the least predicted regret, by coordinate descent.

    Args:
        study: The study. Its schedule is used only for `maximum_cohort`.
        participants: How many clients may be asked.

    Returns:
        The best spending that was found.
    """
    study = replace(study, actions=_sampled(study.actions))
    rank = study.actions.dimension
    choices: dict[str, tuple[float, ...]] = {
        "phases": (1, 2, 3, 4, 6),
        "first_length": tuple(math.ceil(factor * rank) for factor in (1, 1.5, 2, 3, 5, 8, 12, 24)),
        "growth": (4, 8, 16, 40),
        "cohort_growth": (0.12, 0.2, 0.35, 0.6, 1.0, 1.5),
        "design_tolerance": (1.3, 1.6, 2.0),
    }
    known: dict[tuple[float, ...], float] = {}

    def cost(candidate: dict[str, float]) -> float:
        key = tuple(candidate.values())
        if key not in known:
            spending = _spending(candidate, participants, study)
            known[key] = predict(spent(study, spending), draws=_SEARCH_DRAWS).regret
        return known[key]

    for place in (0.2, 0.5):
        _descend(choices, place, cost)
    best = sorted(known, key=known.__getitem__)[:_COMPARED]
    found = [_spending(dict(zip(choices, key, strict=True)), participants, study) for key in best]
    return min(found, key=lambda spending: predict(spent(study, spending)).regret)


def plan_study(
    *,
    actions: Actions,
    horizon: int,
    participants: int,
    privacy: PrivacyRequest | None = None,
    design_tolerance: float | None = None,
    **settings: Any,
) -> Study:
    """Plan a study: how many clients each phase asks, how long it plays, and what it plays.

    The result has the schedule with the least predicted regret for `participants` clients. The search uses
    public information only, and its result is part of the study. Example:

        study = plan_study(actions=actions, horizon=10**6, participants=5000, privacy=privacy)
        study.schedule.cohorts    # for instance (3000, 2000)

    Args:
        actions: The actions that can be played.
        horizon: The total number of rounds.
        participants: How many clients may be asked, each of them once.
        privacy: The trust model and (ε, δ); without it, reports are not protected.
        design_tolerance: Fixes `Study.design_tolerance`, which is otherwise planned too.
        settings: Other fields of `Study`. `bounded_rewards` defaults to False here: single rewards may lie
            outside [−bound, bound].

    Returns:
        A `Study` with explicit cohorts.

    Raises:
        InvalidValue: A value is out of range, or `schedule` is given.
        NotEnoughClients: The population is smaller than `participants`.
    """
    whole(1, participants=participants)
    if "schedule" in settings:
        raise InvalidValue("schedule", settings["schedule"], "none, since this function plans it")
    study = Study(
        actions=actions,
        horizon=horizon,
        privacy=PrivacyRequest() if privacy is None else privacy,
        schedule=Schedule(cohorts=(participants,), first_length=max(2, 3 * actions.dimension)),
        **{"bounded_rewards": False, **settings},
    )
    planned = spent(study, budgeted(study, participants))
    return planned if design_tolerance is None else replace(planned, design_tolerance=design_tolerance)


def spent(study: Study, spending: Spending) -> Study:
    """Return the study with the schedule and the design tolerance of a spending."""
    return replace(study, schedule=spending.schedule, design_tolerance=spending.design_tolerance)


def _descend(
    choices: dict[str, tuple[float, ...]], place: float, cost: Callable[[dict[str, float]], float]
) -> None:
    """Run two passes of coordinate descent, starting from the value at fraction `place` of each range.

    There is no return value: `cost` records every candidate that it evaluates.
    """
    best = {name: values[int(place * len(values))] for name, values in choices.items()}
    for _ in range(2):
        for name, values in choices.items():
            best = min(({**best, name: value} for value in values), key=cost)


def _spending(candidate: dict[str, float], participants: int, study: Study) -> Spending:
    schedule = Schedule.shared(
        participants,
        phases=min(int(candidate["phases"]), participants),
        first_length=int(candidate["first_length"]),
        growth=candidate["growth"],
        cohort_growth=candidate["cohort_growth"],
        maximum_cohort=study.schedule.maximum_cohort,
    )
    return Spending(schedule=schedule, design_tolerance=candidate["design_tolerance"])


def _sampled(actions: Actions) -> Actions:
    if actions.count <= _LARGEST_PLANNED:
        return actions
    chosen = np.random.default_rng(0).choice(actions.count, _LARGEST_PLANNED, replace=False)
    return Actions(actions.matrix[np.sort(chosen)])


@dataclass(frozen=True, kw_only=True)
class _Knowledge:
    """The errors of the estimate after a predicted phase.

    Attributes:
        covariance: C, the covariance of the estimate.
        level: The quantile √(2·log(1/β)), by which deviations are multiplied to get widths.
    """

    covariance: FloatArray
    level: float

    @cached_property
    def largest(self) -> float:
        """The largest √(v'Cv) over all unit vectors v."""
        return math.sqrt(float(np.linalg.eigvalsh(self.covariance)[-1]))

    def deviations(self, directions: FloatArray) -> FloatArray:
        """Return √(v'Cv) for each row v."""
        spread = np.einsum("ij,ij->i", directions @ self.covariance, directions)
        return np.asarray(np.sqrt(np.maximum(spread, 0)), dtype=np.float64)

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """Return the width for each row, as if all noise were sub-Gaussian."""
        return self.level * self.deviations(targets)

    def target_radius(self, targets: FloatArray) -> float:
        """Return √tr + level·√λ for the covariance of the errors, with trace tr and largest eigenvalue λ."""
        spectrum = np.linalg.eigvalsh(targets @ self.covariance @ targets.T)
        return float(np.sqrt(spectrum.sum()) + self.level * np.sqrt(spectrum[-1]))

    def survivors(self, gaps: FloatArray, to_best: FloatArray) -> tuple[NDArray[np.bool_], float]:
        """Return which gaps are within their widths, and the largest width among these."""
        # A difference of two actions has norm at most 2. So a gap above 2·level·largest exceeds its width,
        # and that width need not be computed.
        near = np.flatnonzero(gaps <= 2 * self.level * self.largest)
        widths = self.target_widths(to_best[near])
        within = gaps[near] <= widths
        kept = np.zeros(len(gaps), dtype=bool)
        kept[near[within]] = True
        return kept, float(widths[within].max(initial=0.0))


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A predicted phase: the actions that it plays, how often, and the errors of the estimate after it."""

    support: IntArray
    plays: FloatArray
    knowledge: _Knowledge


def _first_phase(study: Study) -> _Phase | None:
    return _phase(study, 1, np.arange(study.actions.count), None)


def _phase(study: Study, number: int, active: IntArray, before: _Knowledge | None) -> _Phase | None:
    """Return the predicted phase; None if it does not fit into the horizon or asks nobody."""
    if study.schedule.length(number) > study.horizon or not study.schedule.asks(number):
        return None
    design = _cached_design(study.actions, active.tobytes(), study.design_tolerance)
    plays = np.ceil(study.schedule.length(number) * design.weights - 1e-9)
    support = active[design.support]
    knowledge = _after(study, number, study.actions.matrix[support], plays, design.rank, before)
    return _Phase(support=support, plays=plays, knowledge=knowledge)


def _predict_one(study: Study, theta: FloatArray, first_phase: _Phase | None) -> Prediction:
    matrix = study.actions.matrix
    rewards = matrix @ theta
    gaps, to_best = rewards.max() - rewards, matrix[int(np.argmax(rewards))] - matrix
    active, known = np.arange(len(matrix)), list[_Knowledge]()
    regret, bound, rounds, first = 0.0, 0.0, 0.0, None
    worst = float(gaps.max())  # an upper bound on the cost of one play
    for number in range(1, study.schedule.reporting_phases(study.horizon) + 1):
        if len(active) == 1:  # no more regret
            rounds = min(float(study.horizon), rounds + study.schedule.length(number))
            continue
        phase = first_phase if number == 1 else _phase(study, number, active, known[-1])
        if phase is None or rounds + phase.plays.sum() > study.horizon:
            break
        known.append(phase.knowledge)
        rounds += float(phase.plays.sum())
        regret += float(gaps[phase.support] @ phase.plays)
        bound += worst * float(phase.plays.sum())
        within, widest = phase.knowledge.survivors(gaps[active], to_best[active])
        worst = min(worst, 2 * widest)
        kept = active[within]
        first = number if first is None and len(kept) < len(active) else first
        active = kept
    regret += (study.horizon - rounds) * _guess_regret(known, to_best[active], gaps[active])
    bound += (study.horizon - rounds) * (worst if len(active) > 1 else 0.0)
    return Prediction(
        regret=regret,
        bound=bound,
        rounds_asked=rounds,
        first_elimination=first,
        actions_left=float(len(active)),
    )


def _after(
    study: Study, phase: int, rows: FloatArray, plays: FloatArray, rank: int, before: _Knowledge | None
) -> _Knowledge:
    clients = study.schedule.cohort(phase)
    statistics = Statistics(rows=rows, plays=plays, heterogeneity=study.heterogeneity)
    reporting = choose(study, statistics, rank, clients, before)
    estimator, noise = reporting.estimator(study, rank, clients), reporting.deviation(study, clients)
    on_averages = reporting.statistics.weights_on_averages(estimator)
    factor = np.hstack([on_averages / np.sqrt(clients * plays), noise * estimator])
    return _Knowledge(
        covariance=factor @ factor.T + study.heterogeneity**2 / clients * np.eye(study.actions.dimension),
        level=math.sqrt(2 * math.log(1 / study.confidence)),
    )


def _guess_regret(known: Sequence[_Knowledge], to_best: FloatArray, gaps: FloatArray) -> float:
    """Return an upper bound on the expected regret of one round that plays the best guess.

    An action is the best guess with at most the probability that its estimate exceeds that of the best
    action. The guess uses all phases; their precisions in a direction add up.
    """
    if not known:
        return float(gaps.mean())
    precisions = sum(np.maximum(one.deviations(to_best), 1e-150) ** -2.0 for one in known)
    return float(np.minimum(gaps @ ndtr(-gaps * np.sqrt(precisions)), gaps.max()))


@lru_cache(maxsize=256)
def _cached_design(actions: Actions, active: bytes, tolerance: float) -> Design:
    return near_g_optimal(actions.matrix[np.frombuffer(active, dtype=np.int64)], tolerance=tolerance)
