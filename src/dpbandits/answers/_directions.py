"""Sets of directions for which radii are computed together: differences of options, and merged directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray

_DIGITS = 9  # decimal digits to which directions of length 1 are compared
_MOST_KEPT = 100


def differences(rows: FloatArray) -> FloatArray:
    """Return rows[i] − rows[j] for all i ≠ j, ordered by i and then by j."""
    first, second = np.nonzero(~np.eye(len(rows), dtype=bool))
    return np.asarray(rows[first] - rows[second])


@dataclass(frozen=True, kw_only=True)
class MergedDirections:
    """A set of directions in which parallel ones are merged into one.

    If v = k·w with k > 0, the error of v exceeds c·s_v exactly if the error of w exceeds c·s_w, where s are
    the scales of `PhaseErrors`. In a grid of options many differences are parallel. Each given direction has
    the same share of the failure probability. So a merged direction has the sum of several shares, and a
    shorter radius.

    Attributes:
        units: The directions at length 1.
        places: For each given direction, its place among `units`.
        weights: The factors of the scales: quantiles of the normal distribution, at most 1.
    """

    units: FloatArray
    places: IntArray
    weights: FloatArray

    @staticmethod
    def of(directions: FloatArray, chance: float) -> MergedDirections:
        """Merge directions, one per row, whose radii are exceeded with probability at most `chance`."""
        return _merged(np.ascontiguousarray(directions).tobytes(), directions.shape[1], chance)


@lru_cache(maxsize=_MOST_KEPT)  # the same options are compared many times
def _merged(data: bytes, dimension: int, chance: float) -> MergedDirections:
    from scipy.special import ndtri

    directions = np.frombuffer(data).reshape(-1, dimension)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    units = directions / np.maximum(lengths, np.finfo(float).tiny)
    rounded = np.round(units, _DIGITS) + 0.0  # + 0.0 turns −0 into 0
    _, first, places, counts = np.unique(
        rounded, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    share = min(chance, 0.25) / len(directions)
    weights = ndtri(share * counts) / ndtri(share)
    return MergedDirections(units=units[first], places=places.reshape(-1), weights=weights)
