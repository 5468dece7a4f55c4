"""From raw features to actions in the unit ball.

    x = (1, z·min(1, r/‖z‖)/r)/√2

where z are the leading principal components of the standardised features, each of variance one. The constant
1 represents the mean reward. Whitening makes the ridge penalty equal in every direction. Rows longer than r
are shortened to r, so that a few outliers do not compress all others. No reward is used.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue

# A variance is a difference of squares. A deviation below this share of the column's size is rounding error.
_ROUNDING = 1e-7
_TINY = 1e-9  # relative to the largest variance; smaller components are rounding errors


def whitened(features: csr_array, dimension: int, *, longest: float) -> FloatArray:
    """Return one action per row of features; r is the quantile `longest` of their lengths.

    Features stay sparse.
    """
    whole(2, dimension=dimension)
    mean = np.asarray(features.mean(axis=0)).ravel()
    second = np.asarray((features.T @ features).todense()) / features.shape[0]
    covariance = second - np.outer(mean, mean)
    deviation, size = np.sqrt(np.maximum(np.diag(covariance), 0)), np.sqrt(np.diag(second))
    varies = deviation > _ROUNDING * size
    # Constant columns carry no information and are ignored.
    scale = np.where(varies, 1 / np.where(varies, deviation, 1), 0)
    values, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    leading = np.argsort(values)[::-1][: dimension - 1]
    rank = int(np.sum(values > _TINY * values.max(initial=0.0)))
    if rank < dimension - 1:
        expected = f"at most {rank + 1}: the features have rank {rank}, plus one for the constant"
        raise InvalidValue("dimension", dimension, expected)
    rotation = scale[:, None] * vectors[:, leading] / np.sqrt(values[leading])
    # Subtract the mean after the product, so that the features stay sparse.
    components = np.asarray(features @ rotation) - mean @ rotation
    return _in_the_ball(components, longest)


def _in_the_ball(components: FloatArray, longest: float) -> FloatArray:
    """Shorten long rows, scale all to the unit ball, and add the constant."""
    lengths = np.linalg.norm(components, axis=1, keepdims=True)
    radius = float(np.quantile(lengths, longest))
    pulled = components / np.maximum(lengths, radius)
    return np.asarray(np.hstack([np.ones((len(pulled), 1)), pulled]) / np.sqrt(2), dtype=np.float64)
