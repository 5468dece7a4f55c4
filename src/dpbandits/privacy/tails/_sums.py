"""Radii of sums of independent errors with different distributions, from their cumulants.

Chernoff: P(Σ b_x·Z_x + G > w) ≤ exp(Σ κ_x(λb_x) + λ²q/2 − λw), where κ_x is the cumulant of Z_x and G is
sub-Gaussian with proxy q. For Laplace, Pólya and Skellam noise κ is even and κ(t)/t² increases with |t|
(docs/theory.md). So with poles p_x, beyond which κ_x is not used, and any u ≥ λ·max|b_x|/p_x,

    κ_x(λb_x) ≤ λ²·b_x²·c_x(u),   c_x(u) = κ_x(u·p_x)/(u·p_x)².

Σ b_x²·c_x(u) for a grid of u is one matrix product. After that, each λ costs one number per row.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy.tails._radii import NOTHING

# u is rounded up to the next grid point. Below the first one c grows so slowly that its value there is used.
_GRID = np.concatenate([[0.01, 0.05, 0.1], np.linspace(0.15, 0.95, 33), [0.97, 0.98, 0.99]])
# Candidates for λ, as multiples of the best one for normal errors; every one gives a valid bound.
_MULTIPLES = np.concatenate([np.linspace(0.3, 1, 29), [1.1, 1.25]])
# The number of rows per block, chosen so that intermediate results stay in the processor's cache.
_BLOCK = 256


class Cumulant(Hashable, Protocol):
    """An error whose cumulant κ is known: even, and with κ(t)/t² increasing in |t|."""

    @property
    def pole(self) -> float:
        """The upper limit of the arguments for which the cumulant is used."""

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return an upper bound on log E exp(argument·Z)."""


@dataclass(frozen=True, kw_only=True)
class SummedErrors:
    """The error `unit`·(Z₁ + … + Z_count) + G of one mean, with independent Z_i of one distribution.

    Attributes:
        law: The distribution of Z.
        count: The number of summands.
        unit: The factor.
        other_variance: The variance proxy of the independent sub-Gaussian variable G.
    """

    law: Cumulant
    count: int
    unit: float
    other_variance: float = 0.0


def joint_radius(
    coefficients: FloatArray, other_variance: FloatArray, confidence: float, *, errors: Sequence[SummedErrors]
) -> FloatArray:
    """Return a value that ⟨b, errors⟩ + G exceeds with probability at most `confidence`, for each row b.

    Args:
        coefficients: One row b per radius, and one column per error.
        other_variance: The variance proxy of the independent sub-Gaussian variable G, per row.
        confidence: The allowed probability of exceeding the radius.
        errors: Independent errors.

    Returns:
        One radius per row.
    """
    other_variance = other_variance + coefficients**2 @ np.array([error.other_variance for error in errors])
    coefficients = coefficients * np.array([error.unit for error in errors])
    laws, shares = [error.law for error in errors], [error.count for error in errors]
    poles = np.array([law.pole for law in laws])
    slopes = np.array(shares).reshape(len(laws), 1) * np.stack([_slopes(law) for law in laws])
    spread = coefficients**2 @ slopes  # one number per row and grid point u
    peak = np.maximum(np.max(np.abs(coefficients) / poles, axis=1), NOTHING)
    level = math.log(1 / confidence)
    normal = np.sqrt(2 * level / np.maximum(other_variance + 2 * spread[:, 0], NOTHING**2))
    best = np.empty(len(coefficients))
    for start in range(0, len(best), _BLOCK):
        part = slice(start, start + _BLOCK)
        best[part] = _least(spread[part], other_variance[part], normal[part], peak[part], level)
    return best


def _least(
    spread: FloatArray, other_variance: FloatArray, normal: FloatArray, peak: FloatArray, level: float
) -> FloatArray:
    """Return Chernoff's bound at the best candidate for λ, for each row."""
    # The candidates of a row increase, so np.searchsorted finds each next place quickly.
    rates = np.minimum(normal[:, None] * _MULTIPLES, (_GRID[-1] * (1 - 1e-9) / peak)[:, None])
    places = np.searchsorted(_GRID, rates * peak[:, None])
    places += (np.arange(len(spread)) * spread.shape[1])[:, None]
    exponents = spread.take(places)
    exponents += (other_variance / 2)[:, None]
    exponents *= rates
    exponents += level / rates
    return np.asarray(exponents.min(axis=1), dtype=np.float64)


@lru_cache(maxsize=1024)
def _slopes(law: Cumulant) -> FloatArray:
    """Return c(u) on the grid, for one share."""
    arguments = _GRID * law.pole
    return np.asarray(law.cumulant(arguments) / arguments**2, dtype=np.float64)
