"""How to spend a budget of participants: predict the regret of a schedule, and find a good one.

Actions, horizon and noise are public, θ* is not. So regret is predicted for a few θ* drawn from a prior, the
uniform law on the unit sphere, without drawing any reward: in each phase an action is taken to fall when
its gap exceeds its width, and the best guess at the end is wrong with the probability that a normal error of
the last phase's variance makes it so. Nothing rests on the prediction but the choice of the schedule.
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
# Candidates are searched for with few draws, among which a near tie may stand out; the best of them are
# compared with all draws.
_SEARCH_DRAWS, _COMPARED = 12, 20
_LARGEST_PLANNED = 20_000  # of more actions a sample is planned for


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a study is expected to cost. `first_elimination` is a phase, None if none is ever expected.

    `bound` is what the widths prove, with probability 1 − 5L/T: until an action falls it may cost twice the
    widest difference of the phase before, and the best guess at the end as much.
    """

    regret: float
    bound: float
    rounds_asked: float
    first_elimination: int | None
    actions_left: float


def predict(study: Study, *, draws: int = _DRAWS, seed: int = 0) -> Prediction:
    """The mean over a few θ* of the prior."""
    one_of(("everyone",), assignment=study.assignment)
    rng = np.random.default_rng(seed)
    thetas = rng.standard_normal((whole(1, draws=draws), study.actions.dimension))
    thetas /= np.linalg.norm(thetas, axis=1, keepdims=True)
    first = _first_phase(study)  # the same whatever θ* is
    return _mean([_predict_one(study, theta, first) for theta in thetas])


def _mean(parts: Sequence[Prediction]) -> Prediction:
    firsts = [part.first_elimination for part in parts if part.first_elimination is not None]
    return Prediction(
        regret=float(np.mean([part.regret for part in parts])),
        bound=float(np.mean([part.bound for part in parts])),
        rounds_asked=float(np.mean([part.rounds_asked for part in parts])),
        first_elimination=min(firsts, default=None),
        actions_left=float(np.mean([part.actions_left for part in parts])),
    )


@dataclass(frozen=True, kw_only=True)
class Spending:
    """How a budget is spent: over which phases, and on designs of which tolerance."""

    schedule: Schedule
    design_tolerance: float


def budgeted(study: Study, participants: int) -> Spending:
    """What has the least predicted regret for so many participants, by search one parameter at a time."""
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

    The plan is the schedule with the least predicted regret for `participants` clients. It depends on public
    things only, and it is part of the study. Example:

        study = plan_study(actions=actions, horizon=10**6, participants=5000, privacy=privacy)
        study.schedule.cohorts    # for instance (3000, 2000)

    Args:
        actions: What can be played.
        horizon: How many rounds are played in all.
        participants: How many clients may be asked, each of them once.
        privacy: The trust model and (ε, δ); without it nothing is protected.
        design_tolerance: Fixes that setting of the design, which is planned otherwise.
        settings: Other fields of `Study`. Unless `bounded_rewards` is given, single rewards may lie outside
            [−bound, bound].

    Returns:
        A `Study` with explicit cohorts.

    Raises:
        InvalidValue: A value cannot be used.
        NotEnoughClients: The population is smaller than `participants`.
    """
    whole(1, participants=participants)
    if "schedule" in settings:
        raise InvalidValue("schedule", settings["schedule"], "none: it is what is planned")
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
    """The study with its participants spent like this."""
    return replace(study, schedule=spending.schedule, design_tolerance=spending.design_tolerance)


def _descend(
    choices: dict[str, tuple[float, ...]], place: float, cost: Callable[[dict[str, float]], float]
) -> None:
    """Ask for costs: from a point at `place` of every range, the best of one parameter after the other."""
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
    """What a predicted phase teaches: how far estimates may be off after it."""

    covariance: FloatArray
    level: float

    @cached_property
    def largest(self) -> float:
        """√(v'Cv) of any unit vector is at most this."""
        return math.sqrt(float(np.linalg.eigvalsh(self.covariance)[-1]))

    def deviations(self, directions: FloatArray) -> FloatArray:
        """√(v'Cv) of each row."""
        spread = np.einsum("ij,ij->i", directions @ self.covariance, directions)
        return np.asarray(np.sqrt(np.maximum(spread, 0)), dtype=np.float64)

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """As if all noise were sub-Gaussian."""
        return self.level * self.deviations(targets)

    def target_radius(self, targets: FloatArray) -> float:
        """√tr + level·√λ of the errors' covariance."""
        spectrum = np.linalg.eigvalsh(targets @ self.covariance @ targets.T)
        return float(np.sqrt(spectrum.sum()) + self.level * np.sqrt(spectrum[-1]))

    def survivors(self, gaps: FloatArray, to_best: FloatArray) -> tuple[NDArray[np.bool_], float]:
        """Which gaps are within their widths, and the largest width among these."""
        # No difference is longer than two: most need no width of their own to be seen to be small.
        near = np.flatnonzero(gaps <= 2 * self.level * self.largest)
        widths = self.target_widths(to_best[near])
        within = gaps[near] <= widths
        kept = np.zeros(len(gaps), dtype=bool)
        kept[near[within]] = True
        return kept, float(widths[within].max(initial=0.0))


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """What a predicted phase plays, and what is known after it."""

    support: IntArray
    plays: FloatArray
    knowledge: _Knowledge


def _first_phase(study: Study) -> _Phase | None:
    return _phase(study, 1, np.arange(study.actions.count), None)


def _phase(study: Study, number: int, active: IntArray, before: _Knowledge | None) -> _Phase | None:
    """None if it does not fit into the horizon."""
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
    worst = float(gaps.max())  # what a play may cost, as far as is known
    for number in range(1, study.schedule.reporting_phases(study.horizon) + 1):
        if len(active) == 1:  # nothing is left to be lost
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
    """What a round of the best guess is expected to cost: each action leads with at most its own chance.

    The guess is made from all phases; their precisions in a direction add up.
    """
    if not known:
        return float(gaps.mean())
    precisions = sum(np.maximum(one.deviations(to_best), 1e-150) ** -2.0 for one in known)
    return float(np.minimum(gaps @ ndtr(-gaps * np.sqrt(precisions)), gaps.max()))


@lru_cache(maxsize=256)
def _cached_design(actions: Actions, active: bytes, tolerance: float) -> Design:
    return near_g_optimal(actions.matrix[np.frombuffer(active, dtype=np.int64)], tolerance=tolerance)
