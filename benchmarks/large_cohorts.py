"""One simulated phase with a cohort of 10⁷ clients: its memory, and its cost per client relative to 10⁵.

    python benchmarks/large_cohorts.py [--only NAME]

1. The whole process that simulates the phase, from planning to eliminations: below 2 GB.
2. CPU time per client of drawing the cohort and its release: at most 1.2 times that of a cohort of 10⁵ in
   the same process. Planning does not grow with the cohort and is left out: per client it would make the
   large cohort look cheaper.
3. A population of 10⁹ instead of 2·10⁷, with the same cohort: at most 1.1 times the CPU time.

Every trust model has its default mechanism of preset tight, and further mechanisms have rows of their own. In
`central, one client per round` (DP-PE) each client reports a single reward. Each row has its own process.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpbandits import (
    Actions,
    Instance,
    Population,
    PrivacyRequest,
    Schedule,
    SimulatedNoise,
    Study,
    ask,
    tell,
)
from dpbandits.protocol import simulate_groups

SMALL, LARGE = 10**5, 10**7
LIMIT, GIGABYTES, SAME = 1.2, 2.0, 1.1
DIMENSION = 8
ROWS: dict[str, dict[str, Any]] = {
    "none": {"trust": "none"},
    "central": {"trust": "central"},
    "shuffle": {"trust": "shuffle"},
    "shuffle, bits": {"trust": "shuffle", "noise": "binomial"},
    "local": {"trust": "local"},
    "local, one number per action": {"trust": "local", "noise": "discrete-gaussian"},
    "central, one client per round": {"trust": "central", "assignment": "one_per_round"},
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The figures of one row."""

    small: float
    """CPU seconds per client in a cohort of 10⁵: the median of several."""
    large: float
    """CPU seconds per client in a cohort of 10⁷."""
    gigabytes: float
    """The most memory that the process had."""
    numbers: int
    """How many numbers a client reports."""


def study_of(cohort: int, *, trust: str, noise: str | None = None, assignment: str = "everyone") -> Study:
    """Return a study whose first phase asks this many clients."""
    one_each = assignment != "everyone"
    schedule = Schedule(first_length=cohort) if one_each else Schedule(cohorts=(cohort,))
    return Study(
        actions=Actions.generate("sphere", count=200, dimension=DIMENSION, rng=1),
        horizon=10**8,
        privacy=PrivacyRequest(trust=trust, epsilon=1.0, delta=1e-6, noise=noise),
        schedule=schedule,
        heterogeneity=0.1,
        assignment=assignment,
    )


def phase(cohort: int, population: int, seed: int, row: dict[str, Any]) -> tuple[float, int]:
    """Simulate one phase; return the CPU time of its clients and its release, and the numbers per client."""
    study = study_of(cohort, **row)
    instance = Instance(study.actions, theta=study.actions.matrix[0])
    people = Population(instance, heterogeneity=0.1, size=population)
    clients, noise = (np.random.default_rng(seed) for seed in np.random.SeedSequence(seed).spawn(2))
    state = study.begin()
    plan = ask(state)
    started = time.process_time()
    reported = study.assignment_rule.simulate(plan, people, clients)
    release, _ = simulate_groups(plan, reported, SimulatedNoise(noise))
    seconds = time.process_time() - started
    tell(state, plan, release)
    return seconds / plan.cohort, plan.mechanisms[0].coordinates


def measure(name: str) -> Measured:
    """Measure one row in this process."""
    with threadpool_limits(limits=1):
        small = [phase(SMALL, 2 * LARGE, seed, ROWS[name])[0] for seed in range(5)]
        large, numbers = phase(LARGE, 2 * LARGE, 9, ROWS[name])
    return Measured(
        small=statistics.median(small),
        large=large,
        gigabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        numbers=numbers,
    )


def populations() -> float:
    """Return the CPU time of a cohort of 10⁵ from 10⁹ clients, relative to the same from 2·10⁷."""
    times: dict[int, list[float]] = {2 * LARGE: [], 10**9: []}
    with threadpool_limits(limits=1):
        for seed in range(7):
            for population, found in times.items():
                found.append(phase(SMALL, population, seed, ROWS["central"])[0])
    return min(times[10**9]) / min(times[2 * LARGE])


def main() -> int:
    """Measure all rows."""
    parser = argparse.ArgumentParser(description="Measure phases with a cohort of ten million clients.")
    parser.add_argument("--only", choices=list(ROWS), help="one row")
    options = parser.parse_args()
    missed = 0
    for name in [options.only] if options.only else list(ROWS):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(measure, name).result()
        ratio = found.large / found.small
        fine = ratio <= LIMIT and found.gigabytes <= GIGABYTES
        missed += not fine
        print(
            f"{name}: {found.numbers} numbers; {found.large * 1e6:.2f} µs per client, "
            f"{ratio:.2f} x that at 10⁵ (limit {LIMIT:g}); "
            f"{found.gigabytes:.2f} GB (limit {GIGABYTES:g}) {'ok' if fine else 'MISSED'}",
            flush=True,
        )
    same = populations()
    missed += same > SAME
    verdict = "ok" if same <= SAME else "MISSED"
    print(f"population 10⁹ ÷ population 2·10⁷: {same:.2f} x (limit {SAME:g}) {verdict}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
