"""A discrete pair of laws that is no better hidden than an event of which only the curve δ(ε) is known.

The curve is evaluated at a few ε and the dots are connected (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
2022). Why that dominates the event is proved in docs/accounting-proofs.md, section 14.
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

_DOTS = 80
# Where the curve ends: at the largest ε that has one of these δ.
_TAILS = (1e-16, 1e-13, 1e-10, 1e-7, 1e-4, 1e-2)
_LARGEST_EPSILON = 300.0

Point = tuple[float, float]  # α = e^ε, and the hockey-stick divergence there


@dataclass(frozen=True, kw_only=True)
class Dots:
    """Losses with their masses under P; the mass `infinite` has an infinite loss, the rest a loss of −∞."""

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float
    hull: tuple[Point, ...]

    def divergence(self, epsilon: float) -> float:
        """At e^ε for any real ε: on the line between two neighbouring dots."""
        alpha = math.exp(min(epsilon, 700.0))
        after = bisect(self.hull, (alpha, math.inf))
        if after == len(self.hull):
            return self.infinite
        one, other = self.hull[after - 1], self.hull[after]
        part = (alpha - one[0]) / (other[0] - one[0])
        return (1 - part) * one[1] + part * other[1]


def dots_of(event: Event) -> Dots:
    """Of randomized response, if no more is known than that the event is pure; else of its curve."""
    return _remembered(event)  # type: ignore[arg-type]  # events are frozen


@lru_cache(maxsize=256)
def _remembered(event: Event) -> Dots:
    if _is_only_pure(event):
        return _response(event.pure_epsilon)
    top = _last(event)
    grid = [top * index / _DOTS for index in range(_DOTS + 1)] if top else [0.0]
    known = [(epsilon, event.delta(epsilon)) for epsilon in grid]
    mirrored = [(-epsilon, flipped(epsilon, delta)) for epsilon, delta in reversed(known) if epsilon]
    return _connected([(0.0, 1.0)] + [(math.exp(e), delta) for e, delta in mirrored + known])


def _response(epsilon: float) -> Dots:
    true = 1 / (1 + math.exp(-epsilon))
    ends = (
        [(math.exp(-epsilon), 1 - math.exp(-epsilon)), (math.exp(epsilon), 0.0)] if epsilon else [(1.0, 0.0)]
    )
    return Dots(losses=(epsilon, -epsilon), masses=(true, 1 - true), infinite=0.0, hull=((0.0, 1.0), *ends))


def _is_only_pure(event: Event) -> bool:
    """Whether no more is known of it than that it is pure: its curve is that of randomized response."""
    return event.pure_epsilon <= _LARGEST_EPSILON and event.delta(0.0) >= math.tanh(
        event.pure_epsilon / 2
    ) * (1 - 1e-12)


def flipped(epsilon: float, delta: float) -> float:
    """What δ at ε says about −ε: H_α(P‖Q) = 1 − α + α·H_{1/α}(Q‖P), α = e^−ε."""
    return -math.expm1(-epsilon) + math.exp(-epsilon) * delta


def _last(event: Event) -> float:
    """An ε beyond which the curve matters no more, and zero if there is none."""
    found = (event.epsilon(tail) for tail in _TAILS)
    return next((epsilon for epsilon in found if epsilon <= _LARGEST_EPSILON), 0.0)


def _connected(points: list[Point]) -> Dots:
    """The pair whose divergence is the lower convex hull of the points, and constant beyond the last one."""
    hull: list[Point] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    slopes = [_slope(one, other) for one, other in pairwise(hull)] + [0.0]
    turns = [max(0.0, after - before) for before, after in pairwise(slopes)]
    inner = hull[1:]
    return Dots(
        losses=tuple(math.log(alpha) for alpha, _ in inner),
        masses=tuple(alpha * turn for (alpha, _), turn in zip(inner, turns, strict=True)),
        infinite=hull[-1][1],
        hull=tuple(hull),
    )


def _slope(one: Point, other: Point) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])
