"""The active set: the subset of many actions on which a design is solved, with weights.

Rows are stored in coordinates of pivots chosen among them, as _span.py does for small action sets. If rows
with much larger leverages are added later, these coordinates become badly scaled, so new pivots are chosen.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._exchange import Exchange
from dpbandits.design._rows import picked
from dpbandits.design._span import find_span
from dpbandits.design._streaming import Chart

_NARROW = 1e20  # units between 1/_NARROW and _NARROW are safe in 32-bit numbers


class Doubtful(Exception):  # noqa: N818  (not an error: the caller takes the slower path)
    """The known rows do not determine the rank of all rows."""


class ActiveSet:
    """Some rows in coordinates of their pivots, and the weights on them.

    Without a `chart`, the rows must clearly have full column rank; otherwise `Doubtful` is raised.
    """

    indices: IntArray
    exchange: Exchange

    def __init__(self, actions: FloatArray, indices: IntArray, chart: Chart | None) -> None:
        self.actions, self.chart = actions, chart
        self._begin(np.unique(indices))

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return self.exchange.rank

    def supported(self, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the indices of the rows with positive weight, in order, and their weights, normalised."""
        places = np.flatnonzero(weights)
        places = places[np.argsort(self.indices[places])]
        return self.indices[places], weights[places] / weights[places].sum()

    def take_over(self, support: IntArray, weights: FloatArray) -> None:
        """Start from the weights of an earlier design, if its active rows span."""
        earlier = np.zeros(self.indices.size)
        _, here, there = np.intersect1d(self.indices, support, assume_unique=True, return_indices=True)
        earlier[here] = weights[there]
        exchange = Exchange(self.exchange.coordinates, earlier)
        if np.isfinite(exchange.largest_leverage):
            self.exchange = exchange

    def add(self, indices: IntArray, *, seen: float, anew: bool) -> bool:
        """Add rows; return False if all of them were already active.

        `seen` is the largest leverage found in any row. With `anew`, pivots and weights are chosen again.
        """
        new = np.setdiff1d(indices, self.indices)
        if new.size == 0:
            return False
        old = self.exchange
        # Rows without weight whose leverage is so low that they cannot support an optimal design are dropped.
        kept = (old.weights > 0) | (old.leverages > (np.inf if anew else _hopeless(seen, old.rank)))
        weights = np.concatenate([old.weights[kept], np.zeros(new.size)])
        together = np.concatenate([self.indices[kept], new])
        if anew:
            self._begin(together)
        elif self.chart is None:
            rows = self._pivoted(picked(self.actions, new))
            self.indices = together
            self.exchange = Exchange(np.vstack([old.coordinates[kept], rows]), weights)
        else:
            order = np.argsort(together)
            self._begin(together[order])
            self.take_over(self.indices, weights[order])
        return True

    def leverages(self, rows: NDArray[np.floating]) -> FloatArray:
        """Return leverages under the current weights, in the precision of the rows; only without a chart."""
        whitening = (self._to_pivots @ self.exchange.factor) / self._units[:, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore"):
            whitened = rows @ whitening.astype(rows.dtype)
            found = np.einsum("ij,ij->i", whitened, whitened)
        return np.asarray(np.nan_to_num(found, nan=np.inf, posinf=np.inf), dtype=found.dtype)

    @property
    def scan_type(self) -> type[np.floating]:
        """The narrowest floating-point type that can hold rows of this magnitude."""
        safe = self._units.min() > 1 / _NARROW and self._units.max() < _NARROW
        return np.float32 if safe else np.float64

    def _begin(self, indices: IntArray) -> None:
        """Choose pivots among the rows, and put equal weights on them."""
        rows = picked(self.actions, indices)
        if self.chart is None:
            span = find_span(rows)
            if not span.clear:
                raise Doubtful
            # Rows outside the active set are later mapped to the same coordinates (see `leverages`).
            self._units = np.abs(rows).max(axis=0)
            self._to_pivots = np.linalg.inv(rows[span.pivots] / self._units)
        else:
            span = find_span(self.chart.coordinates(rows), rank=self.chart.rank)
        self.indices = indices
        self.exchange = Exchange.on_pivots(span.coordinates, span.pivots)

    def _pivoted(self, rows: FloatArray) -> FloatArray:
        """Return rows in coordinates of the pivots."""
        coordinates: FloatArray = (rows / self._units) @ self._to_pivots
        return coordinates


def _hopeless(seen: float, rank: int) -> float:
    """Return the leverage below which no row supports an optimal design (Harman and Pronzato 2007).

    If no leverage exceeds r (1 + e), then every row that supports an optimal design has a leverage of at
    least r (1 + e/2 - √(e (4 + e - 4/r)) / 2). `seen` is the largest leverage found.
    """
    excess = max(seen / rank - 1, 0.0)
    return rank * (1 + excess / 2 - math.sqrt(excess * max(4 + excess - 4 / rank, 0.0)) / 2)
