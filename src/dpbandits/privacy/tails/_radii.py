"""Radii that a random error exceeds with a stated probability at most (docs/theory.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray

# Candidates for Chernoff's λ, as shares of the largest one allowed and as multiples of the best one
# for sub-Gaussian errors; any of them gives a valid bound, so the least may be taken.
_SHARES = np.concatenate([np.geomspace(0.05, 0.5, 12), 1 - np.geomspace(0.45, 1e-3, 30)])
_SAFE = 0.999  # of the largest λ is as far as multiples go
# Noise of at most so many coordinates is looked at more closely, down to such a share of the normal radius.
FEW_COORDINATES, SHORTEST = 8, 0.7
_HALVINGS = 5
_STEEPER = (1.0, 1.2, 1.5, 2.0)
_MULTIPLES = np.array([0.4, 0.6, 0.75, 0.85, 0.95, 1.0])
# A coefficient below this is none: the direction has no error, and its square must not overflow inverted.
NOTHING = 1e-100


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What holds for all rows a that may be asked about, V being the variance of ⟨a, error⟩ + G.

    `least` and `most` bound the share of V that is the error's, `largest` bounds |a_j|/√V.
    """

    least: float
    most: float
    largest: float

    def part(self, of_error: float, *, scale: float) -> Spread:
        """The same of the part of the error that has this share of its variance, with a scaled."""
        return Spread(least=self.least * of_error, most=self.most * of_error, largest=self.largest * scale)


def squared_norms(rows: FloatArray) -> FloatArray:
    """‖a‖² of each row."""
    squared: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return squared


def sub_gaussian_radius(variance: FloatArray, confidence: float) -> FloatArray:
    """√(2·variance·log(1/β)): Chernoff's bound for sub-Gaussian errors."""
    return np.sqrt(variance * (2 * math.log(1 / confidence)))


def gaussian_exceeded(scale: float, value: float) -> float:
    """exp(−value²/(2·scale²)): a sub-Gaussian variable reaches `value` > 0 with no more probability."""
    return math.exp(-((value / scale) ** 2) / 2)


def skellam_exceeded(variance: float, value: float) -> float:
    """P(Z ≥ value), at most, for Skellam Z: Chernoff's bound at its best λ, asinh(value/variance).

    log E exp(λZ) = variance·(cosh λ − 1), and cosh(asinh x) − 1 = √(1 + x²) − 1 = x²/(√(1 + x²) + 1).
    """
    ratio = value / variance
    return math.exp(value * (ratio / (math.hypot(1, ratio) + 1) - math.asinh(ratio)))


def least_whole(enough: Callable[[int], bool]) -> int:
    """The least whole number ≥ 1 that is enough, where every larger one is too."""
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2  # not enough, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def sub_gaussian_factor(confidence: float) -> float:
    """√(2·log(1/β)): what that radius is for variance one."""
    return math.sqrt(2 * math.log(1 / confidence))


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


def shortened_radius(
    radius: FloatArray,
    coefficients: FloatArray,
    variances: FloatArray,
    parts: tuple[FloatArray, FloatArray],
    confidence: float,
) -> FloatArray:
    """A shorter `mixture_radius` for ⟨a, z⟩ + G, z uniform on {−m … m}^s given a radius m, s small.

    `parts` are chances and radii that are not exceeded in each. A sum of few uniform variables has lighter
    tails than a normal one: log E exp(uz_j) = log(sinh((2m+1)u/2)/((2m+1)·sinh(u/2))), which grows with m, so
    that Chernoff's bound with the largest radius of a part holds for all of it. A length is taken only if
    that shows it to be exceeded rarely enough; the shortest is sought by bisection.
    """
    chances, radii = parts
    left = confidence - max(0.0, 1 - float(chances.sum()))
    others = variances[:, 0] - squared_norms(coefficients) * (radii[0] * (radii[0] + 1) / 3)
    safe = np.maximum(variances, np.finfo(float).tiny)
    low, high = SHORTEST * radius, radius
    for _ in range(_HALVINGS):
        tried = (low + high) / 2
        exponent = np.zeros_like(safe)
        for multiple in _STEEPER:
            rates = multiple * tried[:, None] / safe
            total = rates**2 * others[:, None] / 2 - rates * tried[:, None]
            for column in coefficients.T:
                total += _uniform_cumulant(rates * column[:, None], radii)
            exponent = np.minimum(exponent, total)
        enough = np.exp(exponent) @ chances <= left
        low, high = np.where(enough, low, tried), np.where(enough, tried, high)
    return np.asarray(high, dtype=np.float64)


def _uniform_cumulant(argument: FloatArray, radii: FloatArray) -> FloatArray:
    """Of a uniform variable on {−m … m}, without overflow."""
    half = np.maximum(np.abs(argument), 1e-12) / 2
    wide = (2 * radii + 1) * half
    # log sinh(x) = x + log(1 − e^(−2x)) − log 2
    sides = np.log(np.expm1(-2 * wide) / np.expm1(-2 * half))
    return np.asarray(wide - half + sides - np.log(2 * radii + 1), dtype=np.float64)


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
    # The difference of an action to itself has no coefficients: λ is then as large as its square may be.
    highest = pole / np.maximum(np.abs(coefficients).max(axis=1), NOTHING)
    variance = other_variance + error_variance * squared_norms(coefficients)
    normal = np.sqrt(2 * level / np.maximum(variance, NOTHING**2))
    rates = [share * highest for share in _SHARES]
    rates += [np.minimum(multiple * normal, _SAFE * highest) for multiple in _MULTIPLES]
    best = np.full(len(coefficients), np.inf)
    for rate in rates:
        total = cumulant(rate[:, None] * coefficients).sum(axis=1) + rate**2 * other_variance / 2
        best = np.minimum(best, (level + total) / rate)
    return best


def chernoff_factor(
    confidence: float, *, cumulant: Callable[[FloatArray], FloatArray], pole: float, largest: float
) -> float:
    """What `chernoff_radius` is at most, as a multiple of √V.

    With t = λ·|a_j| at most some τ < pole, a cumulant of variance one whose quotient with t²/2 increases is
    at most φ(τ)·t²/2, so λ = m·√(2·log(1/β)/V) gives √(2V·log(1/β))·(1 + m²φ)/(2m). Each multiple m in the
    grid of λ that keeps below the pole bounds the least.
    """
    normal = sub_gaussian_factor(confidence)
    best = math.inf
    for multiple in _MULTIPLES.tolist():
        reached = max(multiple * normal * largest, 1e-6 * pole)  # the quotient needs an argument above zero
        if reached < _SAFE * pole:
            growth = float(cumulant(np.array(reached))) / (reached**2 / 2)
            best = min(best, normal * (1 + multiple**2 * growth) / (2 * multiple))
    return best
