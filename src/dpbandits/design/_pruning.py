"""Fewer supported actions: drop very light ones, and reduce a support to its limit."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.design._exchange import Exchange
from dpbandits.design._reduction import reduced

_TINY = 1e-3  # relative to the average weight of a design on the fewest actions that span
_REWEIGHTING_STEPS = 200  # for the few actions that remain after a reduction to the limit
_SHARES = (0.25, 0.1)  # of the support that may be dropped at once; the larger share is tried first


def without_tiny_weights(exchange: Exchange, aim: float) -> Exchange:
    """Drop actions with tiny weights, if every leverage stays within the aim."""
    tiny = exchange.weights < _TINY / exchange.rank
    if not exchange.weights[tiny].any():
        return exchange
    pruned = Exchange(exchange.coordinates, np.where(tiny, 0.0, exchange.weights))
    return pruned if pruned.largest_leverage <= aim else exchange


def without_light_weights(exchange: Exchange, ceiling: float) -> Exchange:
    """Drop the lightest share of the supported actions, if every leverage stays below the ceiling.

    Each supported action is one more number that every client sends.
    """
    support = np.flatnonzero(exchange.weights)
    order = support[np.argsort(exchange.weights[support], kind="stable")]
    for share in _SHARES:
        dropped = order[: min(int(share * support.size), support.size - exchange.rank)]
        if dropped.size:
            weights = exchange.weights.copy()
            weights[dropped] = 0.0
            pruned = Exchange(exchange.coordinates, weights)
            if pruned.largest_leverage <= ceiling:
                return pruned
    return exchange


def within(exchange: Exchange, limit: int) -> FloatArray:
    """Reduce the support to its limit: without loss if possible, otherwise keep the heaviest actions."""
    support = np.flatnonzero(exchange.weights)
    weights = np.zeros_like(exchange.weights)
    if support.size <= limit:
        return exchange.weights.copy()
    if limit >= exchange.rank * (exchange.rank + 1) // 2:
        # In whitened coordinates V is the identity, which keeps the reduction well conditioned.
        rows = exchange.coordinates[support] @ exchange.factor
        weights[support] = reduced(rows, exchange.weights[support])
        return weights
    heaviest = support[np.argsort(-exchange.weights[support], kind="stable")[:limit]]
    kept = Exchange(exchange.coordinates[heaviest], exchange.weights[heaviest])
    if np.isfinite(kept.largest_leverage):
        kept.run(exchange.rank * 1.001, _REWEIGHTING_STEPS)
    weights[heaviest] = kept.weights
    return weights
