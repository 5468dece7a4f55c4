"""Radii that a random error exceeds with a stated probability at most (docs/theory.md)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Candidates for Chernoff's λ, as shares of the largest one allowed and as multiples of the best one
# for sub-Gaussian errors; any of them gives a valid bound, so the least may be taken.
_SHARES = np.concatenate([np.geomspace(0.05, 0.5, 12), 1 - np.geomspace(0.45, 1e-3, 30)])
_MULTIPLES = np.array([0.4, 0.6, 0.75, 0.85, 0.95, 1.0])
# A coefficient below this is none: the direction has no error, and its square must not overflow inverted.
_NOTHING = 1e-100


def squared_norms(rows: FloatArray) -> FloatArray:
    """‖a‖² of each row."""
    squared: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return squared


def sub_gaussian_radius(variance: FloatArray, confidence: float) -> FloatArray:
    """√(2·variance·log(1/β)): Chernoff's bound for sub-Gaussian errors."""
    return np.sqrt(variance * (2 * math.log(1 / confidence)))


def mixture_radius(variances: FloatArray, chances: FloatArray, confidence: float) -> FloatArray:
    """For errors that are sub-Gaussian given a hidden part j, of chance c_j and with variance v_j.

    P(error > w) ≤ Σ_j c_j·exp(−w²/(2v_j)) plus the chance that no part covers; the least such w, found by
    bisection from above, for each row of variances.
    """
    left = confidence - max(0.0, 1 - float(chances.sum()))
    high = np.sqrt(variances.max(axis=1) * (2 * math.log(1 / left)))
    low = np.zeros_like(high)
    safe = np.maximum(variances, np.finfo(float).tiny)
    for _ in range(30):
        middle = (low + high) / 2
        enough = np.exp(-(middle[:, None] ** 2) / (2 * safe)) @ chances <= left
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high, dtype=np.float64)


def chernoff_radius(
    coefficients: FloatArray,
    other_variance: FloatArray,
    confidence: float,
    *,
    cumulant: Callable[[FloatArray], FloatArray],
    pole: float,
    error_variance: float,
) -> FloatArray:
    """The least (log(1/β) + log E exp(λX))/λ over a grid of λ, X = ⟨a, error⟩ + G.

    The errors of the coordinates are independent with E exp(t·error) = exp(cumulant(t)) for |t| < pole,
    and G is sub-Gaussian: log E exp(λX) ≤ Σ_j cumulant(λ·a_j) + λ²·other_variance/2. The variance of an
    error only guides the choice of λ.
    """
    level = math.log(1 / confidence)
    highest = pole / np.maximum(np.abs(coefficients).max(axis=1), _NOTHING)
    variance = other_variance + error_variance * squared_norms(coefficients)
    normal = np.sqrt(2 * level / np.maximum(variance, _NOTHING**2))
    rates = [share * highest for share in _SHARES]
    rates += [np.minimum(multiple * normal, 0.999 * highest) for multiple in _MULTIPLES]
    best = np.full(len(coefficients), np.inf)
    for rate in rates:
        total = cumulant(rate[:, None] * coefficients).sum(axis=1) + rate**2 * other_variance / 2
        best = np.minimum(best, (level + total) / rate)
    return best
