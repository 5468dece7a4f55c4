"""The number of actions that a design may use."""

from __future__ import annotations

import math

from dpbandits._checks import whole


def support_bound(rank: int) -> float:
    """Return the promised size of a support: 4 r log log r + 16 for actions of rank r.

    Logarithms are natural. For r < 3, where log log r is negative or undefined, 0 replaces it.

    Args:
        rank: The rank r of the actions, at least 0.

    Returns:
        The bound, not rounded.

    Raises:
        InvalidValue: If the rank is negative or not whole.

    Example:
        >>> from dpbandits.design import support_bound
        >>> round(support_bound(20), 1)
        103.8
    """
    rank = whole(0, rank=rank)
    iterated_logarithm = math.log(math.log(rank)) if rank >= 3 else 0.0
    return 4 * rank * iterated_logarithm + 16


def allowed_support(rank: int, tolerance: float, max_support: int | None) -> int:
    """Return the limit for one call: the caller's limit if given, otherwise the promised bound.

    A tolerance below 2 may be unattainable within the promised bound. By Carathéodory's theorem r (r + 1) / 2
    actions suffice for every tolerance. So for such a tolerance the limit is at least that number.
    """
    if max_support is not None:
        return max_support
    return max(math.floor(support_bound(rank)), rank * (rank + 1) // 2 if tolerance < 2 else 0)
