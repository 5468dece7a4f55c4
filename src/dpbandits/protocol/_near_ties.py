"""Draws θ* on the unit sphere, near ties more often, with weights that restore the uniform distribution.

If noise is small, the mean regret is dominated by the rare θ* for which two actions are nearly equally good:
for these θ* the best guess may be wrong for the rest of the horizon. A few uniform draws often contain no
near tie. So θ* is drawn in groups. For each group, a great circle is drawn uniformly. On the circle, the best
action changes at a few angles, the ties. The first draw of a group is uniform on the circle. The others lie
near one tie, at logarithmically uniform distances: the range of distances is divided into as many intervals
as there are such draws, and each interval has one. Each draw has the weight (uniform density) / (density of
the draws), which is at most the size of a group. So weighted means are means over the uniform distribution.

The noise of a study decides at which distance a tie matters. With several distances per tie, one of them is
close to that distance. For most θ* of a group a study drops the same actions, so they share the phases of a
prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from dpbandits._arrays import FloatArray
from dpbandits.actions import Actions

_NEAREST, _FARTHEST = 3e-5, 0.3  # distances from a tie, in radians
_RATIO = math.log(_FARTHEST / _NEAREST)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Drawn parameters.

    Attributes:
        thetas: One unit vector per row.
        weights: The weight of each row.
    """

    thetas: FloatArray
    weights: FloatArray


def drawn_parameters(actions: Actions, draws: int, seed: int, *, together: int = 2) -> Parameters:
    """Draw θ*. With more draws, the first ones stay the same.

    Args:
        actions: The actions, which decide where ties are.
        draws: How many θ* are drawn.
        seed: The seed.
        together: The size of a group, at least 2. Draws of different groups are independent.

    Returns:
        The draws and their weights. The first of each group is uniform on its circle.
    """
    groups = [
        _group(actions, np.random.default_rng([seed, number]), number, together)
        for number in range(-(-draws // together))
    ]
    found = [draw for group in groups for draw in group][:draws]
    return Parameters(
        thetas=np.array([theta for theta, _ in found]), weights=np.array([weight for _, weight in found])
    )


def _group(
    actions: Actions, rng: np.random.Generator, number: int, together: int
) -> list[tuple[FloatArray, float]]:
    """Return the draws on one circle, each with its weight."""
    if actions.dimension == 1:
        return [(np.array([rng.choice([-1.0, 1.0])]), 1.0) for _ in range(together)]
    start, side = np.linalg.qr(rng.standard_normal((actions.dimension, 2)))[0].T
    ties = _ties(actions.matrix @ np.stack([start, side], axis=1))
    angles = rng.uniform(0, 2 * math.pi, together)
    if len(ties):
        shares = (np.arange(together - 1) + _radical_inverse(number + 1)) / (together - 1)
        distances = _NEAREST * np.exp(_RATIO * shares)
        angles[1:] = rng.choice(ties) + rng.choice([-1, 1], together - 1) * distances
    thetas = np.outer(np.cos(angles), start) + np.outer(np.sin(angles), side)
    return [(theta, _weight(angle, ties, together)) for theta, angle in zip(thetas, angles, strict=True)]


def _weight(angle: float, ties: FloatArray, together: int) -> float:
    """Return the uniform density at an angle, divided by the density of the draws of a group."""
    if not len(ties):
        return 1.0
    distances = np.abs((angle - ties + math.pi) % (2 * math.pi) - math.pi)
    near = (distances >= _NEAREST * (1 - 1e-9)) & (distances <= _FARTHEST)
    density = float(np.sum(1 / (2 * _RATIO * distances[near]))) / len(ties)
    return together / (1 + (together - 1) * 2 * math.pi * density)


def _ties(points: FloatArray) -> FloatArray:
    """Return the angles at which the best action changes, given the actions in the plane of the circle.

    The best action is a corner of the convex hull of the points. It changes at the normals of the edges.
    """
    if len(points) < 3:
        across = points[-1] - points[0]
        angle = math.atan2(across[0], -across[1])
        return np.array([angle, angle + math.pi]) if across.any() else np.zeros(0)
    try:
        normals = ConvexHull(points).equations[:, :2]
    except QhullError:  # all points are on one line, or nearly so
        return np.zeros(0)
    return np.asarray(np.arctan2(normals[:, 1], normals[:, 0]), dtype=np.float64)


def _radical_inverse(number: int) -> float:
    """Return the number with its binary digits mirrored at the point: 1/2, 1/4, 3/4, 1/8, …"""
    digits = f"{number:b}"
    return float(int(digits[::-1], 2) / 2 ** len(digits))
