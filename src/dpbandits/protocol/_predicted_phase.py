"""One phase of a predicted study: what it plays, and the errors of the estimate after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.actions import Actions
from dpbandits.design import near_g_optimal
from dpbandits.protocol._bitmap import packed, unpacked
from dpbandits.protocol._designs import MOST_COMPARED, WORTH, difference_design
from dpbandits.protocol._predicted_errors import PredictedErrors
from dpbandits.protocol._reporting import Statistics, choose
from dpbandits.protocol._study import Study

_MOST_NUMBERS = 10**7  # the size of a cache of phases, in entries of one matrix per phase
_TINY = 1e-50
_LARGE = 0.25  # a smaller part of the variance is not worth another design


@dataclass(frozen=True, kw_only=True)
class PredictedPhase:
    """A predicted phase: the actions that it plays, how often, and the errors of the estimate after it."""

    support: IntArray
    plays: FloatArray
    knowledge: PredictedErrors


def predicted_phase(
    study: Study, active: IntArray, known: Sequence[PredictedErrors], phases: PhaseCache
) -> PredictedPhase | None:
    """Return the next phase; None if it does not fit into the horizon or asks nobody.

    Args:
        study: The study.
        active: The actions that are left.
        known: What is known after each earlier phase.
        phases: The phases that were predicted before. The new one is added.
    """
    schedule, number = study.schedule, len(known) + 1
    if not schedule.asks(number) or schedule.length(number) > study.horizon:
        return None
    left = packed(active, study.actions.count)
    design = _usual_design(study.actions, left, study.design_tolerance)
    usual = _designed(study, design, known, phases)
    if study.objective == "regret" or not _worth_comparing(study, active, usual.knowledge):
        return usual
    other = difference_design(study.actions, left, study.design_tolerance)
    rows = study.actions.matrix[other.support]
    played = PlayedDesign(support=other.support, rows=rows, weights=other.weights, rank=other.rank)
    phase = _designed(study, played, known, phases)

    def widest(one: PredictedPhase) -> float:
        rows = study.actions.matrix[active]
        return float(np.max(one.knowledge.widths_between(rows, rows)))

    return phase if widest(phase) <= WORTH * widest(usual) else usual


def _worth_comparing(study: Study, active: IntArray, known: PredictedErrors) -> bool:
    """Return whether few actions are left, and plays are a large part of the variance of a difference."""
    if not 1 < len(active) <= MOST_COMPARED:
        return False
    rows = study.actions.matrix[active]
    of_plays = np.square((rows[1:] - rows[0]) @ known.of_plays).sum(axis=1)
    total = np.square(known.widths_between(rows[1:], rows[:1])[0] / known.level)
    return bool(np.max(of_plays / np.maximum(total, _TINY)) > _LARGE)


def _designed(
    study: Study, played: PlayedDesign, known: Sequence[PredictedErrors], phases: PhaseCache
) -> PredictedPhase:
    """Return the phase that plays a design."""
    number, before = len(known) + 1, known[-1] if known else None
    length, clients = study.schedule.length(number), study.schedule.cohort(number)
    key = (played, length, clients, before)
    if key not in phases:
        if len(phases) * study.actions.dimension**2 > _MOST_NUMBERS:
            phases.clear()
        knowledge = _knowledge(study, played, length, clients, before)
        phases[key] = PredictedPhase(support=played.support, plays=played.plays(length), knowledge=knowledge)
    return phases[key]


def _knowledge(
    study: Study, played: PlayedDesign, length: float, clients: int, before: PredictedErrors | None
) -> PredictedErrors:
    """Return the errors of the estimate after a phase.

    The average of one client has heavier tails than a stated variance suggests, and is clipped accordingly.
    The mean over the cohort is nearly normal, with that variance.
    """
    statistics, rank = played.statistics(length, study), played.rank
    reporting = choose(study, statistics, rank, clients, before)
    estimator = reporting.estimator(study, rank, clients)
    plays = clients * played.plays(length) / (study.reward_variance or 1.0)
    of_plays = reporting.statistics.weights_on_averages(estimator) / np.sqrt(plays)
    level, deviation = math.sqrt(2 * math.log(1 / study.bound_failure)), reporting.deviation(study, clients)
    private = study.privacy.trust_model.private
    wide = max(deviation, reporting.width(study, clients) / level) if private else 0.0
    common = study.heterogeneity**2 / clients
    return PredictedErrors(
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
class PlayedDesign:
    """A design, and the statistics of the phases that play it, by their length."""

    support: IntArray
    rows: FloatArray
    weights: FloatArray
    rank: int
    _statistics: dict[tuple[float, float, float], Statistics] = field(default_factory=dict)

    def plays(self, length: float) -> FloatArray:
        """Return how often each supported action is played in a phase."""
        return np.asarray(np.ceil(length * self.weights - 1e-9), dtype=np.float64)

    def statistics(self, length: float, study: Study) -> Statistics:
        """Return the statistics of a phase. Equal phases share one object, with all values that it keeps.

        A play of smaller variance counts as several plays, as in the phase itself.
        """
        plays = self.plays(length)
        proxy = study.proxy_of_average(float(plays.min()))
        key = (length, study.heterogeneity, proxy)
        if key not in self._statistics:
            self._statistics[key] = Statistics(
                rows=self.rows, plays=plays / proxy, heterogeneity=study.heterogeneity
            )
        return self._statistics[key]


@lru_cache(maxsize=2048)  # about as many sets of actions are left in all phases of one search
def _usual_design(actions: Actions, active: bytes, tolerance: float) -> PlayedDesign:
    left = unpacked(active, actions.count)
    rows = actions.matrix[left]
    design = near_g_optimal(rows, tolerance=tolerance)
    support = design.support
    return PlayedDesign(support=left[support], rows=rows[support], weights=design.weights, rank=design.rank)


PhaseCache = dict[tuple[PlayedDesign, float, int, PredictedErrors | None], PredictedPhase]
"""The phases that were predicted so far, by their design, length, cohort and what was known before."""
