"""Designs for differences: weights for which the differences of a few options are estimated well.

A G-optimal design estimates the mean of every option well. To compare a few options, only the differences
v of these matter, and any action may be played to measure them. The search minimises the largest v'V⁻¹v with
V = Σ π(x)·xx' over all actions x (Soare, Lazaric and Munos 2014 call such a design XY-optimal).

For weights u of the differences let L = Σ u_v·vv'. For fixed u, the steps π(x) ∝ π(x)·√(x'V⁻¹LV⁻¹x) decrease
tr(LV⁻¹); u moves to the differences that are estimated worst. The smallest possible maximum is at least

    min over π of tr(LV(π)⁻¹) ≥ tr(LV⁻¹)² / max_x x'V⁻¹LV⁻¹x,

because tr(LV(π)⁻¹) ≥ 2·tr(L^½'Z) − tr(Z'V(π)Z) ≥ 2·tr(L^½'Z) − max_x ‖Z'x‖² for every matrix Z, also for
Z = c·V⁻¹L^½ with the best c. So each result states how far from optimal it is at most.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._span import find_span

_STEPS = 200
_PACE = 8.0  # the step size of the weights of the differences
_NEAR = 0.95  # the search ends when the design is proved to be this close to the best
# Weights below the first of these limits are dropped, because each supported action is played at least once.
# If that makes the largest v'V⁻¹v more than `_WORSE` times as large, the next limit is tried.
_LEAST = (1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 512, 0.0)
_WORSE = 1.1
# In steps of the grid: a weight that exceeds a multiple only by a rounding error is not rounded up.
_SLACK = 1e-6
_RIDGE = 1e-12  # keeps V invertible where no difference needs it
_GRID = 1024  # weights are rounded up to multiples of 1/_GRID, so that all processors get the same design
# The options themselves count as differences of this relative length. Then the design spans them, too, and
# their means can be reported, with wider intervals.
_MEANS = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class DifferenceDesign:
    """A design for the differences of some options.

    Attributes:
        support: The indices of the supported actions, which need not be among these options.
        weights: The weight of each supported action; the weights sum to one.
        rank: The dimension of the span of the supported actions.
        largest: The largest v'V⁻¹v over all differences v of two of the options.
        efficiency: A lower bound on the ratio of the smallest possible maximum to the maximum that the search
            found, before small weights were dropped. 1 is optimal. The maxima include the options themselves,
            scaled by `_MEANS`.
    """

    support: IntArray
    weights: FloatArray
    rank: int
    largest: float
    efficiency: float


def for_differences(actions: FloatArray, options: IntArray) -> DifferenceDesign:
    """Weight actions so that the differences of all pairs of some options are estimated well.

    Args:
        actions: One action per row; all of them may be played.
        options: The indices of at least two options.

    Returns:
        The design.
    """
    span = find_span(actions)
    rows = actions @ span.basis
    differences = _differences(rows[options])
    longest = float(np.linalg.norm(differences, axis=1).max())
    means = rows[options] * (
        _MEANS * longest / max(float(np.linalg.norm(rows[options], axis=1).max()), 1e-300)
    )
    weights, efficiency = _search(rows, np.vstack([differences, means]))
    support = np.flatnonzero(weights)
    shares = weights[support] / weights[support].sum()
    return DifferenceDesign(
        support=support.astype(np.int64),
        weights=shares,
        rank=find_span(actions[support]).rank,
        largest=_largest(rows, weights / weights.sum(), differences),
        efficiency=efficiency,
    )


def _differences(rows: FloatArray) -> FloatArray:
    """Return the differences of all pairs of rows."""
    first, second = np.array(list(itertools.combinations(range(len(rows)), 2))).T
    return np.asarray(rows[first] - rows[second], dtype=np.float64)


def _images(rows: FloatArray, weights: FloatArray, targets: FloatArray) -> FloatArray:
    """Return V⁻¹v for each target v."""
    form = (rows.T * weights) @ rows
    form[np.diag_indices_from(form)] += _RIDGE * np.trace(form)
    return np.asarray(np.linalg.solve(form, targets.T).T, dtype=np.float64)


def _largest(rows: FloatArray, weights: FloatArray, targets: FloatArray) -> float:
    """Return the largest v'V⁻¹v. It is huge if the weighted rows do not span all targets."""
    return float(np.einsum("ij,ij->i", targets, _images(rows, weights, targets)).max())


def _search(rows: FloatArray, targets: FloatArray) -> tuple[FloatArray, float]:
    """Return weights of the rows, most of them zero, and the efficiency of the design before rounding."""
    weights = np.full(len(rows), 1 / len(rows))
    shares = np.full(len(targets), 1 / len(targets))
    best, bound, smallest = weights, 0.0, np.inf
    for step in range(_STEPS):
        images = _images(rows, weights, targets)
        sizes = np.einsum("ij,ij->i", targets, images)
        gains = np.square(rows @ (images * np.sqrt(shares)[:, None]).T).sum(axis=1)
        largest = float(sizes.max())
        bound = max(bound, float(shares @ sizes) ** 2 / float(gains.max()))
        if largest < smallest:
            best, smallest = weights, largest
        if bound >= _NEAR * smallest:
            break
        weights = weights * np.sqrt(gains)
        weights = weights / weights.sum()
        shares = shares * np.exp((_PACE / np.sqrt(1 + step)) * (sizes / largest - 1))
        shares = shares / shares.sum()
    return _rounded(rows, best, targets, smallest), bound / smallest


def _rounded(rows: FloatArray, weights: FloatArray, targets: FloatArray, largest: float) -> FloatArray:
    """Return the weights without small ones, as multiples of 1/_GRID."""
    for least in _LEAST:
        kept = np.where(weights >= min(least, float(weights.max())), weights, 0.0)
        kept = np.ceil(kept / kept.sum() * _GRID - _SLACK) / _GRID
        if _largest(rows, kept / kept.sum(), targets) <= _WORSE * largest:
            break
    return np.asarray(kept, dtype=np.float64)
