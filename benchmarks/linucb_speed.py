"""One LinUCB run against the textbook form of it: T = 5·10⁴, d = 20, k = 1000. CPU time, one BLAS thread.

The textbook form inverts or solves anew in every round and scores all arms, written in three ways. Ours
updates V⁻¹ and every arm's score and width by one rank-one step. A round of the textbook form costs the same
early and late, so it is timed on the first rounds and scaled up. Both see the same rewards, and must play
the same actions there.

    python benchmarks/linucb_speed.py [--rounds 3000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpbandits.baselines._linucb import RIDGE, choices, radii, rewards
from dpbandits.simulation import Setting
from dpbandits.world import Instance

FloatArray = NDArray[np.float64]
Score = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""From the actions, V and Σ reward·x to every arm's ⟨θ̂, x⟩ and x'V⁻¹x."""

HORIZON, HETEROGENEITY, SEED, LIMIT = 50_000, 0.1, 1, 4.0


def product(rows: FloatArray, gram: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Invert V; the widths by one matrix product, the fastest way to write it."""
    inverse = np.linalg.inv(gram)
    return rows @ (inverse @ total), np.einsum("ij,ij->i", rows @ inverse, rows)


def einsum(rows: FloatArray, gram: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Invert V; the widths as they are written."""
    inverse = np.linalg.inv(gram)
    return rows @ inverse @ total, np.einsum("ij,jk,ik->i", rows, inverse, rows)


def solve(rows: FloatArray, gram: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve for θ̂ and for V⁻¹x of every arm."""
    return rows @ np.linalg.solve(gram, total), np.einsum("ij,ji->i", rows, np.linalg.solve(gram, rows.T))


def textbook(instance: Instance, rounds: int, score: Score) -> NDArray[np.int64]:
    """Every round from scratch."""
    radius = radii(instance.actions.dimension, HORIZON, HETEROGENEITY)
    seen = rewards(instance, HETEROGENEITY, np.random.default_rng(SEED))
    rows = np.ascontiguousarray(instance.actions.matrix)
    gram, total = RIDGE * np.eye(rows.shape[1]), np.zeros(rows.shape[1])
    played = np.empty(rounds, dtype=np.int64)
    for number in range(rounds):
        scores, squares = score(rows, gram, total)
        chosen = int(np.argmax(scores + radius[number] * np.sqrt(squares)))
        row = rows[chosen]
        gram += np.outer(row, row)
        total += seen.draw(chosen) * row
        played[number] = chosen
    return played


def main() -> int:
    """Print a ratio for each way; non-zero if one is below the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3_000, help="of the textbook form")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    instance, good = Setting.of().instance(SEED), True
    with threadpool_limits(limits=1):
        for score in (product, einsum, solve):
            slow, fast, same = measured(instance, score, options.rounds, options.repeats)
            ratio = slow / fast
            good &= ratio >= LIMIT and same
            print(
                f"{score.__name__:<8} {slow:6.2f} s, ours {fast:.2f} s of CPU: {ratio:5.1f} times faster, "
                f"limit {LIMIT:g}   {'ok' if ratio >= LIMIT else 'MISSED'}   the same actions: {same}"
            )
    return int(not good)


def measured(instance: Instance, score: Score, rounds: int, repeats: int) -> tuple[float, float, bool]:
    """Least CPU seconds of a whole run of either; they take turns, so that a slow moment hits both."""
    slow = fast = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        expected = textbook(instance, rounds, score)
        between = time.process_time()
        found = choices(instance, horizon=HORIZON, heterogeneity=HETEROGENEITY, seed=SEED)
        fast = min(fast, time.process_time() - between)
        slow = min(slow, (between - started) * HORIZON / rounds)
    return slow, fast, bool(np.array_equal(found[:rounds], expected))


if __name__ == "__main__":
    sys.exit(main())
