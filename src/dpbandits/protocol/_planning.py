"""`plan_study`: searches for the schedule of a budget of participants with the least predicted cost.

The cost is the regret or, with the objective "identification", the number of clients until one action is left
or the best guess is near enough (`Study.stop_gap`). `_prediction.py` predicts the cost.

The search is a coordinate descent over the number of phases, their lengths and cohorts, and the tolerance of
the designs. It starts from plans with one, three and four cohorts, or with four and fourteen for the
objective "identification".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol._predicted_phase import PhaseCache
from dpbandits.protocol._prediction import SEARCH_DRAWS, predicted_costs
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol._study import Study

# By number of phases, how many draws of θ* are used to compare a candidate with the best so far: at first; if
# it is not much worse; and when the search is refined. Rare near ties need many draws. All draws share the
# first phase, so more draws fit into the same time for a plan with few phases.
_DRAWS = {1: (48, 96, 128), 2: (16, 40, 80)}
_FEWEST_DRAWS = (8, 20, 48)
_FIRST, _MORE, _REFINING = 0, 1, 2
_MUCH_WORSE = 1.3
# With few draws, candidates with many phases may be ranked wrongly. So the search is refined around the best
# of `_NEAR` candidates by more draws, and the best `_COMPARED` candidates are compared at the end by all
# draws.
_NEAR, _COMPARED = 6, 6
_MISSES = 2  # the search along one coordinate ends after this many values in a row that are not better
_LARGEST_PLANNED = 20_000  # with more actions than this, planning uses a random sample of them
_WORTH = 0.01  # a cohort is dropped if the cost without it is at most this share larger
# The search starts from a plan for much noise, a plan for little noise, and one in between. Each has: phases,
# first length ÷ dimension, growth of the lengths, tolerance of the designs.
_STARTS = ((1, 5, 2.0, 1.3), (4, 1, 4.0, 2.0), (3, 24, 2.0, 1.3))
_IDENTIFYING = ((4, 100, 4.0, 1.3), (14, 250, 1.1, 1.3))
_LONGEST = 0.25  # the longest first phase, as a share of the horizon

Candidate = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Spending:
    """How a budget of participants is spent.

    Attributes:
        schedule: The length and the cohort of each phase.
        design_tolerance: See `Study`.
    """

    schedule: Schedule
    design_tolerance: float


@lru_cache(maxsize=64)  # a search takes seconds, and a study is often planned, written and then run
def budgeted(study: Study, participants: int) -> Spending:
    """Search for the spending with the least predicted cost, by coordinate descent.

    Args:
        study: The study. Its schedule is used only for `maximum_cohort`.
        participants: How many clients may be asked.

    Returns:
        The best spending that was found. Its cohorts add up to `participants`; `maximum_cohort` may cut them.
    """
    from threadpoolctl import threadpool_limits  # imported here because only a search needs it

    search = _Search(study=replace(study, actions=_sampled(study.actions)), participants=participants)
    # The matrices are small: several BLAS threads would not be faster, and they round differently.
    with threadpool_limits(limits=1):
        for start in _STARTS if study.objective == "regret" else _IDENTIFYING:
            search.descend(*start)
        search.refine()
        return search.best()


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

    The result has the schedule with the least predicted regret for `participants` clients. With the objective
    "identification", it has the schedule that is predicted to need the fewest clients until the study is
    sure. The search uses public information only, and its result is part of the study. Example:

        study = plan_study(actions=actions, horizon=10**6, participants=5000, privacy=privacy)
        study.schedule.cohorts    # for instance (3000, 2000)

    Args:
        actions: The actions that can be played.
        horizon: The total number of rounds.
        participants: How many clients may be asked, each of them once.
        privacy: The trust model and (ε, δ); without it, reports are not protected.
        design_tolerance: Fixes `Study.design_tolerance`. If None, it is planned too.
        settings: Other fields of `Study`. `bounded_rewards` defaults to False here: single rewards may lie
            outside [−bound, bound].

    Returns:
        A `Study` with explicit cohorts.

    Raises:
        InvalidValue: A value is out of range, or `schedule` is given.
        NotEnoughClients: The population is too small for `participants`, the fit test and the confirmation.
        PrivacyError: No mechanism meets the requested privacy.

    Example:
        >>> import dpbandits as dp
        >>> actions = dp.Actions([[1, 0], [0, 1], [0.6, 0.6]])
        >>> study = dp.plan_study(actions=actions, horizon=1000, participants=200)
        >>> sum(study.schedule.cohorts)
        200
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
    """Return the study with the schedule and the design tolerance of a spending.

    Args:
        study: The study.
        spending: The spending, from `budgeted`.
    """
    return replace(study, schedule=spending.schedule, design_tolerance=spending.design_tolerance)


@dataclass(kw_only=True)
class _Search:
    """A search for the best spending, with the predictions of all candidates so far.

    Attributes:
        study: The study.
        participants: How many clients may be asked.
        known: The predicted cost of each spending for each draw of θ* so far, and the weights of the draws.
        origins: The candidate of each spending.
        found: The best candidate of each descent.
        phases: The predicted phases so far; many candidates begin with the same ones.
    """

    study: Study
    participants: int
    known: dict[Spending, tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    origins: dict[Spending, Candidate] = field(default_factory=dict)
    found: list[Candidate] = field(default_factory=list)
    phases: PhaseCache = field(default_factory=dict)

    def choices(self) -> dict[str, tuple[float, ...]]:
        """Return the values of each coordinate that are tried."""
        rank = self.study.actions.dimension
        longest = max(rank, _LONGEST * self.study.horizon)
        factors = (1, 1.5, 2, 3, 5, 8, 12, 24, 50, 100, 250, 600, 1500, 4000, 10_000)
        lengths = [math.ceil(factor * rank) for factor in factors if factor * rank <= longest]
        identify = self.study.objective == "identification"
        return {
            "first_length": tuple(lengths),
            "cohort_growth": (0.6, 1.0, 1.5) if identify else (0.12, 0.2, 0.35, 0.6, 1.0, 1.5, 3.0),
            "growth": (1.1, 1.5, 2, 4, 8) if identify else (2, 4, 8, 16, 40),
            "phases": (1, 2, 3, 4, 6, 9, 14) if identify else (1, 2, 3, 4, 6),
            "design_tolerance": (1.3,) if identify else (1.3, 1.6, 2.0),
        }

    def cost(self, spending: Spending, draws: int) -> float:
        """Return the mean of the predicted cost over the first `draws` draws."""
        costs, weights = self.known.get(spending, (np.zeros(0), np.zeros(0)))
        if len(costs) < draws:
            more = predicted_costs(spent(self.study, spending), len(costs), draws, self.phases)
            costs, weights = np.append(costs, more[0]), np.append(weights, more[1])
            self.known[spending] = costs, weights
        return float(np.average(costs[:draws], weights=weights[:draws]))

    def improves(self, spending: Spending, best: Spending, stage: int) -> bool:
        """Return whether a spending is better than the best so far. Few draws suffice if it is much worse."""
        draws = _DRAWS.get(len(spending.schedule.cohorts or ()), _FEWEST_DRAWS)
        if self.cost(spending, draws[_FIRST]) > _MUCH_WORSE * self.cost(best, draws[_FIRST]):
            return False
        return self.cost(spending, draws[stage]) < self.cost(best, draws[stage])

    def descend(self, phases: int, factor: int, growth: float, tolerance: float) -> None:
        """Run two passes of coordinate descent from a plan with equal cohorts."""
        choices = self.choices()
        wanted = factor * self.study.actions.dimension
        best: Candidate = {
            "first_length": max(one for one in choices["first_length"] if one <= wanted),
            "cohort_growth": 1.0,
            "growth": growth,
            "phases": phases,
            "design_tolerance": tolerance,
        }
        for _ in range(2):
            before = best
            for name, values in choices.items():
                best = self.along(best, name, values, _MORE)
            if best == before:
                break
        self.found.append(best)

    def along(self, start: Candidate, name: str, values: tuple[float, ...], stage: int) -> Candidate:
        """Return the best candidate that is found by walking up and down the values of one coordinate."""
        best, place = start, values.index(start[name])
        for walk in (values[place + 1 :], values[:place][::-1]):
            misses = 0
            for value in walk:
                candidate = {**start, name: value}
                better = self.improves(self.spending(candidate), self.spending(best), stage)
                best, misses = (candidate, 0) if better else (best, misses + 1)
                if misses == _MISSES:
                    break
        return best

    def refine(self) -> None:
        """Search again around the best candidate along two coordinates, with more draws."""
        near = [*self.nearest(_NEAR, _FEWEST_DRAWS[_MORE]), *map(self.spending, self.found)]
        best = self.origins[min(near, key=lambda one: self.cost(one, _FEWEST_DRAWS[_REFINING]))]
        for name in ("first_length", "design_tolerance"):
            best = self.along(best, name, self.choices()[name], _REFINING)

    def nearest(self, count: int, draws: int) -> list[Spending]:
        """Return the best spendings by `draws` draws, among those for which as many draws were predicted."""
        found = [one for one, (costs, _) in self.known.items() if len(costs) >= draws]
        return sorted(found, key=lambda one: self.cost(one, draws))[:count]

    def best(self) -> Spending:
        """Return the best spending by `SEARCH_DRAWS` draws, without cohorts that do not help."""
        near = self.nearest(_COMPARED, _FEWEST_DRAWS[_REFINING])
        best = min(near, key=lambda one: self.cost(one, SEARCH_DRAWS))
        most = self.cost(best, SEARCH_DRAWS) * (1 + _WORTH)
        while fewer := [one for one in _fewer_cohorts(best) if self.cost(one, SEARCH_DRAWS) <= most]:
            best = min(fewer, key=lambda one: self.cost(one, SEARCH_DRAWS))
        return best

    def spending(self, candidate: Candidate) -> Spending:
        """Return the spending of a candidate."""
        phases = min(int(candidate["phases"]), self.participants)
        schedule = Schedule.shared(
            self.participants,
            phases=phases,
            first_length=int(candidate["first_length"]),
            growth=candidate["growth"] if phases > 1 else 2.0,  # one value, so that equal plans are equal
            cohort_growth=candidate["cohort_growth"],
            maximum_cohort=self.study.schedule.maximum_cohort,
        )
        spending = Spending(schedule=schedule, design_tolerance=candidate["design_tolerance"])
        self.origins[spending] = candidate
        return spending


def _fewer_cohorts(spending: Spending) -> Iterator[Spending]:
    """Yield the spending without its first or last cohort, whose clients join the largest of the others."""
    schedule = spending.schedule
    cohorts = schedule.cohorts or ()
    if len(cohorts) < 2:
        return
    for rest, dropped, first in (
        (cohorts[:-1], cohorts[-1], schedule.first_length),
        (cohorts[1:], cohorts[0], schedule.length(2)),
    ):
        largest = rest.index(max(rest))
        joined = tuple(size + dropped * (place == largest) for place, size in enumerate(rest))
        yield replace(spending, schedule=replace(schedule, cohorts=joined, first_length=first))


def _sampled(actions: Actions) -> Actions:
    if actions.count <= _LARGEST_PLANNED:
        return actions
    chosen = np.random.default_rng(0).choice(actions.count, _LARGEST_PLANNED, replace=False)
    return Actions(actions.matrix[np.sort(chosen)])
