"""Fewer supported actions without losing anything: Carathéodory's theorem, carried out."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import FloatArray


def reduced(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Reweigh `rows` (r coordinates each) so that at most r (r + 1) / 2 have weight and no leverage grows.

    V = Σ πᵢ xᵢ xᵢ' has n = r (r + 1) / 2 distinct entries, each linear in π. Of m > n rows, m - n
    independent changes v of the weights therefore leave V as it is. Taken with Σ vᵢ ≥ 0, such a change is
    followed, π - t v, until the first weight vanishes; that lowers the sum of the weights or keeps it,
    so scaling the sum back to one can only enlarge V.
    """
    weights = weights.copy()
    changes = _changes_that_keep_the_matrix(rows)
    while len(changes):
        change, changes = changes[-1], changes[:-1]
        change = np.copysign(1 / np.abs(change).max(), change.sum()) * change
        falling = np.flatnonzero(change > 0)
        limits = weights[falling] / change[falling]
        first = falling[limits.argmin()]
        weights -= limits.min() * change
        np.maximum(weights, 0.0, out=weights)
        weights[first] = 0.0
        # What is left must not touch the row that has just lost its weight.
        changes = changes - np.outer(changes[:, first] / change[first], change)
        changes[:, first] = 0.0
    weights /= weights.sum()
    return weights


def _changes_that_keep_the_matrix(rows: FloatArray) -> FloatArray:
    """Return independent v with Σ vᵢ xᵢ xᵢ' = 0, one per row: the complement of the products' range."""
    left, right = np.triu_indices(rows.shape[1])
    products = rows[:, left] * rows[:, right]
    if len(rows) <= left.size:
        return np.empty((0, len(rows)))
    orthogonal: FloatArray = np.linalg.qr(products, mode="complete")[0]
    return orthogonal[:, left.size :].T
