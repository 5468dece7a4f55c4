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
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpbandits.actions import Actions
from dpbandits.checks import one_of, whole
from dpbandits.design import Design, near_g_optimal
from dpbandits.privacy import PrivacyRequest
from dpbandits.privacy.accounting import gaussian_noise_ratio
from dpbandits.protocol.clipping import clip_radius, residual_deviations
from dpbandits.protocol.estimation import LeastSquares
from dpbandits.protocol.schedule import Schedule
from dpbandits.protocol.study import Study

FloatArray = NDArray[np.float64]

_DRAWS = 6
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
    return _mean([_predict_one(study, theta) for theta in thetas])


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
            tried = replace(study, schedule=spending.schedule, design_tolerance=spending.design_tolerance)
            known[key] = predict(tried).regret
        return known[key]

    found = [_descend(choices, place, cost) for place in (0.2, 0.5)]
    return _spending(min(found, key=cost), participants, study)


def _descend(
    choices: dict[str, tuple[float, ...]], place: float, cost: Callable[[dict[str, float]], float]
) -> dict[str, float]:
    """From a point at `place` of every range, the best value of one parameter after the other, twice."""
    best = {name: values[int(place * len(values))] for name, values in choices.items()}
    for _ in range(2):
        for name, values in choices.items():
            best = min(({**best, name: value} for value in values), key=cost)
    return best


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

    estimator: LeastSquares
    variances: FloatArray  # of the mean of each supported action
    client_variance: float
    level: float

    def deviations(self, directions: FloatArray) -> FloatArray:
        """√(v'Cv) of each row."""
        spread = ((directions @ self.estimator.map) ** 2) @ self.variances
        spread += self.client_variance * np.einsum("ij,ij->i", directions, directions)
        return np.asarray(np.sqrt(spread), dtype=np.float64)

    def widths(self, directions: FloatArray) -> FloatArray:
        """As if all noise were sub-Gaussian."""
        return self.level * self.deviations(directions)


def _predict_one(study: Study, theta: FloatArray) -> Prediction:
    matrix = study.actions.matrix
    rewards = matrix @ theta
    gaps, to_best = rewards.max() - rewards, matrix[int(np.argmax(rewards))] - matrix
    active, known = np.arange(len(matrix)), list[_Knowledge]()
    regret, bound, rounds, first = 0.0, 0.0, 0.0, None
    worst = float(gaps.max())  # what a play may cost, as far as is known
    for phase in range(1, study.schedule.reporting_phases(study.horizon) + 1):
        design = _cached_design(study.actions, active.tobytes(), study.design_tolerance)
        plays = np.ceil(study.schedule.length(phase) * design.weights - 1e-9)
        if rounds + plays.sum() > study.horizon:
            break
        before = known[-1] if known else None
        known.append(_after(study, phase, matrix[active[design.support]], plays, design.rank, before))
        rounds += float(plays.sum())
        regret += float(gaps[active[design.support]] @ plays)
        bound += worst * float(plays.sum())
        widths = known[-1].widths(to_best[active])
        worst = min(worst, 2 * float(widths.max()))
        kept = active[gaps[active] <= widths]
        first = phase if first is None and len(kept) < len(active) else first
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
    bound = study.bound
    if study.learning.recentred:
        deviations = residual_deviations(rows, plays, study.heterogeneity)
        around_zero = clip_radius(np.full(len(rows), study.bound), deviations)
        bound = min(bound, around_zero) if study.bounded_rewards else around_zero
        if before is not None:
            bound = min(bound, clip_radius(before.widths(rows), deviations))
    noise = typical_deviation(study.privacy, support=len(rows), clients=clients, bound=bound)
    variances = 1 / (clients * plays) + noise**2
    return _Knowledge(
        estimator=LeastSquares.weighted(rows, 1 / variances, rank),
        variances=variances,
        client_variance=study.heterogeneity**2 / clients,
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


def typical_deviation(request: PrivacyRequest, *, support: int, clients: int, bound: float) -> float:
    """The error of each mean, by the mechanism's formula and not a calibration: good to a few percent."""
    if request.trust == "none":
        return 0.0
    noise, diameter = request.mechanism_noise, 2 * bound
    if noise == "k-norm":
        on_sum = diameter * math.sqrt((support + 1) * (support + 2) / 3) / request.epsilon
    elif noise in ("laplace", "polya"):
        on_sum = diameter * math.sqrt(2) * support / request.epsilon
    else:
        on_sum = diameter * math.sqrt(support) * gaussian_noise_ratio(request.epsilon, request.delta)
    if request.trust == "local":
        return on_sum / math.sqrt(clients)
    shares = (1 - request.silent_share) * request.minimum_share if request.trust == "shuffle" else 1.0
    return on_sum / clients / math.sqrt(shares)


@lru_cache(maxsize=256)
def _cached_design(actions: Actions, active: bytes, tolerance: float) -> Design:
    return near_g_optimal(actions.matrix[np.frombuffer(active, dtype=np.int64)], tolerance=tolerance)
