"""Radii for means of independent errors that are bounded and have a known variance, by Bennett's inequality.

A centred variable of variance v whose absolute value is at most b has

    log E exp(λX) ≤ (v/b²)·(e^(λb) − 1 − λb),   λ ≥ 0

(docs/theory.md). The right side divided by λ² increases with λ, and tends to v/2 for λ → 0: for means of many
such variables the radius is nearly the one of a normal variable with the same variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy.tails._radii import NOTHING, sub_gaussian_factor

# Candidates for λ, as multiples of the best one for normal errors; every one gives a valid bound.
_MULTIPLES = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 1.0])
_LARGEST_ARGUMENT = 4.0


@dataclass(frozen=True, kw_only=True)
class BoundedErrors:
    """Independent errors with a known variance and a known largest absolute value.

    Attributes:
        variance: An upper bound on the variance.
        largest: An upper bound on the absolute value.
    """

    variance: float
    largest: float

    @property
    def pole(self) -> float:
        """The upper limit of the arguments for which the cumulant is used."""
        return _LARGEST_ARGUMENT / self.largest

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return Bennett's bound on log E exp(argument·X)."""
        return self.variance * argument**2 / 2 * _growth(np.abs(argument) * self.largest)


def bennett_radius(
    lengths: FloatArray, other_variance: FloatArray, confidence: float, *, variance: float, largest: float
) -> FloatArray:
    """Return radii for ⟨a, error⟩ + G if the error is a mean of independent bounded vectors.

    Bennett: a centred variable of variance v that is at most b has log E exp(λX) ≤ (v/b²)·(e^(λb) − 1 − λb).
    Every λ gives a valid bound; the code takes the least over a few.

    Args:
        lengths: |a| for each row a.
        other_variance: The variance proxy of G, per row.
        confidence: The allowed probability β of exceeding the radius.
        variance: An upper bound on the variance of the mean in any direction.
        largest: An upper bound on the length of one vector divided by their number.

    Returns:
        One radius per row.
    """
    level = math.log(1 / confidence)
    total = np.maximum(other_variance + variance * lengths**2, NOTHING**2)
    best = np.full(len(lengths), np.inf)
    for multiple in _MULTIPLES.tolist():
        rate = multiple * np.sqrt(2 * level / total)
        own = variance * lengths**2 * _growth(rate * lengths * largest)
        best = np.minimum(best, level / rate + rate / 2 * (other_variance + own))
    return best


def bennett_factors(confidence: float, *, largest: float) -> tuple[float, float]:
    """Return bounds on `bennett_radius`, as multiples of √V.

    Args:
        confidence: The allowed probability β of exceeding the radius.
        largest: An upper bound on `largest`·|a|/√V.
    """
    normal = sub_gaussian_factor(confidence)
    growths = _growth(_MULTIPLES * normal * largest)
    return normal, float(np.min(normal * (1 + _MULTIPLES**2 * growths) / (2 * _MULTIPLES)))


def _growth(argument: FloatArray) -> FloatArray:
    """Return (e^x − 1 − x)/(x²/2), which increases from 1 at 0."""
    far = np.clip(argument, 1e-4, 600.0)
    growth = (np.expm1(far) - far) / (far**2 / 2)
    # Below 10⁻⁴ the quotient loses digits; its value there is an upper bound for smaller arguments.
    return np.where(argument > 600, np.inf, growth * (1 + 1e-7))
