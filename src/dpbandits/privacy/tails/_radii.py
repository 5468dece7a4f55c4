"""Radii that one random error exceeds with at most a given probability (docs/theory.md).

Throughout, β is the argument `confidence`: the allowed probability that the radius is exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray

# Candidates for λ in Chernoff's bound: as shares of the largest one allowed, and as multiples of the best one
# for sub-Gaussian errors. Every λ gives a valid bound, so the code takes the least.
_SHARES = np.concatenate([np.geomspace(0.05, 0.5, 12), 1 - np.geomspace(0.45, 1e-3, 30)])
_SAFE = 0.999  # multiples are limited to this share of the largest λ
# Noise with at most FEW_COORDINATES coordinates gets a tighter bound, down to SHORTEST times the normal
# radius.
FEW_COORDINATES, SHORTEST = 8, 0.7
_HALVINGS = 5
_STEEPER = (1.0, 1.2, 1.5, 2.0)
_MULTIPLES = np.array([0.4, 0.6, 0.75, 0.85, 0.95, 1.0])
# Coefficients below this count as zero: the direction has no error, and the inverse square must not overflow.
NOTHING = 1e-100


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Bounds that hold for all rows a of interest, where V is the variance of ⟨a, error⟩ + G.

    Attributes:
        least: A lower bound on the error's share of V.
        most: An upper bound on the error's share of V.
        largest: An upper bound on |a_j|/√V.
    """

    least: float
    most: float
    largest: float

    def part(self, of_error: float, *, scale: float) -> Spread:
        """Return the bounds for a part of the error.

        Args:
            of_error: The part's share of the variance of the error.
            scale: The factor by which the coefficients a are multiplied.
        """
        return Spread(least=self.least * of_error, most=self.most * of_error, largest=self.largest * scale)


def squared_norms(rows: FloatArray) -> FloatArray:
    """Return ‖a‖² of each row.

    Args:
        rows: One vector a per row.

    Example:
        >>> import numpy as np
        >>> from dpbandits.privacy.tails import squared_norms
        >>> squared_norms(np.array([[3.0, 4.0], [1.0, 0.0]]))
        array([25.,  1.])
    """
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def sub_gaussian_radius(variance: FloatArray, confidence: float) -> FloatArray:
    """Return √(2·variance·log(1/β)): Chernoff's bound for sub-Gaussian errors.

    Args:
        variance: The variance proxies.
        confidence: The allowed probability β of exceeding the radius.

    Returns:
        One radius per variance.

    Example:
        >>> import numpy as np
        >>> from dpbandits.privacy.tails import sub_gaussian_radius
        >>> sub_gaussian_radius(np.array([1.0, 4.0]), confidence=0.05).round(3)
        array([2.448, 4.895])
    """
    return np.sqrt(variance * (2 * math.log(1 / confidence)))


def gaussian_exceeded(scale: float, value: float) -> float:
    """Return exp(−value²/(2·scale²)), an upper bound on P(Z ≥ value) for sub-Gaussian Z.

    Args:
        scale: The square root of the variance proxy.
        value: A value above 0.
    """
    return math.exp(-((value / scale) ** 2) / 2)


def skellam_exceeded(variance: float, value: float) -> float:
    """Return an upper bound on P(Z ≥ value) for Skellam Z.

    It is Chernoff's bound at the best λ, asinh(value/variance). log E exp(λZ) = variance·(cosh λ − 1), and
    cosh(asinh x) − 1 = √(1 + x²) − 1 = x²/(√(1 + x²) + 1); the last form does not cancel for small x.

    Args:
        variance: The variance of Z.
        value: A value above 0.
    """
    ratio = value / variance
    return math.exp(value * (ratio / (math.hypot(1, ratio) + 1) - math.asinh(ratio)))


def least_whole(enough: Callable[[int], bool]) -> int:
    """Return the least whole number ≥ 1 that is enough.

    Args:
        enough: Returns whether a number is enough. If a number is enough, every larger one must be, too.
    """
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2  # the last number that was not enough, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def sub_gaussian_factor(confidence: float) -> float:
    """Return √(2·log(1/β)): the sub-Gaussian radius for variance one.

    Args:
        confidence: The allowed probability β of exceeding the radius.
    """
    return math.sqrt(2 * math.log(1 / confidence))


def mixture_radius(variances: FloatArray, chances: FloatArray, confidence: float) -> FloatArray:
    """Return radii for errors that are sub-Gaussian given a hidden part j.

    Part j has probability c_j and variance v_j. Then P(error > w) ≤ Σ_j c_j·exp(−w²/(2v_j)) plus the
    probability that no part covers. The radius is the least such w for each row of variances, found by
    bisection from above.

    Args:
        variances: One row per error and one column per part.
        chances: The probability of each part; their sum may be slightly below one.
        confidence: The allowed probability β of exceeding the radius.

    Returns:
        One radius per row.
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
    """Return a shorter `mixture_radius` for ⟨a, z⟩ + G with few coordinates.

    Here z is uniform on {−m … m}^s given a radius m, and s is small. A sum of few uniform variables has
    lighter tails than a normal one: log E exp(uz_j) = log(sinh((2m+1)u/2)/((2m+1)·sinh(u/2))). This increases
    with m, so Chernoff's bound with the largest radius of a part holds for the whole part. A length is
    accepted only if this bound is small enough; the shortest is found by bisection.

    Args:
        radius: The radii to shorten, from `mixture_radius`.
        coefficients: One row a per radius.
        variances: The variances that were given to `mixture_radius`.
        parts: The probability of each part, and an upper bound on m in each part.
        confidence: The allowed probability β of exceeding the radius.

    Returns:
        One radius per row, between SHORTEST times the given one and the given one.
    """
    chances, radii = parts
    left = confidence - max(0.0, 1 - float(chances.sum()))
    # The variance of G alone: remove the part of the uniform noise from the first column.
    others = variances[:, 0] - squared_norms(coefficients) * (radii[0] * (radii[0] + 1) / 3)
    safe = np.maximum(variances, np.finfo(float).tiny)
    low, high = SHORTEST * radius, radius
    for _ in range(_HALVINGS):
        tried = (low + high) / 2
        exponent = np.zeros_like(safe)
        # Try λ at and above the best value for normal errors; lighter tails favour larger λ.
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
    """Return the cumulant of a uniform variable on {−m … m}, without overflow."""
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
    """Return the least (log(1/β) + log E exp(λX))/λ over a grid of λ, X = ⟨a, error⟩ + G.

    The errors of the coordinates are independent with E exp(t·error) = exp(cumulant(t)) for |t| < pole, and G
    is sub-Gaussian: log E exp(λX) ≤ Σ_j cumulant(λ·a_j) + λ²·other_variance/2.

    Args:
        coefficients: One row a per radius.
        other_variance: The variance proxy of G, per row.
        confidence: The allowed probability β of exceeding the radius.
        cumulant: The logarithm of the moment generating function of one coordinate's error.
        pole: The upper limit of the arguments of `cumulant`.
        error_variance: The variance of one coordinate's error; it only guides the choice of λ.

    Returns:
        One radius per row.
    """
    level = math.log(1 / confidence)
    # λ·|a_j| must stay below the pole in every coordinate. The difference between an action and itself has
    # zero coefficients; then λ is limited only so that its square does not overflow.
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
    """Return an upper bound on `chernoff_radius`, as a multiple of √V.

    Let t = λ·|a_j| be at most τ < pole. If the quotient of the cumulant (of variance one) and t²/2 increases
    in t, the cumulant is at most φ(τ)·t²/2. Then λ = m·√(2·log(1/β)/V) gives √(2V·log(1/β))·(1 + m²φ)/(2m).
    Each multiple m in the grid of λ that stays below the pole is an upper bound on the least.

    Args:
        confidence: The allowed probability β of exceeding the radius.
        cumulant: The cumulant of an error of variance one.
        pole: The upper limit of the arguments of `cumulant`.
        largest: An upper bound on |a_j|/√V.

    Returns:
        The factor, or infinity if every multiple is beyond the pole.
    """
    normal = sub_gaussian_factor(confidence)
    best = math.inf
    for multiple in _MULTIPLES.tolist():
        reached = max(multiple * normal * largest, 1e-6 * pole)  # above zero, where the quotient is defined
        if reached < _SAFE * pole:
            growth = float(cumulant(np.array(reached))) / (reached**2 / 2)
            best = min(best, normal * (1 + multiple**2 * growth) / (2 * multiple))
    return best
