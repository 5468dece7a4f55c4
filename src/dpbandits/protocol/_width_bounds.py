"""Bounds of many widths at once, from below and from above, at the price of a vector product a phase.

A width in direction v has a variance V = v'Cv, C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I, and lies between
two multiples of √V (`factors`). A phase's C differs little from that of an earlier phase with the same
design, C₀: on the span λ·C₀ ≤ C ≤ Λ·C₀, the extreme generalised eigenvalues. So v'C₀v is computed for all
actions once for each design, in a pass, and phases with that design share it; for differences
v = b − x it is x'C₀x − 2x'C₀b + b'C₀b, which takes one vector product more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import eigh

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design import Selection
from dpbandits.privacy.tails import Spread
from dpbandits.protocol._inference import Inference, mechanism_of, products
from dpbandits.protocol._study import Evidence, State, Study

BLOCK = 1 << 11  # rows whose coefficients stay in a cache
_ROUGH = 1e-10  # a ratio of eigenvalues below which rounding would show in the others
_SLACK = 1e-9  # relative, for the roundings of eigenvalues and factors


@dataclass(frozen=True, kw_only=True, eq=False)
class Bracket:
    """Every width is at least `low` and at most `high`, row by row."""

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class _Forms:
    """C₀ = `root` `root`', and x'C₀x of every active action x, off by at most `error`."""

    root: FloatArray
    values: FloatArray
    error: float


def bracket(
    state: State, inference: Inference, reference: Evidence, *, towards: int | None = None
) -> Bracket | None:
    """Of the widths of active actions, or of their differences to one; None if rounding is in the way.

    None also where each action has clients of its own, and so a mechanism of its own. `reference` is an
    earlier phase with the same design, or the one that `inference` is from.
    """
    study = state.study
    if study.separate:
        return None
    own, first = inference.covariance(), Inference.of(study, _bare(reference)).covariance()
    basis = _basis(inference)
    ends = _extremes(basis.T @ own @ basis, basis.T @ first @ basis)
    span = _factors(inference, own, basis)
    if ends is None or span is None:
        return None
    forms = _forms(study, state.active, _bare(reference))
    squares, error = _squares(forms, study.actions.matrix, state.active_actions, towards)
    low = _root(squares, -error, span[0] * (1 - _SLACK) * max(ends[0], 0.0) ** 0.5)
    return Bracket(low=low, high=_root(squares, error, span[1] * (1 + _SLACK) * ends[1] ** 0.5))


def _root(squares: FloatArray, error: float, factor: float) -> FloatArray:
    """√(squares + error), zero where that is below, times a factor; with no array more than is needed."""
    found = squares + error
    np.maximum(found, 0.0, out=found)
    np.sqrt(found, out=found)
    found *= factor
    return found


def _basis(inference: Inference) -> FloatArray:
    left = np.linalg.svd(inference.estimator.map, full_matrices=False)[0]
    return np.asarray(left[:, : inference.evidence.plan.rank], dtype=np.float64)


def _extremes(form: FloatArray, other: FloatArray) -> tuple[float, float] | None:
    """The least and the largest v'·form·v / v'·other·v; None where rounding leaves them unknown."""
    values = np.linalg.eigvalsh(other)
    if not values[0] > _ROUGH * values[-1]:
        return None
    quotients = eigh(form, other, eigvals_only=True)
    return float(quotients[0]), float(quotients[-1])


def _factors(inference: Inference, own: FloatArray, basis: FloatArray) -> tuple[float, float] | None:
    """What widths are at least and at most, as multiples of √V: noise, and what clipping may pull.

    The latter is e·‖a‖ for a = A'v where clients clip in a ball. In a box it is Σ e_x·|a_x|: at least the ℓ2
    norm of (e_x·a_x), and at most √(Σ e_x)·√(Σ e_x·a_x²) by Cauchy and Schwarz.
    """
    evidence, within = inference.evidence, basis.T @ inference.estimator.map
    mechanism, form = mechanism_of(evidence.plan), basis.T @ own @ basis
    shares = _extremes(mechanism.error_deviation(evidence.reports) ** 2 * (within @ within.T), form)
    if shares is None:
        return None
    steepest = np.sqrt(np.max(np.einsum("ij,ij->j", within, np.linalg.solve(form, within))))
    spread = Spread(
        least=min(max(shares[0] * (1 - _SLACK), 0.0), 1.0),
        most=min(shares[1] * (1 + _SLACK), 1.0),
        largest=float(steepest) * (1 + _SLACK),
    )
    low, high = mechanism.radius_factors(spread, inference.study.confidence, evidence.reports)
    if not evidence.excess:
        return low, high
    pull = _pulls(within, np.array(evidence.excess), form, mechanism.shape)
    return None if pull is None else (low + pull[0], high + pull[1])


def _pulls(
    within: FloatArray, excess: FloatArray, form: FloatArray, shape: str
) -> tuple[float, float] | None:
    if shape == "ball":
        ends = _extremes(within @ within.T, form)
        return None if ends is None else (excess[0] * max(ends[0], 0.0) ** 0.5, excess[0] * ends[1] ** 0.5)
    squared, once = within * excess, within * np.sqrt(excess)
    least, most = _extremes(squared @ squared.T, form), _extremes(once @ once.T, form)
    if least is None or most is None:
        return None
    return max(least[0], 0.0) ** 0.5, (most[1] * float(excess.sum())) ** 0.5


def _squares(
    forms: _Forms, matrix: FloatArray, active: IntArray, towards: int | None
) -> tuple[FloatArray, float]:
    """v'C₀v of all rows, and what rounding may have changed it by; rows have norm one at most."""
    if towards is None:
        return forms.values, forms.error
    own = matrix[towards] @ forms.root
    squares = products(matrix, active, -2 * (forms.root @ own))
    squares += forms.values
    squares += own @ own
    lengths = np.linalg.norm(forms.root) + np.linalg.norm(own)
    return squares, float(forms.error + 16 * len(forms.root) * np.finfo(float).eps * lengths**2)


@lru_cache(maxsize=1)
def _forms(study: Study, active: bytes, evidence: Evidence) -> _Forms:
    """The one pass over all active actions.

    It is made in 32-bit numbers, scaled to keep their range. With γ ≈ (d + 4)·2⁻²⁴ and rows of norm one at
    most, a row's x'·root is off by at most γ·‖root‖_F, so the square q of its length by
    γ·‖root‖_F·(2·√q + γ·‖root‖_F) and, for summing, γ·q. Twice that, for the largest q, is allowed for.
    """
    values, directions = np.linalg.eigh(Inference.of(study, evidence).covariance())
    root = directions * np.sqrt(np.maximum(values, 0.0))
    size = float(np.linalg.norm(root))
    narrow = (root / size).astype(np.float32)
    rows = Selection(study.actions.matrix, State(study=study, active=active).active_actions)
    squares = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        whitened = rows[start : start + BLOCK].astype(np.float32) @ narrow
        squares[start : start + BLOCK] = np.einsum("ij,ij->i", whitened, whitened)
    largest = float(np.max(squares))
    off = (len(root) + 4) * 2.0**-24
    squares *= size**2
    error = 2 * off * (2 * np.sqrt(largest) + off + largest) * size**2
    return _Forms(root=root, values=squares, error=float(error))


def _bare(evidence: Evidence) -> Evidence:
    """A phase without what it estimated: that does not enter C."""
    return replace(evidence, excess=(), estimate=())
