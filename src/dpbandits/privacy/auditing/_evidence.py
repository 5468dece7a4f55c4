"""Statistical evidence: what scores from two worlds prove about (ε, δ), without assumptions.

If a view is (ε, δ)-private, then for every score and every threshold hits ≤ e^ε·(false alarms) + δ. A
threshold is chosen on one half of the plays. On the other half, which is independent of that choice, exact
intervals (Clopper and Pearson) bound hits from below and false alarms from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainccinv, betaincinv

from dpbandits._arrays import FloatArray, IntArray

Worlds = tuple[FloatArray, FloatArray]
"""Sorted scores: those of the world to be recognised, and those of the other world."""

_MOST_THRESHOLDS = 512
_LARGEST_EXPONENT = 700.0


def lower_limit(hits: IntArray, plays: int, tail: float) -> FloatArray:
    """Return a lower confidence limit: it exceeds the true probability with probability ≤ `tail`.

    (Clopper and Pearson 1934.)
    """
    return np.asarray(np.where(hits > 0, betaincinv(np.maximum(hits, 1), plays - hits + 1, tail), 0.0))


def upper_limit(hits: IntArray, plays: int, tail: float) -> FloatArray:
    """Return an upper confidence limit: it is below the true probability with probability ≤ `tail`."""
    all_hit = hits >= plays
    return np.asarray(np.where(all_hit, 1.0, betainccinv(hits + 1, np.maximum(plays - hits, 1), tail)))


def _limits(thresholds: FloatArray, worlds: Worlds, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return lower limits of hits and upper limits of false alarms, for each threshold.

    A score at or above the threshold raises the alarm.
    """
    hits, alarms = (len(world) - np.searchsorted(world, thresholds, side="left") for world in worlds)
    return lower_limit(hits, len(worlds[0]), tail), upper_limit(alarms, len(worlds[1]), tail)


@dataclass(frozen=True, kw_only=True)
class AlarmLimits:
    """Confidence limits at one threshold.

    Attributes:
        hits: A lower limit of the probability of an alarm in the world to be recognised.
        alarms: An upper limit of the probability of an alarm in the other world.
    """

    hits: float
    alarms: float

    def delta(self, epsilon: float) -> float:
        """Return a lower bound on δ(ε) of the view; a negative one proves nothing."""
        return self.hits - _factor(epsilon) * self.alarms

    def epsilon(self, delta: float) -> float:
        """Return a lower bound on ε at this δ; zero proves nothing."""
        return max(0.0, math.log((self.hits - delta) / self.alarms)) if self.hits > delta else 0.0


def _factor(epsilon: float) -> float:
    """Return e^ε, capped so that it does not overflow."""
    return math.exp(min(epsilon, _LARGEST_EXPONENT))


@dataclass(frozen=True, kw_only=True)
class AuditEvidence:
    """Plays that choose a threshold, and plays that test it.

    Attributes:
        chosen_on: The plays on which the threshold is chosen.
        tested_on: The plays on which it is tested.
        tail: The probability with which each limit may be wrong.
    """

    chosen_on: Worlds
    tested_on: Worlds
    tail: float

    @staticmethod
    def of(recognised: FloatArray, other: FloatArray, tail: float) -> AuditEvidence:
        """Split the plays: the first half chooses, the second half tests."""
        middle = len(recognised) // 2
        return AuditEvidence(
            chosen_on=(np.sort(recognised[:middle]), np.sort(other[:middle])),
            tested_on=(np.sort(recognised[middle:]), np.sort(other[middle:])),
            tail=tail,
        )

    def about_delta(self, epsilon: float) -> AlarmLimits:
        """Return the limits at the threshold that promises the largest δ at this ε."""
        return self._tested(lambda hits, alarms: hits - _factor(epsilon) * alarms)

    def about_epsilon(self, delta: float) -> AlarmLimits:
        """Return the limits at the threshold that promises the largest ε at this δ."""
        return self._tested(lambda hits, alarms: np.maximum(hits - delta, 0) / alarms)

    def _tested(self, worth: Callable[[FloatArray, FloatArray], FloatArray]) -> AlarmLimits:
        """Return the limits on the second half, at the threshold with the largest worth on the first half."""
        candidates = np.unique(np.concatenate(self.chosen_on))
        # Any choice of candidates is valid; a few hundred quantiles find nearly the best one.
        if len(candidates) > _MOST_THRESHOLDS:
            candidates = candidates[np.linspace(0, len(candidates) - 1, _MOST_THRESHOLDS).astype(np.int64)]
        best = int(np.argmax(worth(*_limits(candidates, self.chosen_on, self.tail))))
        hits, alarms = _limits(candidates[best : best + 1], self.tested_on, self.tail)
        return AlarmLimits(hits=float(hits[0]), alarms=float(alarms[0]))
