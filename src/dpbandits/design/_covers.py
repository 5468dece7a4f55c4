"""Finite sets of actions that approximate a continuous action set.

Every point of the box, ball or simplex lies within the radius ε₀ of some point of the cover. A reward ⟨θ*,
x⟩ changes by at most ε₀·‖θ*‖ over that distance. So playing the cover costs at most ε₀·‖θ*‖ of regret per
round, in addition to the cost of learning.

    box       the cube with corners on the unit sphere, [−1/√d, 1/√d]^d
    ball      the unit ball
    simplex   the mixtures of d components: x ≥ 0 with sum one

All points lie in the unit ball, as actions must. Their number grows like (1/ε₀)^d. It is computed before the
points are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, positive, whole
from dpbandits.errors import InvalidValue

_ROUNDING = 1e-12  # relative; values this close to a whole number count as whole
_COUNTED = 10**7  # larger counts are bounded, not computed exactly
_FINEST = 2**20  # a radius must be at least 1/_FINEST


@dataclass(frozen=True, kw_only=True, eq=False)
class Cover:
    """Points of a continuous set; every point of the set is within `radius` of one of them.

    Attributes:
        kind: `box`, `ball` or `simplex`.
        points: One point per row.
        radius: The covering radius; it may be smaller than the requested one.

    Example:
        >>> from dpbandits.design import cover
        >>> covered = cover("ball", dimension=2, radius=0.3)
        >>> covered.points.shape[1]
        2
    """

    kind: str
    points: FloatArray
    radius: float

    @property
    def loss(self) -> float:
        """An upper bound on the regret per round against the continuous set, for ‖θ*‖ = 1."""
        return self.radius


def cover(kind: str, *, dimension: int, radius: float, count_limit: int = 1_000_000) -> Cover:
    """Cover a box, ball or simplex.

    Args:
        kind: `box`, `ball` or `simplex`.
        dimension: The dimension d.
        radius: The largest distance from a point of the set to the nearest point of the cover.
        count_limit: The largest number of points.

    Returns:
        The cover.

    Raises:
        InvalidValue: If an argument is out of range, or if the cover needs more than `count_limit` points.
            The error then names a radius that is large enough, or the least limit if no radius is.

    Example:
        >>> from dpbandits.design import cover
        >>> covered = cover("ball", dimension=2, radius=0.3)
        >>> len(covered.points)
        25
    """
    count = cover_size(kind, dimension=dimension, radius=radius)
    if count > whole(1, count_limit=count_limit):
        fewest = _KINDS[kind].count(dimension, 1)
        if fewest > count_limit:
            raise InvalidValue("count_limit", count_limit, f"at least {fewest:,} (the coarsest cover)")
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
    """Return the number of points of a cover, without computing the points.

    Args:
        kind: `box`, `ball` or `simplex`.
        dimension: The dimension d.
        radius: The covering radius.

    Returns:
        The exact number, or a lower bound if it exceeds ten million.

    Raises:
        InvalidValue: If an argument is out of range.

    Example:
        >>> from dpbandits.design import cover_size
        >>> cover_size("box", dimension=2, radius=0.5)
        4
    """
    one_of(KINDS, kind=kind)
    whole(1, dimension=dimension)
    if positive(radius=radius) < 1 / _FINEST:
        raise InvalidValue("radius", radius, f"at least {1 / _FINEST:.1g}")
    return _KINDS[kind].count(dimension, _KINDS[kind].fineness(dimension, radius))


def _smallest_radius(kind: str, dimension: int, count_limit: int) -> float:
    """Return a radius, to three digits, that needs at most this many points. There must be one."""
    low, high = 1 / _FINEST, 2.0
    while cover_size(kind, dimension=dimension, radius=high) > count_limit:
        high *= 2
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        enough = cover_size(kind, dimension=dimension, radius=middle) <= count_limit
        low, high = (low, middle) if enough else (middle, high)
    return high * 1.005  # so that the radius is large enough when rounded to three digits


def _shown(count: int) -> str:
    """Return the number for an error message."""
    return f"{count:,}" if count <= _COUNTED else f"at least 10^{len(str(count)) - 1}"


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How to cover one kind of set; `fineness` is a whole number that determines the cover."""

    fineness: Callable[[int, float], int]
    radius: Callable[[int, int], float]
    count: Callable[[int, int], int]
    points: Callable[[int, int], FloatArray]


def _at_least(value: float) -> int:
    """Return the least whole number ≥ 1 that is at least the value, up to rounding errors."""
    return max(1, math.ceil(value * (1 - _ROUNDING)))


# Box: the centres of m^d equal cells. The distance from the centre of a cell to its corner is √d · (1/√d)/m =
# 1/m.


def _box_points(dimension: int, cells: int) -> FloatArray:
    axis = (2 * np.arange(cells) + 1 - cells) / (cells * math.sqrt(dimension))
    grid = np.meshgrid(*[axis] * dimension, indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, dimension)


# Ball: the centre alone has radius one. For smaller radii, use the lattice s·Z^d, whose cells are cubes of
# diagonal s√d = 2ε₀, and keep the points whose cell meets the ball. The point of a cell that is nearest to
# the origin has coordinates s·max(|z| - 1/2, 0). Points outside the ball are moved to its surface, which does
# not increase their distance to any point of the ball. With ε₀² = s²d/4 = 1/n for a whole number n, the
# condition Σ max(2|z| - 1, 0)² ≤ 4/s² = d n involves whole numbers only.


def _ball_shells(dimension: int, fineness: int) -> list[int]:
    """Return the squares max(2|z| - 1, 0)² for z = 0, 1, ... that are small enough."""
    largest = (math.isqrt(dimension * fineness) + 1) // 2
    return [max(2 * z - 1, 0) ** 2 for z in range(largest + 1)]


def _ball_count(dimension: int, fineness: int) -> int:
    """Count lattice points by sums of squares, one dimension at a time.

    The last dimension has 2⌊(⌊√rest⌋+1)/2⌋ + 1 positions.
    """
    if fineness == 1:
        return 1
    at_least = _ball_volume_bound(dimension, fineness)
    if at_least > _COUNTED:
        return at_least
    limit, shells = dimension * fineness, np.array(_ball_shells(dimension, fineness))
    sums, ways = np.zeros(1, dtype=np.int64), np.ones(1)
    for _ in range(dimension - 1):
        # `sums` are the possible sums of squares so far, and `ways` counts the points of each.
        together = np.add.outer(sums, shells)
        # z and −z have the same square, except for z = 0.
        numbers = np.multiply.outer(ways, np.where(shells == shells[0], 1.0, 2.0))
        near = together <= limit
        sums, places = np.unique(together[near], return_inverse=True)
        ways = np.bincount(places, weights=numbers[near]).astype(np.float64)
    roots = np.floor(np.sqrt(limit - sums) + _ROUNDING)
    return int(ways @ (2 * np.floor((roots + 1) / 2) + 1))


def _ball_volume_bound(dimension: int, fineness: int) -> int:
    """Return a lower bound on the number of cells: the ball's volume over s^d, s = 2ε₀/√d."""
    side = 2 * _ball_radius(dimension, fineness) / math.sqrt(dimension)
    volume = dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)
    return int(10 ** min((volume - dimension * math.log(side)) / math.log(10), 300))


def _ball_points(dimension: int, fineness: int) -> FloatArray:
    """Enumerate the lattice points, one dimension at a time."""
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


# Simplex: the points with coordinates z/m for whole z ≥ 0 with sum m. They belong to the lattice A_{d-1},
# whose covering radius is √(a (d - a) / d) for a = ⌊d/2⌋ (Conway and Sloane, *Sphere Packings*, chapter 4). A
# nearest lattice point is found by rounding coordinates down or up, so a point of the simplex has a nearest
# one without negative coordinates.


def _simplex_deepest(dimension: int) -> float:
    """Return the covering radius of the lattice."""
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
