"""Radii for means of independent errors that are bounded and have a known variance.

Let X be centred, with variance v, absolute value at most b, and values in an interval of length s. Then

    log E exp(λX) ≤ (v/b²)·(e^(λb) − 1 − λb)   for λ ≥ 0 (Bennett)
    log E exp(λX) ≤ λ²·s²/8                    (Hoeffding)

(docs/theory.md). Both right sides divided by λ² never decrease in λ, and Bennett's tends to v/2 for λ → 0. So
for means of many such variables the radius is nearly that of a normal variable with the same variance.
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
    """The error of one report.

    Attributes:
        variance: An upper bound on the variance.
        largest: An upper bound on the absolute value.
        span: An upper bound on the difference of two values.
    """

    variance: float
    largest: float
    span: float

    @property
    def pole(self) -> float:
        """The upper limit of the arguments for which the cumulant is used."""
        return _LARGEST_ARGUMENT / self.largest

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return an upper bound on log E exp(argument·X).

        Args:
            argument: The arguments.
        """
        return self.variance * argument**2 / 2 * self.growth(np.abs(argument))

    def growth(self, argument: FloatArray) -> FloatArray:
        """Return the bound on the cumulant, divided by that of a normal variable with the same variance.

        Args:
            argument: The arguments, at least 0.
        """
        x = np.clip(argument * self.largest, 1e-4, 600.0)
        # Below 10⁻⁴ the quotient loses digits; its value there is an upper bound for smaller arguments.
        bennett = (np.expm1(x) - x) / (x**2 / 2) * (1 + 1e-7)
        hoeffding = max(1.0, self.span**2 / (4 * self.variance))
        return np.minimum(np.where(argument * self.largest > 600, np.inf, bennett), hoeffding)


def bounded_radius(
    lengths: FloatArray,
    other_variance: FloatArray,
    confidence: float,
    *,
    errors: BoundedErrors,
    count: int,
) -> FloatArray:
    """Return radii for ⟨a, mean of `count` errors⟩ + G, by Chernoff's bound.

    Args:
        lengths: |a| for each row a. The bounds of `errors` hold for every unit vector a.
        other_variance: The variance proxy of the independent sub-Gaussian variable G, per row.
        confidence: The allowed probability β of exceeding the radius.
        errors: The error of one report.
        count: The number of reports.

    Returns:
        One radius per row.
    """
    level = math.log(1 / confidence)
    own = errors.variance / count * lengths**2
    best = np.full(len(lengths), np.inf)
    for multiple in _MULTIPLES.tolist():
        rate = multiple * np.sqrt(2 * level / np.maximum(other_variance + own, NOTHING**2))
        total = other_variance + own * errors.growth(rate * lengths / count)
        best = np.minimum(best, level / rate + rate / 2 * total)
    return best


def bounded_factors(
    confidence: float, *, errors: BoundedErrors, count: int, longest: float
) -> tuple[float, float]:
    """Return bounds on `bounded_radius`, as multiples of the total standard deviation √V.

    Args:
        confidence: The allowed probability β of exceeding the radius.
        errors: The error of one report.
        count: The number of reports.
        longest: An upper bound on |a|/√V.

    Returns:
        The lower and the upper bound.
    """
    normal = sub_gaussian_factor(confidence)
    growths = errors.growth(_MULTIPLES * normal * longest / count)
    return normal, float(np.min(normal * (1 + _MULTIPLES**2 * growths) / (2 * _MULTIPLES)))
