"""Finite sets of actions that stand for continuous ones.

Every point of the box, ball or simplex lies within the cover's radius ε₀ of one of its points. A reward
⟨θ*, x⟩ changes by at most ε₀·‖θ*‖ over that distance, so the best point of the cover loses no more than
that to the best of all: playing the cover costs at most ε₀·‖θ*‖ of regret a round, beside that of learning.

    box       the cube with corners on the unit sphere, [−1/√d, 1/√d]^d
    ball      the unit ball
    simplex   the mixtures of d things: x ≥ 0 with sum one

All points lie in the unit ball, as actions must. Their number grows like (1/ε₀)^d; it is computed before any
point is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, positive, whole
from dpbandits.errors import InvalidValue

_ROUNDING = 1e-12  # a bound that is whole but for rounding is taken as whole
_COUNTED = 10**7  # points that are counted one by one
_FINEST = 2**20  # steps to a unit length beyond which nobody asks for a cover


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """Points of a continuous set such that no point of the set is farther than `radius` from all of them."""

    kind: str
    points: FloatArray
    radius: float

    @property
    def loss(self) -> float:
        """What the best point may lose to the best of all, per round and unit of ‖θ*‖."""
        return self.radius


def cover(kind: str, *, dimension: int, radius: float, count_limit: int = 1_000_000) -> Cover:
    """Cover a box, ball or simplex within `radius`, with at most `count_limit` points."""
    count = cover_size(kind, dimension=dimension, radius=radius)
    if count > whole(1, count_limit=count_limit):
        enough = _smallest_radius(kind, dimension, count_limit)
        raise InvalidValue(
            "radius",
            f"{radius:g}, which needs {_shown(count)} points",
            f"at least {enough:.3g} for {count_limit:,} points, or a larger count-limit",
        )
    fineness = _KINDS[kind].fineness(dimension, radius)
    points = _KINDS[kind].points(dimension, fineness)
    points.setflags(write=False)
    return Cover(kind=kind, points=points, radius=_KINDS[kind].radius(dimension, fineness))


def cover_size(kind: str, *, dimension: int, radius: float) -> int:
    """The number of points of that cover: exactly, or a bound from below if it exceeds ten million."""
    one_of(KINDS, kind=kind)
    whole(1, dimension=dimension)
    if positive(radius=radius) < 1 / _FINEST:
        raise InvalidValue("radius", radius, f"at least {1 / _FINEST:.1g}")
    return _KINDS[kind].count(dimension, _KINDS[kind].fineness(dimension, radius))


def _smallest_radius(kind: str, dimension: int, count_limit: int) -> float:
    """Search for a radius, to three digits, that needs at most this many points; radius 2 needs few."""
    low, high = 1 / _FINEST, 2.0
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        enough = cover_size(kind, dimension=dimension, radius=middle) <= count_limit
        low, high = (low, middle) if enough else (middle, high)
    return high * 1.005  # so that three printed digits are enough too


def _shown(count: int) -> str:
    return f"{count:,}" if count <= _COUNTED else f"at least 10^{len(str(count)) - 1}"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How to cover one kind of set; `fineness` is a whole number from which all else follows."""

    fineness: Callable[[int, float], int]
    radius: Callable[[int, int], float]
    count: Callable[[int, int], int]
    points: Callable[[int, int], FloatArray]


def _at_least(value: float) -> int:
    return max(1, math.ceil(value * (1 - _ROUNDING)))


# Box. The centres of m^d equal cells: a cell's corner is √d · (1/√d)/m = 1/m from its centre.


def _box_points(dimension: int, cells: int) -> FloatArray:
    axis = (2 * np.arange(cells) + 1 - cells) / (cells * math.sqrt(dimension))
    grid = np.meshgrid(*[axis] * dimension, indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, dimension)


# Ball. The centre alone has radius one. Otherwise: of the lattice s·Z^d, whose cells are cubes of diagonal
# s√d = 2ε₀, those points whose cell meets the ball: the cell's nearest point to the origin has coordinates
# s·max(|z| - 1/2, 0). Points outside the ball are moved to its surface, which brings none of them farther
# from any point of the ball. With ε₀² = s²d/4 = 1/n for a whole number n, the condition
# Σ max(2|z| - 1, 0)² ≤ 4/s² = d n is one on whole numbers.


def _ball_shells(dimension: int, fineness: int) -> list[int]:
    """Squares max(2|z| - 1, 0)² for z = 0, 1, ... that are small enough."""
    largest = (math.isqrt(dimension * fineness) + 1) // 2
    return [max(2 * z - 1, 0) ** 2 for z in range(largest + 1)]


def _ball_count(dimension: int, fineness: int) -> int:
    """Count by sums of squares, one dimension after the other; the last has 2⌊(⌊√rest⌋+1)/2⌋ + 1 places."""
    if fineness == 1:
        return 1
    at_least = _ball_volume_bound(dimension, fineness)
    if at_least > _COUNTED:
        return at_least
    limit, shells = dimension * fineness, np.array(_ball_shells(dimension, fineness))
    sums, ways = np.zeros(1, dtype=np.int64), np.ones(1)
    for _ in range(dimension - 1):
        together = np.add.outer(sums, shells)
        numbers = np.multiply.outer(ways, np.where(shells == shells[0], 1.0, 2.0))
        near = together <= limit
        sums, places = np.unique(together[near], return_inverse=True)
        ways = np.bincount(places, weights=numbers[near]).astype(np.float64)
    roots = np.floor(np.sqrt(limit - sums) + _ROUNDING)
    return int(ways @ (2 * np.floor((roots + 1) / 2) + 1))


def _ball_volume_bound(dimension: int, fineness: int) -> int:
    """The cells cover the ball, so they are no fewer than its volume over theirs, s^d for s = 2ε₀/√d."""
    side = 2 * _ball_radius(dimension, fineness) / math.sqrt(dimension)
    volume = dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)
    return int(10 ** min((volume - dimension * math.log(side)) / math.log(10), 300))


def _ball_points(dimension: int, fineness: int) -> FloatArray:
    if fineness == 1:  # the centre alone
        return np.zeros((1, dimension))
    shells = np.array(_ball_shells(dimension, fineness))
    steps = np.arange(1 - shells.size, shells.size)
    squares = shells[np.abs(steps)]
    lattice, sums = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
    for _ in range(dimension):
        together = sums[:, np.newaxis] + squares
        before, now = np.nonzero(together <= dimension * fineness)
        lattice, sums = np.column_stack([lattice[before], steps[now]]), together[before, now]
    points = lattice * (2 * _ball_radius(dimension, fineness) / math.sqrt(dimension))
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0)
    unique: FloatArray = np.unique(points, axis=0)
    return unique


def _ball_radius(_: int, fineness: int) -> float:
    return 1 / math.sqrt(fineness)


# Simplex. The points with coordinates z/m for whole z ≥ 0 of sum m. They are part of the lattice A_{d-1} with
# covering radius √(a (d - a) / d) for a = ⌊d/2⌋ (Conway and Sloane, *Sphere Packings*, chapter 4). A nearest
# lattice point is found by rounding coordinates down or up, so in the simplex it has no negative ones.


def _simplex_deepest(dimension: int) -> float:
    half = dimension // 2
    return math.sqrt(half * (dimension - half) / dimension)


def _simplex_points(dimension: int, parts: int) -> FloatArray:
    lattice, left = np.zeros((1, 0), dtype=np.int64), np.array([parts])
    for _ in range(dimension - 1):
        before = np.repeat(np.arange(left.size), left + 1)
        firsts = np.cumsum(left + 1) - (left + 1)
        now = np.arange(before.size) - firsts[before]
        lattice, left = np.column_stack([lattice[before], now]), left[before] - now
    return np.column_stack([lattice, left]) / parts


_KINDS = {
    "box": _Kind(
        fineness=lambda _, radius: _at_least(1 / radius),
        radius=lambda _, cells: 1 / cells,
        count=lambda dimension, cells: cells**dimension,
        points=_box_points,
    ),
    "ball": _Kind(
        fineness=lambda _, radius: _at_least(1 / radius**2),
        radius=_ball_radius,
        count=_ball_count,
        points=_ball_points,
    ),
    "simplex": _Kind(
        fineness=lambda dimension, radius: _at_least(_simplex_deepest(dimension) / radius),
        radius=lambda dimension, parts: _simplex_deepest(dimension) / parts,
        count=lambda dimension, parts: math.comb(parts + dimension - 1, dimension - 1),
        points=_simplex_points,
    ),
}
KINDS = tuple(_KINDS)
