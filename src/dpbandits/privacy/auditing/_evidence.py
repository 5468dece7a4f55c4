"""What scores of two worlds prove about (ε, δ), at a stated confidence and without any assumption.

If a view is (ε, δ)-private, then no threshold on no score has hits > e^ε·(false alarms) + δ. A threshold is
chosen on one half of the plays; on the other half, which knows nothing of that choice, hits are bounded
from below and false alarms from above by Clopper and Pearson's exact intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betainccinv, betaincinv

from dpbandits._arrays import FloatArray, IntArray

Worlds = tuple[FloatArray, FloatArray]
"""Sorted scores: of the world to be recognised, and of the other one."""

_MOST_THRESHOLDS = 512
_LARGEST_EXPONENT = 700.0


def lower_limit(hits: IntArray, plays: int, tail: float) -> FloatArray:
    """A chance is below this with probability at most `tail` (Clopper and Pearson 1934)."""
    return np.asarray(np.where(hits > 0, betaincinv(np.maximum(hits, 1), plays - hits + 1, tail), 0.0))


def upper_limit(hits: IntArray, plays: int, tail: float) -> FloatArray:
    """A chance is above this with probability at most `tail`."""
    all_hit = hits >= plays
    return np.asarray(np.where(all_hit, 1.0, betainccinv(hits + 1, np.maximum(plays - hits, 1), tail)))


def _limits(thresholds: FloatArray, worlds: Worlds, tail: float) -> tuple[FloatArray, FloatArray]:
    """Hits from below and false alarms from above, when scores from each threshold on raise the alarm."""
    hits, alarms = (len(world) - np.searchsorted(world, thresholds, side="left") for world in worlds)
    return lower_limit(hits, len(worlds[0]), tail), upper_limit(alarms, len(worlds[1]), tail)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """At some threshold there are at least so many hits and at most so many false alarms."""

    hits: float
    alarms: float

    def delta(self, epsilon: float) -> float:
        """The view is not (ε, δ)-private for any δ below this. If it is negative, nothing is shown."""
        return self.hits - _factor(epsilon) * self.alarms

    def epsilon(self, delta: float) -> float:
        """The view is not (ε, δ)-private for any ε below this. If it is zero, nothing is shown."""
        return max(0.0, math.log((self.hits - delta) / self.alarms)) if self.hits > delta else 0.0


def _factor(epsilon: float) -> float:
    return math.exp(min(epsilon, _LARGEST_EXPONENT))


@dataclass(frozen=True, kw_only=True)
class AuditEvidence:
    """Plays to choose a threshold on and plays to test it on; each limit may err with chance `tail`."""

    chosen_on: Worlds
    tested_on: Worlds
    tail: float

    @staticmethod
    def of(recognised: FloatArray, other: FloatArray, tail: float) -> AuditEvidence:
        """The first half of the plays chooses, the second one tests."""
        middle = len(recognised) // 2
        return AuditEvidence(
            chosen_on=(np.sort(recognised[:middle]), np.sort(other[:middle])),
            tested_on=(np.sort(recognised[middle:]), np.sort(other[middle:])),
            tail=tail,
        )

    def about_delta(self, epsilon: float) -> Limits:
        """At the threshold that promises to show the largest δ at this ε."""
        return self._tested(lambda hits, alarms: hits - _factor(epsilon) * alarms)

    def about_epsilon(self, delta: float) -> Limits:
        """At the threshold that promises to show the largest ε at this δ."""
        return self._tested(lambda hits, alarms: np.maximum(hits - delta, 0) / alarms)

    def _tested(self, worth: Callable[[FloatArray, FloatArray], FloatArray]) -> Limits:
        """The limits on the second half, at the threshold that is worth most on the first half."""
        candidates = np.unique(np.concatenate(self.chosen_on))
        if len(candidates) > _MOST_THRESHOLDS:
            candidates = candidates[np.linspace(0, len(candidates) - 1, _MOST_THRESHOLDS).astype(np.int64)]
        best = int(np.argmax(worth(*_limits(candidates, self.chosen_on, self.tail))))
        hits, alarms = _limits(candidates[best : best + 1], self.tested_on, self.tail)
        return Limits(hits=float(hits[0]), alarms=float(alarms[0]))
