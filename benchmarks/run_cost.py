"""The cost of a run relative to the arithmetic that it cannot avoid. Ratios only; run it with `make bench`.

1. One run of T = 10⁶ at the scale of the paper, divided by drawing the averages of its cohorts with NumPy:
   ≤ 5.
2. T = 10⁹ with cohorts capped at 20,000, divided by T = 10⁶: ≤ 40.

Each figure is the least CPU time of several repeats with one BLAS thread. Repeats are interleaved, so that
slow moments of the machine affect both sides.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from dpbandits.simulation import RunTrace, Setting, run_once

REPEATS = 7
SEED = 1


def least_cpu_seconds(*tasks: Callable[[], object]) -> list[float]:
    """Return the least CPU time of each task; the tasks take turns."""
    best = [float("inf")] * len(tasks)
    for _ in range(REPEATS):
        for position, task in enumerate(tasks):
            started = time.process_time()
            task()
            best[position] = min(best[position], time.process_time() - started)
    return best


def draw_averages(trace: RunTrace, dimension: int) -> None:
    """Draw the clients' parameters, their mean rewards and the noise of the averages, as this run needed."""
    rng = np.random.default_rng(0)
    for phase in trace.phases:
        if phase.cohort:
            rows = np.ones((phase.actions_played, dimension))
            clients = rng.standard_normal((phase.cohort, dimension))
            averages = rng.standard_normal((phase.cohort, phase.actions_played))
            averages += clients @ rows.T


def run_over_unavoidable(trust: str) -> float:
    """Return the cost of one run as a multiple of the unavoidable arithmetic."""
    setting = Setting.paper(trust=trust, schedule="exponential")
    trace = run_once(setting, SEED)
    whole, unavoidable = least_cpu_seconds(
        lambda: run_once(setting, SEED), lambda: draw_averages(trace, setting.problem.dimension)
    )
    return whole / unavoidable


def long_over_short(trust: str) -> float:
    """Return the cost of 10⁹ rounds as a multiple of that of 10⁶ rounds, with capped cohorts."""
    capped = {"trust": trust, "schedule": "exponential", "maximum_cohort": 20_000, "population": None}
    long, short = Setting.paper(horizon=10**9, **capped), Setting.paper(horizon=10**6, **capped)
    slow, fast = least_cpu_seconds(lambda: run_once(long, SEED), lambda: run_once(short, SEED))
    return slow / fast


def report(rows: Sequence[tuple[str, float, float]]) -> int:
    """Print ratios with their limits; return a non-zero status if one is exceeded."""
    for name, ratio, limit in rows:
        print(f"{name:<58} {ratio:6.2f}   limit {limit:g}   {'ok' if ratio <= limit else 'MISSED'}")
    return int(any(ratio > limit for _, ratio, limit in rows))


def main() -> int:
    """Measure everything."""
    with threadpool_limits(limits=1):
        rows = [
            (f"{t}: one run / drawing its averages", run_over_unavoidable(t), 5) for t in ("none", "central")
        ]
        rows += [
            (f"{t}: T = 10⁹ / T = 10⁶, cohorts ≤ 20,000", long_over_short(t), 40) for t in ("none", "central")
        ]
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
