"""How many actions a design may use."""

from __future__ import annotations

import math

from dpbandits._checks import whole


def support_bound(rank: int) -> float:
    """The promised size of a support: 4 r log log r + 16 for actions of rank r (natural logarithms)."""
    rank = whole(0, rank=rank)
    iterated_logarithm = math.log(math.log(rank)) if rank >= 3 else 0.0  # negative below e, so 0 there
    return 4 * rank * iterated_logarithm + 16


def allowed_support(rank: int, tolerance: float, max_support: int | None) -> int:
    """What holds for one call: the caller's bound, else the promised one.

    A tolerance below 2 may be out of reach within the promised bound. By Carathéodory's theorem
    r (r + 1) / 2 actions suffice for any tolerance, so that many are then allowed too.
    """
    if max_support is not None:
        return max_support
    return max(math.floor(support_bound(rank)), rank * (rank + 1) // 2 if tolerance < 2 else 0)
