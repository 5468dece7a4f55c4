"""Least squares in the span of the active actions, and bounds of one quadratic form by another.

The least-squares estimate (paper, Algorithm 1, line 15, and the remark on span) is θ̃ = A·ỹ with
A = (Σ T(x) x x')⁺ [T(x)·x]. A is computed by a triangular solve from a QR factorisation of √T(x)·x in an
orthonormal basis of the span; no matrix is inverted.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, qr, solve_triangular

from dpbandits._arrays import BoolArray, FloatArray

_SPANNED = 1e-7  # relative part of a direction outside a span that still counts as rounding
_ROUGH = 1e-10  # below this ratio of smallest to largest eigenvalue, rounding errors would be visible


def least_squares(rows: FloatArray, weights: FloatArray, rank: int) -> FloatArray:
    """Return the linear map A, d × s, from s means to the weighted least-squares estimate.

    Args:
        rows: One row of d features per mean.
        weights: One positive weight per mean.
        rank: The dimension of the space that the rows span; the range of A is this space.

    Returns:
        A, so that `A @ means` is the estimate.
    """
    roots = np.sqrt(weights)[:, None]
    basis = span_of(rows, rank)
    if basis is None:
        return _solution(roots, rows)
    return np.asarray(basis @ _solution(roots, rows @ basis), dtype=np.float64)


def _solution(roots: FloatArray, rows: FloatArray) -> FloatArray:
    orthogonal, triangular = qr(roots * rows, mode="economic")
    return np.asarray(solve_triangular(triangular, orthogonal.T) * roots.T, dtype=np.float64)


def span_of(rows: FloatArray, rank: int) -> FloatArray | None:
    """Return orthonormal columns that span the rows, whose rank is given; None if they span everything."""
    if rank == rows.shape[1]:
        return None
    # With the rank given, the leading right singular vectors are a basis of the span.
    return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][:rank].T, dtype=np.float64)


def within(basis: FloatArray | None, directions: FloatArray) -> BoolArray:
    """Return for each direction whether it lies in a space, up to rounding.

    Args:
        basis: The space, as `span_of` returns it.
        directions: One direction per row.
    """
    if basis is None:
        return np.ones(len(directions), dtype=bool)
    outside = np.linalg.norm(directions - (directions @ basis) @ basis.T, axis=1)
    return np.asarray(outside <= _SPANNED * np.linalg.norm(directions, axis=1))


def extremes(form: FloatArray, other: FloatArray) -> tuple[float, float] | None:
    """Return the minimum and maximum over v of v'·form·v / v'·other·v.

    None if `other` is so close to singular that rounding errors make the result unreliable.
    """
    values = np.linalg.eigvalsh(other)
    if not values[0] > _ROUGH * values[-1]:
        return None
    quotients = eigh(form, other, eigvals_only=True)
    return float(quotients[0]), float(quotients[-1])
