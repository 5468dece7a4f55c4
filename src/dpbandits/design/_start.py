"""Initial weights of a search from those of an earlier design."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._exchange import spans
from dpbandits.design._span import Span
from dpbandits.errors import InvalidValue


class WeightedSupport(Protocol):
    """The attributes that a warm start needs; a `Design` has them."""

    @property
    def support(self) -> IntArray:
        """The indices of the supported rows."""

    @property
    def weights(self) -> FloatArray:
        """The weights of these rows."""


def warm_weights(span: Span, previous: WeightedSupport, limit: int) -> FloatArray:
    """Return the weights of an earlier design, limited to its `limit` heaviest actions.

    If these no longer span, half of the weight goes to the pivots, which do.
    """
    support, given = checked_start(previous, len(span.coordinates))
    heaviest = np.argsort(-given, kind="stable")[:limit]
    weights = np.zeros(len(span.coordinates))
    weights[support[heaviest]] = given[heaviest] / given[heaviest].sum()
    if spans(span.coordinates, weights):
        return weights
    weights[span.pivots] += 1 / span.rank
    return weights / 2


def checked_start(previous: WeightedSupport, row_count: int) -> tuple[IntArray, FloatArray]:
    """Return support and weights of a warm start, or raise an error if it does not fit these rows."""
    support = np.asarray(previous.support)
    weights = np.asarray(previous.weights, dtype=np.float64)
    if support.ndim != 1 or support.size == 0 or not np.issubdtype(support.dtype, np.integer):
        raise InvalidValue("warm_start.support", f"shape {support.shape}", "a list of row indices")
    if support.min() < 0 or support.max() >= row_count or np.unique(support).size < support.size:
        raise InvalidValue("warm_start.support", support.tolist(), f"distinct indices below {row_count:,}")
    if weights.shape != support.shape or not np.isfinite(weights).all() or weights.min() <= 0:
        raise InvalidValue("warm_start.weights", weights.tolist(), "one number > 0 per index")
    return support.astype(np.int64), weights
