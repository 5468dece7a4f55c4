"""The dimensions that the actions span, and coordinates of the actions in these dimensions.

Rank tolerance: each column is first divided by its largest entry, so that a feature measured in small units
counts as much as any other. The rank is the number of singular values above 1e-10 of the largest. What lies
in the other directions is treated as noise, and rows are replaced by their projections. For example, a row
that is 1e-6 off a hyperplane adds a dimension, and noise of 1e-12 does not. A column whose largest entry is
below 1e-10 of the largest entry of the matrix is not rescaled: it counts as noise, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dgeqp3

from dpbandits._arrays import FloatArray, IntArray

NOISE = 1e-10  # relative to the largest singular value; directions with smaller ones are noise
_SIDE_BY_SIDE = 16  # rows that are compared at once, which is faster than one by one
_CLEARLY_FULL = 1e-4  # if the pivots decrease no further than this, the rank is full without doubt
_SHORTER = 1e-8  # relative length that the last row loses, far above rounding errors


@dataclass(frozen=True, kw_only=True, eq=False)
class Span:
    """The span of the actions, in coordinates of `rank` of them (the pivots)."""

    rank: int
    basis: FloatArray
    """Orthonormal columns that span the actions."""
    coordinates: FloatArray
    """One row per action: its coefficients with respect to the pivots."""
    pivots: IntArray
    """Actions that span all others, chosen greedily for large volume."""
    clear: bool
    """Whether the rank equals the number of columns, without doubt."""


def find_span(actions: FloatArray, *, rank: int | None = None, untied: bool = False) -> Span:
    """Find the span of the rows, limited to its leading `rank` dimensions if `rank` is given.

    With `untied`, rows of equal leverage get slightly different leverages (`_untie`).
    """
    units = units_from(heights(actions))
    scaled = divided(actions, units)
    if untied:
        _untie(scaled)
    dimension = actions.shape[1]
    triangle, order = _pivoted(scaled)
    basis = np.eye(dimension)
    clear = _is_clearly_full(triangle)
    if rank is not None or not clear:
        directions = _leading_directions(scaled, rank)
        if directions.shape[1] < dimension:
            triangle, order = _pivoted(scaled @ directions)
            basis = in_given_units(directions, units)
    return Span(
        rank=basis.shape[1],
        basis=basis,
        coordinates=_pivot_coordinates(triangle, order),
        pivots=order[: basis.shape[1]],
        clear=clear,
    )


def heights(rows: FloatArray) -> FloatArray:
    """Return the largest absolute entry of each column. Several rows are compared at once, for speed."""
    together = _SIDE_BY_SIDE if len(rows) >= _SIDE_BY_SIDE and rows.flags.c_contiguous else 1
    whole = len(rows) - len(rows) % together
    wide = rows[:whole].reshape(whole // together, -1)
    tallest = np.maximum(wide.max(axis=0), -wide.min(axis=0)).reshape(together, -1)
    peaks: FloatArray = tallest.max(axis=0)
    for row in rows[whole:]:
        np.maximum(peaks, np.abs(row), out=peaks)
    return peaks


def units_from(peaks: FloatArray) -> FloatArray:
    """Return the largest entry of each column, or of all columns if a column is only noise."""
    overall = peaks.max()
    if overall == 0:
        return np.ones_like(peaks)
    units: FloatArray = np.where(peaks / overall > NOISE, peaks, overall)
    return units


def divided(actions: FloatArray, units: FloatArray) -> FloatArray:
    """Divide columns by their units; powers of two first, so that no digits are lost to underflow.

    Leverages do not depend on units, so the division need not be undone.
    """
    mantissas, exponents = np.frexp(units)
    scaled: FloatArray = np.ldexp(actions, -exponents)
    scaled /= mantissas
    return scaled


def _untie(rows: FloatArray) -> None:
    """Give the rows slightly different lengths, the first ones the longest, so that no leverages tie.

    Leverages of symmetric actions, such as a table of all combinations, are equal. Rounding would decide
    which row a search takes, so the design would depend on the processor. Row i is therefore multiplied by 1
    - 1e-8 · √(i/k); i/k itself would be additive in tables of combinations, and some ties would remain. This
    changes neither the span nor the rank, and it changes leverages by less than the margin of the search. The
    rows are changed in place: with one more array of this size, the memory would be returned to the system in
    every search.
    """
    lengths = 1 - _SHORTER * np.sqrt(np.arange(len(rows)) / len(rows))
    rows *= lengths[:, np.newaxis]


def _pivoted(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Factorise rows' P = Q R; each step takes the row that is farthest from the span so far.

    The diagonal of R holds these distances, in decreasing order. Column i of R holds the orthonormal
    coordinates of row i.
    """
    if 0 in rows.shape:
        return np.empty(rows.shape[::-1]), np.arange(len(rows))
    packed, order, *_ = dgeqp3(rows.T)  # LAPACK's format: the entries below the diagonal do not belong to R
    return packed, order.astype(np.int64) - 1


def _is_clearly_full(triangle: FloatArray) -> bool:
    """Return whether the pivots show full column rank without doubt."""
    distances = np.abs(np.diagonal(triangle))
    return distances.size == len(triangle) and bool(distances[-1] > _CLEARLY_FULL * distances[0])


def _leading_directions(scaled: FloatArray, rank: int | None) -> FloatArray:
    """Return, as columns, the right singular vectors of the singular values that are not noise."""
    _, lengths, directions = np.linalg.svd(np.linalg.qr(scaled, mode="r"), full_matrices=False)
    if rank is None:
        rank = int(np.count_nonzero(lengths > NOISE * lengths[0]))
    leading: FloatArray = directions[:rank].T
    return leading


def in_given_units(directions: FloatArray, units: FloatArray) -> FloatArray:
    """Return the directions in the original units, orthonormalised again."""
    basis: FloatArray = np.linalg.qr((units / units.max())[:, np.newaxis] * directions)[0]
    return basis


def _pivot_coordinates(triangle: FloatArray, order: IntArray) -> FloatArray:
    """Express every row by the pivots: row = coordinates @ pivot rows.

    With Q'X' = R and the pivots' block R₁, the coefficients of row i are R₁⁻¹ Rᵢ. Even if the rows are badly
    conditioned, the pivots become unit vectors and the other entries stay moderate, because each pivot was
    the farthest row of its step.
    """
    rank = len(triangle)
    coordinates = np.empty((order.size, rank))
    if rank:
        inverse = solve_triangular(triangle[:, :rank], np.eye(rank), check_finite=False)
        coordinates[order[:rank]] = np.eye(rank)
        coordinates[order[rank:]] = (inverse @ triangle[:, rank:]).T
    return coordinates
