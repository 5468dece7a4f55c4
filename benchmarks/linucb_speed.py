"""The CPU time of LinUCB, compared with its textbook form: T = 5·10⁴, d = 20, k = 1000, one BLAS thread.

The textbook form inverts or solves from scratch in every round and scores all arms; it is written in three
ways. Our version updates V⁻¹ and the score and width of every arm by a rank-one step. Each round of the
textbook form costs the same, so only its first rounds are timed and the time is extrapolated. Both see the
same rewards, and must play the same actions in these rounds.

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
"""A function from the actions, V and Σ reward·x to every arm's ⟨θ̂, x⟩ and x'V⁻¹x."""

HORIZON, HETEROGENEITY, SEED, LIMIT = 50_000, 0.1, 1, 4.0


def product(rows: FloatArray, gram: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Invert V, and compute the widths with one matrix product; the fastest way."""
    inverse = np.linalg.inv(gram)
    return rows @ (inverse @ total), np.einsum("ij,ij->i", rows @ inverse, rows)


def einsum(rows: FloatArray, gram: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Invert V, and compute the widths literally."""
    inverse = np.linalg.inv(gram)
    return rows @ inverse @ total, np.einsum("ij,jk,ik->i", rows, inverse, rows)


def solve(rows: FloatArray, gram: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve for θ̂, and for V⁻¹x of every arm."""
    return rows @ np.linalg.solve(gram, total), np.einsum("ij,ji->i", rows, np.linalg.solve(gram, rows.T))


def textbook(instance: Instance, rounds: int, score: Score) -> NDArray[np.int64]:
    """Run LinUCB with every round from scratch."""
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
    """Print one ratio per way; return a non-zero status if one is below the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3_000, help="rounds of the textbook form that are timed"
    )
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
    """Return the least CPU seconds of a whole run of each; they take turns, so slow moments affect both."""
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
