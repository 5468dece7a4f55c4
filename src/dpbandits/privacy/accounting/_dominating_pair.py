"""A discrete pair of distributions that dominates an event of which only the curve δ(ε) is known.

The curve is evaluated at a few ε, and the points are connected by straight lines (Doroshenko, Ghazi, Kamath,
Kumar and Manurangsi 2022). Why the resulting pair dominates the event is proved in docs/accounting-proofs.md,
section 14.
"""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbandits.privacy.accounting._event import Event

_GRID_POINTS = 80
# The grid ends at the ε of the first of these δ whose ε is at most _LARGEST_EPSILON.
_TAILS = (1e-16, 1e-13, 1e-10, 1e-7, 1e-4, 1e-2)
_LARGEST_EPSILON = 300.0

Point = tuple[float, float]  # α = e^ε, and the hockey-stick divergence there


@dataclass(frozen=True, kw_only=True)
class DominatingPair:
    """A pair (P, Q), stored as privacy losses with their masses under P.

    Attributes:
        losses: The finite losses log(P/Q).
        masses: The P-mass at each loss.
        infinite: The P-mass with infinite loss. The remaining Q-mass has loss −∞.
        hull: The corners (α, H_α(P‖Q)) of the divergence, by increasing α.
    """

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float
    hull: tuple[Point, ...]

    def divergence(self, epsilon: float) -> float:
        """Return the divergence at e^ε, for any real ε, by linear interpolation between corners."""
        # e^700 is the largest power of e that a float holds, roughly; the hull is constant long before.
        alpha = math.exp(min(epsilon, 700.0))
        after = bisect(self.hull, (alpha, math.inf))
        if after == len(self.hull):
            return self.infinite
        one, other = self.hull[after - 1], self.hull[after]
        part = (alpha - one[0]) / (other[0] - one[0])
        return (1 - part) * one[1] + part * other[1]


def dominating_pair(event: Event) -> DominatingPair:
    """Return randomized response if the event is known to be pure only, otherwise a pair from its curve."""
    return _cached_pair(event)  # type: ignore[arg-type]  # events are frozen


@lru_cache(maxsize=256)
def _cached_pair(event: Event) -> DominatingPair:
    """Compute the pair of an event; events are immutable, so the result can be cached."""
    if _is_only_pure(event):
        return _randomized_response(event.pure_epsilon)
    # The grid ends at the ε of some tail, or at zero if no tail has an ε below the limit.
    last = (event.epsilon(tail) for tail in _TAILS)
    top = next((epsilon for epsilon in last if epsilon <= _LARGEST_EPSILON), 0.0)
    grid = [top * index / _GRID_POINTS for index in range(_GRID_POINTS + 1)] if top else [0.0]
    known = [(epsilon, event.delta(epsilon)) for epsilon in grid]
    # The pair must dominate for every α > 0, not only for α = e^ε ≥ 1: composition evaluates it at e^{ε −
    # loss}. The curve at −ε follows from that at ε.
    mirrored = [(-e, reversed_divergence(e, delta)) for e, delta in reversed(known) if e]
    return _hull_pair([(0.0, 1.0)] + [(math.exp(e), delta) for e, delta in mirrored + known])


def _randomized_response(epsilon: float) -> DominatingPair:
    """Return randomized response, which dominates every ε-private mechanism."""
    true, least = 1 / (1 + math.exp(-epsilon)), math.exp(-epsilon)
    hull = ((0.0, 1.0), (least, 1 - least), (math.exp(epsilon), 0.0)) if epsilon else ((0.0, 1.0), (1.0, 0.0))
    return DominatingPair(losses=(epsilon, -epsilon), masses=(true, 1 - true), infinite=0.0, hull=hull)


def _is_only_pure(event: Event) -> bool:
    """Return whether the curve of the event is that of randomized response.

    Then pure privacy is all that is known about the event. Randomized response has δ(0) = tanh(ε₀/2).
    """
    pure = event.pure_epsilon
    return pure <= _LARGEST_EPSILON and event.delta(0.0) >= math.tanh(pure / 2) * (1 - 1e-12)


def reversed_divergence(epsilon: float, delta: float) -> float:
    """Return the divergence at −ε that follows from δ at ε.

    H_α(P‖Q) = 1 − α + α·H_{1/α}(Q‖P) with α = e^−ε.
    """
    return -math.expm1(-epsilon) + math.exp(-epsilon) * delta


def _hull_pair(points: list[Point]) -> DominatingPair:
    """Return the pair whose divergence is the lower convex hull of the points, constant beyond the last.

    The divergence of a pair is convex in α, so the true curve lies below the hull. A change of slope at α is
    a Q-mass with likelihood ratio α, so it is a P-mass of α times that change.
    """
    hull: list[Point] = []
    for point in points:
        # Andrew's monotone chain: drop points that are above the line between their neighbours.
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    slopes = [_slope(one, other) for one, other in pairwise(hull)] + [0.0]
    turns = [max(0.0, after - before) for before, after in pairwise(slopes)]
    inner = hull[1:]
    return DominatingPair(
        losses=tuple(math.log(alpha) for alpha, _ in inner),
        masses=tuple(alpha * turn for (alpha, _), turn in zip(inner, turns, strict=True)),
        infinite=hull[-1][1],
        hull=tuple(hull),
    )


def _slope(one: Point, other: Point) -> float:
    """Return the slope of the line through two points."""
    return (other[1] - one[1]) / (other[0] - one[0])
