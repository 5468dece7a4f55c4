"""How long a list of directions is, how many of them count as near, and how well the choice follows a vector.

A client with the unit vector v draws a list of `size` random directions, and chooses one: each of the `near`
directions with the largest inner product ⟨u, v⟩ with weight e^ε, each other direction with weight 1. The
inner products are independent and distributed as one coordinate s of a random unit vector. A direction with
inner product s is among the near ones if at most near − 1 of the others exceed s, which has the probability

    P(Bin(size − 1, P(S > s)) ≤ near − 1) = 1 − I_{P(S > s)}(near, size − near)

(regularized incomplete beta function). So the chosen direction has E⟨u, v⟩ and E⟨u, v⟩² as one-dimensional
integrals over the angle, which Gauss–Legendre quadrature computes to about 12 digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray

LARGEST_SIZE = 4096
MOST_ENTRIES = 2**21
"""The most coordinates of all directions of a list together, so that a small device can compute it."""
_SMALLEST_SIZE = 64
_NODES = 600
# The list is long enough that its variance exceeds that of an infinite list by at most this share.
_LOSS = 0.01


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The moments of s = ⟨u, v⟩, where u is the chosen direction and v the client's vector.

    Attributes:
        mean: E s. The estimate of v is u/mean.
        square: E s².
    """

    mean: float
    square: float


@lru_cache(maxsize=1024)
def alignment(coordinates: int, size: int, near: int, ratio: float) -> Alignment:
    """Return the moments for a list.

    Args:
        coordinates: The dimension, at least 2.
        size: The number of directions.
        near: How many of them have the larger weight.
        ratio: The larger weight divided by the smaller one.
    """
    from scipy.special import betainc  # imported here, because clients run without SciPy

    cosines, weights, tails = _sphere(coordinates)
    chosen = weights * (1 + (ratio - 1) * (1 - betainc(near, size - near, tails)))
    total = (near * ratio + size - near) / size
    return Alignment(mean=float(cosines @ chosen) / total, square=float(cosines**2 @ chosen) / total)


@lru_cache(maxsize=1024)
def best_list(coordinates: int, ratio: float) -> tuple[int, int]:
    """Return the size of the list and the number of near directions, for the least variance.

    Args:
        coordinates: The dimension, at least 2.
        ratio: e^ε.
    """
    mean, share = _infinite_list(coordinates, ratio)
    size = _SMALLEST_SIZE
    while True:
        near = _best_near(coordinates, size, ratio, share)
        loss = (alignment(coordinates, size, near, ratio).mean ** -2 - 1) / (mean**-2 - 1) - 1
        if loss <= _LOSS or size == LARGEST_SIZE or 2 * size * coordinates > MOST_ENTRIES:
            return size, near
        size *= 2


def _best_near(coordinates: int, size: int, ratio: float, share: float) -> int:
    """Return the best number of near directions; the mean alignment has one maximum, close to share·size."""

    def mean(near: int) -> float:
        return alignment(coordinates, size, near, ratio).mean

    near = min(max(1, round(share * size)), size - 1)
    while near > 1 and mean(near - 1) > mean(near):
        near -= 1
    while near < size - 1 and mean(near + 1) > mean(near):
        near += 1
    return near


def infinite_list_variance(coordinates: int, epsilon: float) -> float:
    """Return the least total variance of an unbiased ε-private report of a unit vector.

    It is that of PrivUnit with its best cap (Bhowmick et al. 2018), which no unbiased mechanism improves
    (Asi, Feldman and Talwar 2022).
    """
    return float(_infinite_list(coordinates, math.exp(epsilon))[0] ** -2 - 1)


@lru_cache(maxsize=1024)
def _infinite_list(coordinates: int, ratio: float) -> tuple[float, float]:
    """Return the best mean alignment of an infinite list, and the share of near directions that has it.

    The near directions are those with s ≥ cos φ. Their share is P(S > cos φ), and the integral of s over them
    is sin^(d−1) φ divided by (d − 1)·∫₀^π sin^(d−2).
    """
    cosines, _, tails = _sphere(coordinates)
    angles = np.arccos(cosines)
    whole = math.sqrt(math.pi) * math.exp(math.lgamma((coordinates - 1) / 2) - math.lgamma(coordinates / 2))
    moments = np.sin(angles) ** (coordinates - 1) / ((coordinates - 1) * whole)
    means = (ratio - 1) * moments / ((ratio - 1) * tails + 1)
    best = int(np.argmax(means))
    return float(means[best]), float(tails[best])


@lru_cache(maxsize=64)
def _sphere(coordinates: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes s, their weights for one coordinate of a random unit vector, and P(S > s)."""
    from scipy.special import betainc, roots_legendre

    nodes, weights = roots_legendre(_NODES)
    # Beyond 14 standard deviations from a right angle the density is below e⁻⁹⁰.
    angles = math.pi / 2 + nodes * min(math.pi / 2, 14 / math.sqrt(coordinates - 1))
    density = weights * np.sin(angles) ** (coordinates - 2)
    cosines = np.cos(angles)
    beyond = betainc((coordinates - 1) / 2, 0.5, np.sin(angles) ** 2) / 2
    tails = np.where(cosines > 0, beyond, 1 - beyond)
    return cosines, density / density.sum(), tails
