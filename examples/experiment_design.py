"""Choose which of 27,000 recipes to bake: optimal experiment design with `dpbandits.design`, no bandit.

A factory can set temperature, time and sugar to 30 levels each. The model assumes that quality is a quadratic
function of the three, with 10 unknown coefficients. The factory can afford 60 trials. The design says which
recipes to bake, and how often, so that the model predicts the quality of every recipe well.

    python examples/experiment_design.py

The worst variance of a prediction is 0.181 times that of one trial with the design, and 1.585 times with
random trials.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from dpbandits.design import certify, near_g_optimal

TRIALS = 60
LEVELS = 30


def candidates() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all recipes in physical units and their terms 1, a, b, c, a², ab, ..., one row per recipe."""
    axes = (np.linspace(160, 240, LEVELS), np.linspace(8, 40, LEVELS), np.linspace(0, 120, LEVELS))
    recipes = np.array(list(itertools.product(*axes)))
    pairs = itertools.combinations_with_replacement(range(3), 2)
    products = [recipes[:, i] * recipes[:, j] for i, j in pairs]
    return recipes, np.column_stack([np.ones(len(recipes)), recipes, *products])


def rounded(weights: NDArray[np.float64], trials: int) -> NDArray[np.int64]:
    """Round the weights to integer numbers of trials, at least one each, that add up to `trials`."""
    counts = np.maximum(np.floor(weights * trials), 1).astype(np.int64)
    while counts.sum() != trials:
        step = 1 if counts.sum() < trials else -1
        gaps = step * (weights * trials - counts)
        gaps[(counts == 1) & (step < 0)] = -np.inf
        counts[gaps.argmax()] += step
    return counts


def main() -> None:
    """Print the design and compare it with random trials."""
    recipes, terms = candidates()
    design = near_g_optimal(terms, tolerance=1.05, max_support=TRIALS // 2)
    counts = rounded(design.weights, TRIALS)
    print(f"{len(terms):,} recipes, {design.rank} coefficients, {TRIALS} trials of {counts.size} recipes:\n")
    print("  °C   min  g sugar  trials")
    for row, count in zip(design.support, counts, strict=True):
        temperature, minutes, sugar = recipes[row]
        print(f"{temperature:5.0f} {minutes:5.0f} {sugar:8.0f} {count:7d}")
    planned = certify(terms, design.support, counts / TRIALS).g
    rng = np.random.default_rng(0)
    chance = [
        certify(terms, rng.choice(len(terms), TRIALS, replace=False), np.full(TRIALS, 1 / TRIALS)).g
        for _ in range(20)
    ]
    print(f"\nworst variance of a prediction, relative to one trial (lower bound {10 / TRIALS:.3f}):")
    print(f"  planned           {planned / TRIALS:.3f}")
    print(f"  random trials     {np.median(chance) / TRIALS:.3f}")


if __name__ == "__main__":
    main()
