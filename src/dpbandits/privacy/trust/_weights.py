"""Integer weights of reports that are drawn at random: one weight is at most e^ε times the other."""

from __future__ import annotations

import math

from dpbandits._checks import whole
from dpbandits.privacy import accounting

_MOST_WEIGHT = 2**62
_MOST_BITS = 40
LARGEST_EPSILON = 30.0  # a larger ε gains nothing
# e^ε is computed with a relative error of about 2⁻⁵². This margin keeps the ratio of the weights below e^ε.
_MARGIN = 2.0**-40


def weights(epsilon: float, heavy: int, size: int) -> tuple[int, int]:
    """Return the larger and the smaller weight: their ratio is just below e^ε, their total below 2⁶².

    Example: `weights(1.0, 90, 256)` is (2988782477960, 1099511627776).

    Args:
        epsilon: The requested ε.
        heavy: How many of the possible reports have the larger weight.
        size: The number of possible reports.
    """
    ratio = math.exp(min(epsilon, LARGEST_EPSILON)) * (1 - _MARGIN)
    bits = max(0, min(_MOST_BITS, 61 - math.ceil(math.log2(heavy * ratio + size))))
    return math.floor(ratio * 2**bits), 2**bits


def checked_weights(heavy: int, size: int, top_weight: int, other_weight: int) -> int:
    """Check the weights of `heavy` reports and of all others.

    Returns:
        The total weight.

    Raises:
        InvalidValue: If a weight or the total is out of range.
    """
    whole(1, size - 1, heavy=heavy)
    whole(1, _MOST_WEIGHT, other_weight=other_weight)
    whole(other_weight + 1, _MOST_WEIGHT, top_weight=top_weight)
    return whole(2, _MOST_WEIGHT, total_weight=heavy * top_weight + (size - heavy) * other_weight)


def pure_event(top_weight: int, other_weight: int) -> accounting.PureEvent:
    """Return the privacy of one report: ε = log(top_weight/other_weight), rounded up, and δ = 0."""
    return accounting.PureEvent(pure_epsilon=math.log(top_weight / other_weight) * (1 + 2**-50))
