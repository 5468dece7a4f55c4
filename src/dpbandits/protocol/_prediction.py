"""`predict`: predicts the regret of a study before any client is asked.

Actions, horizon and noise are public, but θ* is not known. So regret is predicted for some θ* drawn from a
prior, the uniform distribution on the unit sphere (`_near_ties.py`). No reward is drawn. The prediction
assumes that an action is dropped in the first phase in which its gap exceeds its width. It assumes that the
errors of estimates are normal, with a random scale if the noise has heavier tails (`_heavy_tails.py`). The
expected gap of the best guess at the end is estimated without bias (`_best_guess.py`). No guarantee depends
on a prediction: it is used only to choose the schedule.

The prediction follows the phases for each θ* (`_predicted_paths.py`, `_predicted_phase.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.protocol._predicted_paths import PredictedRun, drawn_truths, outcomes_of
from dpbandits.protocol._predicted_phase import PhaseCache
from dpbandits.protocol._study import Study

DRAWS = 512
"""How many θ* are drawn by default. Rare near ties need many."""

SEARCH_DRAWS = 128
"""How many θ* a search uses at most to compare schedules. All schedules have the same draws of errors."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The expected cost of a study.

    Attributes:
        regret: The expected regret over the horizon.
        median_regret: The median of the regret. It is far below the mean if rare errors cost much.
        chance_of_best: The probability that the best guess at the end is the best action.
        expected_gap: The expected gap of the best guess at the end: what each later round would lose.
        bound: The upper bound of the regret that the widths prove. It holds with probability 1 − 5L/T or, if
            the study has one, with its `confidence`. Until an action is dropped, each play of it may cost
            twice the largest width of a difference in the previous phase. The same holds for the best guess
            at the end.
        rounds_asked: The rounds of all phases that ask clients.
        first_elimination: The first phase that is expected to drop an action; None if no phase is.
        actions_left: How many actions are expected to be left at the end.
        participants: How many clients are expected to be asked until one action is left, until the best guess
            is certain to be within `Study.stop_gap` of the best action, or until all planned clients were
            asked. Without `Study.stop_when_decided` the study also asks the remaining clients.
        chance_of_sure: The probability that one action is left in the end, or that the best guess is certain
            to be within `Study.stop_gap` of the best action.
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
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import predict
        >>> predict(examples.study(), draws=2).regret > 0
        True
    """
    study.require_one_cohort("a prediction")
    truths = drawn_truths(study.actions, whole(1, draws=draws), seed)
    return _summary(study, outcomes_of(study, truths, np.arange(draws), {}), truths.weights)


def predicted_costs(study: Study, first: int, last: int, phases: PhaseCache) -> tuple[FloatArray, FloatArray]:
    """Return the predicted cost of the draws `first` … `last` − 1 of `predict`, and their weights.

    The cost is the regret or, with the objective "identification", the number of clients until one action is
    left or the best guess is near enough. If that does not happen, it is the number of all planned clients.

    The draws are those of `predict` with seed 0, at most the first `SEARCH_DRAWS`. A search can compare
    schedules with few draws and add more later. `phases` keeps the phases that were predicted before, for
    studies that differ only in their schedule and design tolerance.
    """
    truths = drawn_truths(study.actions, SEARCH_DRAWS, 0)
    outcomes = outcomes_of(study, truths, np.arange(first, last), phases)
    if study.objective == "regret":
        return np.array([one.total(study) for one in outcomes]), truths.weights[first:last]
    everybody = sum(study.schedule.cohorts or (study.schedule.participants(study.horizon),))
    costs = [one.participants if one.sure else everybody for one in outcomes]
    return np.array(costs, dtype=np.float64), truths.weights[first:last]


def _summary(study: Study, outcomes: Sequence[PredictedRun], weights: FloatArray) -> Prediction:
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


def _median(study: Study, outcomes: Sequence[PredictedRun], weights: FloatArray) -> float:
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
