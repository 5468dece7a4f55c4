"""Radii of sums of points that are uniform on cubes with random radii, from their exact moments.

Given its radius m, a row z of K-norm noise is uniform on {−m … m}^s. With an independent V, uniform on
[−½, ½]^s, z + V has the distribution of N·V, N = 2m + 1. So for every u

    E exp(⟨u, z⟩) = Σ_k E N^(2k)·E⟨u, V⟩^(2k)/(2k)! / Σ_k E⟨u, V⟩^(2k)/(2k)!

All terms are positive, and E N^(2k) has a closed form (docs/theory.md). Both sums are cut after k = TERMS. A
shorter denominator only increases the quotient. The rest of the numerator is bounded by a geometric series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy.tails._radii import NOTHING, SHORTEST, Spread, squared_norms, sub_gaussian_factor

TERMS = 32
"""The last power of ⟨u, V⟩² in the series."""
# Candidates for λ, as multiples of the best one for normal errors; every one gives a valid bound.
_MULTIPLES = np.concatenate([np.linspace(0.3, 1.2, 19), [1.3, 1.45, 1.6, 1.8, 2.0]])
_CONVERGES = 0.9  # the largest ratio of the geometric series that bounds the rest


@dataclass(frozen=True, kw_only=True)
class Cubes:
    """The distribution of one point.

    Attributes:
        coordinates: s, the number of coordinates.
        moments: p^(2k)·E N^(2k)/(2^(2k)·(2k)!) for k = 0 … TERMS. It is at most C(s + 2k, 2k), and the
            quotient of E N^(2k+2) and E N^(2k) is at most (2/p)²·(s + 2k + 1)·(s + 2k + 2).
        stop: p, the success probability of the negative binomial variable in the radius.
        variance: An upper bound on the variance of one coordinate.
    """

    coordinates: int
    moments: FloatArray
    stop: float
    variance: float

    @property
    def growth(self) -> float:
        """The largest ratio of successive terms after TERMS, where (λ·‖a‖₁/p)² = 1."""
        last, s = 2 * TERMS, self.coordinates
        return (s + last + 1) * (s + last + 2) / ((last + 1) * (last + 2))


def cube_sum_radius(
    coefficients: FloatArray, other_variance: FloatArray, confidence: float, *, cubes: Cubes, rows: int
) -> FloatArray:
    """Return radii for ⟨a, z₁ + … + z_rows⟩ + G, by Chernoff's bound with exact moments.

    Args:
        coefficients: One row a per radius.
        other_variance: The variance proxy of the independent sub-Gaussian variable G, per row.
        confidence: The allowed probability β of exceeding the radius.
        cubes: The law of each z.
        rows: The number of independent z.

    Returns:
        One radius per row, at least SHORTEST times the sub-Gaussian one.
    """
    level = math.log(1 / confidence)
    lengths = np.maximum(np.abs(coefficients).sum(axis=1), NOTHING)
    powers = _even_moments(np.abs(coefficients) / lengths[:, None])
    variance = other_variance + rows * cubes.variance * squared_norms(coefficients)
    normal = np.sqrt(2 * level / np.maximum(variance, NOTHING**2))
    highest = cubes.stop * math.sqrt(_CONVERGES / cubes.growth) / lengths
    best = np.full(len(coefficients), np.inf)
    for multiple in _MULTIPLES.tolist():
        rate = np.minimum(multiple * normal, highest)
        cumulant = _cumulant(powers, (rate * lengths / cubes.stop) ** 2, cubes)
        best = np.minimum(best, (level + rows * cumulant + rate**2 * other_variance / 2) / rate)
    return np.asarray(np.maximum(best, SHORTEST * np.sqrt(2 * level * variance)), dtype=np.float64)


def cube_sum_factors(spread: Spread, confidence: float, *, cubes: Cubes, rows: int) -> tuple[float, float]:
    """Return bounds on `cube_sum_radius`, as multiples of the total standard deviation √V.

    Of all a with the same ‖a‖₂, the diagonal ones have the largest moments and the largest ‖a‖₁. So the upper
    bound is that of a diagonal row with the largest share of V. The denominator of the quotient is left out.

    Args:
        spread: Bounds that hold for all rows a, for the error z₁ + … + z_rows.
        confidence: The allowed probability β of exceeding the radius.
        cubes: The law of each z.
        rows: The number of independent z.

    Returns:
        The lower and the upper bound.
    """
    level, normal = math.log(1 / confidence), sub_gaussian_factor(confidence)
    s = cubes.coordinates
    length = math.sqrt(s * spread.most / (rows * cubes.variance))
    powers = _even_moments(np.full((1, s), 1 / s))
    best = math.inf
    for multiple in _MULTIPLES.tolist():
        rate = multiple * normal
        square = (rate * length / cubes.stop) ** 2
        if square * cubes.growth <= _CONVERGES:
            cumulant = float(_cumulant(powers, np.array([square]), cubes, whole=False)[0])
            best = min(best, (level + rows * cumulant + rate**2 * (1 - spread.least) / 2) / rate)
    return SHORTEST * normal, max(best, SHORTEST * normal)


def _cumulant(powers: FloatArray, squares: FloatArray, cubes: Cubes, *, whole: bool = True) -> FloatArray:
    """Return log E exp(λ⟨a, z⟩) at `squares` = (λ·‖a‖₁/p)², with the rest of the series bounded.

    With `whole` false, the denominator is left out: the result is log E exp(λ⟨a, z + V⟩), which is larger.
    """
    terms = powers * cubes.moments * squares[:, None] ** np.arange(TERMS + 1)
    ratio = squares * cubes.growth
    above = terms[:, 1:].sum(axis=1) + terms[:, -1] * ratio / (1 - ratio)
    found = np.log1p(above)
    if whole:
        factors = _inverse_factorials() * (cubes.stop / 2) ** (2 * np.arange(TERMS + 1))
        below = powers * factors * squares[:, None] ** np.arange(TERMS + 1)
        found -= np.log1p(below[:, 1:].sum(axis=1))
    return np.asarray(found, dtype=np.float64)


def _even_moments(shares: FloatArray) -> FloatArray:
    """Return E Y^(2k) for k = 0 … TERMS, Y = Σ_j α_j·W_j, W_j uniform on [−1, 1], for each row α.

    E Y^(2k)/(2k)! is a coefficient of the product of the series Σ_k (α_j·x)^(2k)/(2k + 1)!.
    """
    orders = np.arange(TERMS + 1)
    product = np.zeros((len(shares), TERMS + 1))
    product[:, 0] = 1.0
    odd_factorials = _inverse_factorials() / (2 * orders + 1)
    for share in shares.T:
        series = share[:, None] ** (2 * orders) * odd_factorials
        longer = product.copy()
        for order in range(1, TERMS + 1):
            longer[:, order:] += product[:, : TERMS + 1 - order] * series[:, order : order + 1]
        product = longer
    return np.asarray(product / _inverse_factorials(), dtype=np.float64)


def _inverse_factorials() -> FloatArray:
    """Return 1/(2k)! for k = 0 … TERMS."""
    return np.array([1 / math.factorial(2 * order) for order in range(TERMS + 1)])
