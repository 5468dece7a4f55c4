"""How far a wrong model can move an estimate: rewards with mean ⟨θ*, x⟩ + m·h(x), where |h(x)| ≤ 1.

The estimate of a direction v is Σ_i c_i·(mean of action i) over the supported actions i, so the misfit moves
it by m·Σ_i c_i·h(i). The largest value of this over all h is m·Σ_i |c_i|. A least-squares fit with the
weights of its design has Σ_i |c_i| ≤ √g ≤ √(2d); here the sum is computed exactly. See docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbandits._arrays import FloatArray, IntArray


def misfit_bias(
    coefficients: FloatArray, *, support: Sequence[int], actions: IntArray, towards: int | None = None
) -> FloatArray:
    """Return how far a misfit of 1 can move the estimated means of some actions from their true means.

    This is the maximum over all h with |h| ≤ 1 of Σ_i c_i·h(i) − h(x) or, for a difference to the action b,
    of Σ_i c_i·h(i) − h(b) + h(x). It can be added to any width of the phase, after multiplication with m.

    Args:
        coefficients: For each action, the coefficients of the averages of the supported actions in the
            estimate of its mean, or in that of the difference.
        support: The supported actions.
        actions: The actions x.
        towards: The action b, if the estimates are those of differences b − x.

    Returns:
        One number per action. Example: for an action that is estimated by its own average it is 0.
    """
    left, outside = coefficients.copy(), np.zeros(len(coefficients))
    columns = {action: column for column, action in enumerate(support)}

    def add(places: IntArray, sign: float) -> None:
        for row, place in enumerate(places.tolist()):
            column = columns.get(place)
            if column is None:
                outside[row] += 1
            else:
                left[row, column] += sign

    add(actions, -1.0 if towards is None else 1.0)
    if towards is not None:
        add(np.full(len(actions), towards), -1.0)
    found = np.abs(left).sum(axis=1) + outside
    return np.where(actions == towards, 0.0, found) if towards is not None else found


def largest_norm(matrix: FloatArray) -> float:
    """Return an upper bound on the length of matrix·h over all h with |h| ≤ 1."""
    columns = float(np.linalg.norm(matrix, axis=0).sum())
    return min(columns, float(np.linalg.norm(matrix, 2)) * math.sqrt(matrix.shape[1]))
