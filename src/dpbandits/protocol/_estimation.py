"""Least squares in the span of the active actions (paper, Algorithm 1, line 15, and the remark on span).

θ̃ = A·ỹ with A = (Σ T(x) x x')⁺ [T(x)·x]: everything is a triangular solve from a QR factorisation of
√T(x)·x in an orthonormal basis of the span, so no matrix is ever inverted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from dpbandits._arrays import FloatArray


@dataclass(frozen=True, kw_only=True)
class LeastSquares:
    """The linear map A, d × s, from the released means to the estimate; its range is the span."""

    map: FloatArray

    @staticmethod
    def weighted(rows: FloatArray, weights: FloatArray, rank: int) -> LeastSquares:
        """Weighted least squares on `rows` (s × d), which span a space of dimension `rank`."""
        roots = np.sqrt(weights)[:, None]
        if rank == rows.shape[1]:
            return LeastSquares(map=_solution(roots, rows))
        # With the rank given, the leading right singular vectors are a basis of the span.
        basis = np.linalg.svd(rows, full_matrices=False)[2][:rank].T
        return LeastSquares(map=basis @ _solution(roots, rows @ basis))

    def estimate(self, means: FloatArray) -> FloatArray:
        """θ̃, the estimate of θ* within the span."""
        return self.map @ means


def _solution(roots: FloatArray, rows: FloatArray) -> FloatArray:
    orthogonal, triangular = qr(roots * rows, mode="economic")
    return np.asarray(solve_triangular(triangular, orthogonal.T) * roots.T, dtype=np.float64)
