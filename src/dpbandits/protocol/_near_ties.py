"""Draws θ* from the uniform distribution on the unit sphere, near ties more often, with weights.

If noise is small, the mean regret is dominated by the rare θ* for which two actions are nearly equally good:
there the best guess may be wrong, for the rest of the horizon. A few draws often contain no near tie. So θ*
is drawn in two steps. A great circle is drawn uniformly. On it, the best action changes at a few angles. Half
of the draws are uniform on the circle; the others have a logarithmically uniform distance to one of these
angles. Each draw has the weight (uniform density) / (density of the draws), which is at most 2. So weighted
means are means over the uniform distribution.
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
        weights: The weight of each.
    """

    thetas: FloatArray
    weights: FloatArray


def drawn_parameters(actions: Actions, draws: int, seed: int) -> Parameters:
    """Draw θ*. With more draws, the first ones stay the same.

    Args:
        actions: The actions, which decide where ties are.
        draws: How many θ* are drawn.
        seed: The seed.

    Returns:
        The draws and their weights. Every second draw, beginning with the first, is uniform on its circle.
    """
    found = [_drawn(actions, np.random.default_rng([seed, number]), number) for number in range(draws)]
    return Parameters(
        thetas=np.array([theta for theta, _ in found]), weights=np.array([weight for _, weight in found])
    )


def _drawn(actions: Actions, rng: np.random.Generator, number: int) -> tuple[FloatArray, float]:
    start = rng.standard_normal(actions.dimension)
    start /= np.linalg.norm(start)
    if actions.dimension == 1:
        return start, 1.0
    side = rng.standard_normal(actions.dimension)
    side -= (side @ start) * start
    side /= np.linalg.norm(side)
    ties = _ties(actions.matrix @ np.stack([start, side], axis=1))
    angle = float(rng.uniform(0, 2 * math.pi))
    if not len(ties):
        return math.cos(angle) * start + math.sin(angle) * side, 1.0
    if number % 2:
        distance = _NEAREST * math.exp(_RATIO * _radical_inverse(number // 2 + 1))
        angle = float(rng.choice(ties)) + float(rng.choice([-1, 1])) * distance
    distances = np.abs((angle - ties + math.pi) % (2 * math.pi) - math.pi)
    near = (distances >= _NEAREST * (1 - 1e-9)) & (distances <= _FARTHEST)
    density = float(np.sum(1 / (2 * _RATIO * distances[near]))) / len(ties)
    weight = 1 / (0.5 + 0.5 * 2 * math.pi * density)
    return math.cos(angle) * start + math.sin(angle) * side, weight


def _ties(points: FloatArray) -> FloatArray:
    """Return the angles at which the best action of a circle changes, given its coordinates in the plane.

    The best action is a corner of the convex hull, and changes at the normals of its edges.
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
