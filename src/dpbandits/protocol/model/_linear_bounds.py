"""Lower and upper bounds of all widths of the linear model, with one matrix-vector product per phase.

The error in direction v has variance V = v'Cv, C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I, and the width
lies between two multiples of √V (`MeanErrors.factors`). C differs little from C₀, the covariance of an
earlier phase with the same design: on the span λ·C₀ ≤ C ≤ Λ·C₀, where λ and Λ are the extreme generalised
eigenvalues. So x'C₀x is computed for all actions x in one pass per design, and all phases with that design
share it. For differences v = b − x, v'C₀v = x'C₀x − 2x'C₀b + b'C₀b, which takes one more matrix-vector
product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design import Selection
from dpbandits.protocol._bitmap import unpacked
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._linear_algebra import extremes
from dpbandits.protocol.model._interface import Bracket, fitted

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study
    from dpbandits.protocol.model._linear import LinearFit

BLOCK = 1 << 11  # rows that are processed at once, so that their coefficients stay in the processor's cache
_SLACK = 1e-9  # relative allowance for rounding errors in eigenvalues and factors


@dataclass(frozen=True, kw_only=True, eq=False)
class _Forms:
    """C₀ = `root` `root`', and `values`: x'C₀x of every active action x, with rounding error ≤ `error`."""

    root: FloatArray
    values: FloatArray
    error: float


def bracket(
    state: State, fit: LinearFit, reference: PhaseEvidence, *, towards: int | None = None
) -> Bracket | None:
    """Return bounds of the widths of all active actions, or of their differences to the action `towards`.

    Args:
        state: The state before the phase.
        fit: The fit of the phase.
        reference: An earlier phase with the same design, or the phase that was fitted.
        towards: The index of an action; None for the widths of single actions.

    Returns:
        The bounds; None if rounding errors make them unreliable, or if the errors of the means have no common
        factors (`MeanErrors.factors`), as with one mechanism per action.
    """
    study, basis = state.study, fit.basis
    own, first = fit.covariance(), fitted(study, _bare(reference)).covariance()
    span = fit.errors.factors(basis.T @ fit.map, basis.T @ own @ basis)
    ends = extremes(basis.T @ own @ basis, basis.T @ first @ basis)
    if ends is None or span is None:
        return None
    forms = _forms(study, state.active, _bare(reference))
    squares, error = _squares(forms, study, state.active_actions, towards)
    low = _root(squares, -error, span[0] * (1 - _SLACK) * max(ends[0], 0.0) ** 0.5)
    return Bracket(low=low, high=_root(squares, error, span[1] * (1 + _SLACK) * ends[1] ** 0.5))


def _root(squares: FloatArray, error: float, factor: float) -> FloatArray:
    """Return √max(squares + error, 0) times a factor. Only one new array is created, to save memory."""
    found = squares + error
    np.maximum(found, 0.0, out=found)
    np.sqrt(found, out=found)
    found *= factor
    return found


def _squares(forms: _Forms, study: Study, active: IntArray, towards: int | None) -> tuple[FloatArray, float]:
    """Return v'C₀v of all rows, and an upper bound on its rounding error for rows of norm at most 1."""
    if towards is None:
        return forms.values, forms.error
    matrix = study.actions.matrix
    own = matrix[towards] @ forms.root
    squares = study.reward_model.means(matrix, active, -2 * (forms.root @ own))
    squares += forms.values
    squares += own @ own
    lengths = np.linalg.norm(forms.root) + np.linalg.norm(own)
    return squares, float(forms.error + 16 * len(forms.root) * np.finfo(float).eps * lengths**2)


@lru_cache(maxsize=1)
def _forms(study: Study, active: bytes, evidence: PhaseEvidence) -> _Forms:
    """Compute x'C₀x in one pass over all active actions.

    The pass uses 32-bit floats, scaled to avoid overflow. Let γ ≈ (d + 4)·2⁻²⁴. For rows of norm at most 1,
    the error of x'·root is at most γ·‖root‖_F. So the error of q, its squared norm, is at most
    γ·‖root‖_F·(2·√q + γ·‖root‖_F), plus γ·q for the summation. `error` is twice that for the largest q.
    """
    values, directions = np.linalg.eigh(fitted(study, evidence).covariance())
    root = directions * np.sqrt(np.maximum(values, 0.0))
    size = float(np.linalg.norm(root))
    narrow = (root / size).astype(np.float32)
    rows = Selection(study.actions.matrix, unpacked(active, study.actions.count))
    squares = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        whitened = rows[start : start + BLOCK].astype(np.float32) @ narrow
        squares[start : start + BLOCK] = np.einsum("ij,ij->i", whitened, whitened)
    largest = float(np.max(squares))
    off = (len(root) + 4) * 2.0**-24
    squares *= size**2
    error = 2 * off * (2 * np.sqrt(largest) + off + largest) * size**2
    return _Forms(root=root, values=squares, error=float(error))


def _bare(evidence: PhaseEvidence) -> PhaseEvidence:
    """Return the evidence without its estimate and clipping bias, which C does not depend on."""
    return replace(evidence.unfitted, clipping_bias=())
