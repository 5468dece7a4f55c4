"""Fewer supported actions with no larger leverage: a constructive form of Carathéodory's theorem."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import FloatArray


def reduced(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Reweight `rows` (r coordinates each) so that at most r (r + 1) / 2 have weight.

    No leverage increases. V = Σ πᵢ xᵢ xᵢ' has n = r (r + 1) / 2 distinct entries, and each is linear in π. So
    with m > n rows, m - n independent changes v of the weights leave V unchanged. Choose the sign of v so
    that Σ vᵢ ≥ 0, and follow π - t v until the first weight reaches zero. The sum of the weights does not
    increase, so scaling it back to one can only enlarge V.
    """
    weights = weights.copy()
    changes = _changes_that_keep_the_matrix(rows)
    while len(changes):
        change, changes = changes[-1], changes[:-1]
        # Scale to the largest entry, and choose the sign for which the sum of the weights does not increase.
        change = np.copysign(1 / np.abs(change).max(), change.sum()) * change
        falling = np.flatnonzero(change > 0)
        limits = weights[falling] / change[falling]
        first = falling[limits.argmin()]
        weights -= limits.min() * change
        np.maximum(weights, 0.0, out=weights)
        weights[first] = 0.0
        # The remaining changes must not affect the row that has just lost its weight.
        changes = changes - np.outer(changes[:, first] / change[first], change)
        changes[:, first] = 0.0
    weights /= weights.sum()
    return weights


def _changes_that_keep_the_matrix(rows: FloatArray) -> FloatArray:
    """Return independent v with Σ vᵢ xᵢ xᵢ' = 0, one per line.

    They are the orthogonal complement of the range of the products xᵢ xᵢ'.
    """
    left, right = np.triu_indices(rows.shape[1])
    products = rows[:, left] * rows[:, right]
    if len(rows) <= left.size:
        return np.empty((0, len(rows)))
    orthogonal: FloatArray = np.linalg.qr(products, mode="complete")[0]
    return orthogonal[:, left.size :].T
