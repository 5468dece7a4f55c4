"""Root search: the least argument at which a decreasing function is no longer positive."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from dpbandits._checks import probability

_MOST_STEPS = 200
_LARGEST_EPSILON = 1e4


def least(
    excess: Callable[[float], float],
    low: float,
    high: float,
    close: Callable[[float, float], bool],
    *,
    whole: bool = False,
) -> float:
    """Return an argument with excess ≤ 0 that is nearly the least one.

    It is at most a `close` width above an argument with excess > 0. Only arguments that were themselves
    evaluated are returned.

    Args:
        excess: A decreasing function.
        low: An argument with excess(low) > 0.
        high: An argument with excess(high) ≤ 0.
        close: `close(width, high)` returns whether a bracket of that width is narrow enough.
        whole: Whether to try whole arguments only.
    """
    at_low, at_high = excess(low), excess(high)
    for step in range(_MOST_STEPS):
        width = high - low
        if close(width, high) or (whole and width <= 1):
            break
        # Three secant steps, then one bisection. The secant is kept away from both ends of the bracket, so
        # that both ends move.
        secant = low + width / 2
        if step % 4 < 3 and at_low > at_high:
            secant = low + width * at_low / (at_low - at_high)
        # A step must move the bracket by at least 2 % of its width, and by at least the final precision.
        margin = max(0.02 * width, _narrow(close, width, high))
        middle = min(max(secant, low + margin), high - margin)
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        value = excess(middle)
        if value <= 0:
            high, at_high = middle, value
        else:
            low, at_low = middle, value
    return high


def log_excess(delta_at: Callable[[float], float], delta: float) -> Callable[[float], float]:
    """Return x ↦ log δ(x) − log δ, cached: δ(x) is the value at x, and δ the one that is allowed."""
    target = math.log(probability(delta=delta))
    return cache(lambda argument: math.log(max(delta_at(argument), 1e-300)) - target)


def least_epsilon(delta_at: Callable[[float], float], delta: float, pure: float) -> float:
    """Return an ε with delta_at(ε) ≤ δ, within 10⁻⁶ of the least.

    It is infinite if no such ε is found up to about 10⁴, or up to `pure` if that is smaller.
    """
    excess = log_excess(delta_at, delta)
    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, min(1.0, pure)
    while excess(high) > 0:
        low, high = high, min(2 * high, pure)
        if low == high or (high > _LARGEST_EPSILON and pure > high):
            return math.inf
    return least(excess, low, high, lambda width, near: width <= 1e-6 * max(near, 1e-3))


def _narrow(close: Callable[[float, float], bool], width: float, high: float) -> float:
    """Return a width, at most half of the bracket, that is nearly as large as `close` allows."""
    width *= 0.5
    while width > 0 and not close(width, high):
        width *= 0.7
    return width
