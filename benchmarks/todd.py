"""Two published solvers, with which the search for designs is compared, as simple as in the literature.

`todd`: M. J. Todd, *Minimum-Volume Ellipsoids* (SIAM, 2016), chapter 3, for max log det X'diag(u)X: the start
of Kumar and Yıldırım (J. Optim. Theory Appl. 126, 2005), Wolfe–Atwood steps with away steps and rank-one
updates of all leverages, and the elimination of points that cannot be in the support of an optimal design by
Harman and Pronzato (Statist. Probab. Lett. 77, 2007).

`frank_wolfe`: the textbook version (Lattimore and Szepesvári, *Bandit Algorithms*, chapter 21): Fedorov's
steps, no away steps, from a random start.

Both stop when g ≤ tolerance · d, and both return (support, weights). The rows must span.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_ELIMINATE_EVERY = 50  # iterations, as in published codes that eliminate points
_REFACTORISE_EVERY = 1000


def todd(rows: FloatArray, tolerance: float = 2.0) -> tuple[NDArray[np.int64], FloatArray]:
    """Run Wolfe–Atwood steps with away steps, from the Kumar–Yıldırım start, with elimination."""
    dimension = rows.shape[1]
    kept = np.arange(len(rows))
    points = rows
    weights = np.zeros(len(rows))
    weights[_kumar_yildirim(rows)] = 1.0
    weights /= weights.sum()
    inverse, leverages = _factorised(points, weights)
    for iteration in range(1, 1_000_000):
        worst = int(leverages.argmax())
        support = np.flatnonzero(weights)
        best = int(support[leverages[support].argmin()])
        high, low = float(leverages[worst]), float(leverages[best])
        if high <= tolerance * dimension:
            break
        if high - dimension >= dimension - low:
            chosen, step = worst, (high - dimension) / ((dimension - 1) * high)
        else:
            share = weights[best] / (1 - weights[best])
            wanted = (dimension - low) / ((dimension - 1) * low) if low > 1 else math.inf
            chosen, step = best, -min(share, wanted)
        # u ← (u + λ e_j) / (1 + λ): X'UX and all leverages change by a rank-one update.
        image = inverse @ points[chosen]
        products = points @ image
        scale = step / (1 + step * leverages[chosen])
        leverages = (1 + step) * (leverages - scale * products**2)
        inverse = (1 + step) * (inverse - scale * np.outer(image, image))
        weights[chosen] += step
        weights /= 1 + step
        if step < 0 and weights[chosen] < 1e-14:
            weights[chosen] = 0.0
        if iteration % _ELIMINATE_EVERY == 0:
            stay = (leverages >= _threshold(float(leverages.max()), dimension)) | (weights > 0)
            kept, points, weights, leverages = kept[stay], points[stay], weights[stay], leverages[stay]
        if iteration % _REFACTORISE_EVERY == 0:
            inverse, leverages = _factorised(points, weights)
    support = np.flatnonzero(weights)
    return kept[support], weights[support]


def frank_wolfe(
    rows: FloatArray, tolerance: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], FloatArray]:
    """Move weight to the worst row until the bound holds; each step computes every leverage from scratch."""
    count, dimension = rows.shape
    weights = np.zeros(count)
    weights[rng.choice(count, 2 * dimension, replace=False)] = 1 / (2 * dimension)
    while True:
        inverse = np.linalg.inv(rows.T @ (weights[:, np.newaxis] * rows))
        leverages = np.einsum("ij,ij->i", rows @ inverse, rows)
        worst = int(leverages.argmax())
        high = float(leverages[worst])
        if high <= tolerance * dimension:
            support = np.flatnonzero(weights)
            return support, weights[support]
        step = (high / dimension - 1) / (high - 1)
        weights *= 1 - step
        weights[worst] += step


def _factorised(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V⁻¹ and all leverages, computed from scratch."""
    support = np.flatnonzero(weights)
    triangle = np.linalg.qr(np.sqrt(weights[support])[:, np.newaxis] * points[support], mode="r")
    root = np.linalg.inv(triangle)
    whitened = points @ root
    return root @ root.T, np.einsum("ij,ij->i", whitened, whitened)


def _kumar_yildirim(rows: FloatArray) -> NDArray[np.int64]:
    """Return the farthest row along each of d directions, each orthogonal to the rows chosen before.

    In a design, a row represents itself and its mirror image, so one farthest row per direction suffices.
    """
    rng = np.random.default_rng(0)
    dimension = rows.shape[1]
    basis = np.empty((dimension, 0))
    chosen = []
    for _ in range(dimension):
        direction = rng.standard_normal(dimension)
        direction -= basis @ (basis.T @ direction)
        farthest = int(np.abs(rows @ direction).argmax())
        chosen.append(farthest)
        basis = np.linalg.qr(np.column_stack([basis, rows[farthest]]))[0]
    return np.unique(chosen)


def _threshold(high: float, dimension: int) -> float:
    """Return the leverage below which no row supports an optimal design."""
    excess = max(high / dimension - 1, 0.0)
    return dimension * (1 + excess / 2 - math.sqrt(excess * (4 + excess - 4 / dimension)) / 2)
