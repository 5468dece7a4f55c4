"""A whole run over a million actions, compared with the passes over them that its designs need.

    python benchmarks/million_actions.py [--repeats N]

k = 10⁶ actions in R⁵⁰, T = 10⁸, the paper's schedule or a budget of 10⁶ participants, an unlimited
population. Each run has its own process, one BLAS thread, and no cached results. A design is certified only
if every active action was checked, so each distinct design needs one pass over the active actions. A pass is
the CPU time of one product of all actions with a d × d matrix, written to a preallocated array (least of five
in the same process), times the share of actions that are active. The run includes everything from the study
to the end of its horizon: fingerprint, designs, calibrations, releases, estimates, eliminations, regret, and
the simulated clients, whose part is also shown separately. Drawing and checking the actions comes before the
run and is shown separately, in units of such products. Memory is the peak of the process. The exit status is
non-zero if a limit is exceeded; the limit on time applies to the run without privacy on the paper's schedule.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpbandits.simulation import RunTrace, Setting, simulate
from dpbandits.world import Population

COUNT, DIMENSION, HORIZON = 10**6, 50, 10**8
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {"schedule": "exponential"},
    "central (10, 1e-6)": {"trust": "central", "delta": 1e-6, "schedule": "exponential"},
    "shuffle (10, 1e-6)": {"trust": "shuffle", "delta": 1e-6, "schedule": "exponential"},
    "none, budgeted": {"schedule": "budgeted", "participants": 10**6},
    "central (1, 1e-6), budgeted": {
        "trust": "central",
        "epsilon": 1.0,
        "delta": 1e-6,
        "schedule": "budgeted",
        "participants": 10**6,
    },
}
LIMIT = 6.0  # times the passes of the designs, without privacy and with the paper's schedule
GIGABYTES = 8.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """CPU seconds, and the quantities with which they are compared."""

    product: float
    preparation: float
    run: float
    clients: float
    passes: float
    gigabytes: float
    regret: float

    @property
    def ratio(self) -> float:
        """The CPU time of the run divided by that of the passes of its designs."""
        return self.run / (self.passes * self.product)


class Timed(Population):
    """A population that measures the CPU time of its clients."""

    seconds = 0.0

    def averages(self, *arguments: Any) -> Any:
        """Do the same as the base class, and add the CPU time."""
        started = time.process_time()
        found = super().averages(*arguments)
        self.seconds += time.process_time() - started
        return found


def measure(name: str) -> Measured:
    """Measure one run in this process."""
    with threadpool_limits(limits=1):
        setting = Setting.paper(
            actions=COUNT, dimension=DIMENSION, horizon=HORIZON, population=None, **SETTINGS[name]
        )
        spending = setting.planned()
        started = time.process_time()
        instance = setting.instance(0)
        preparation = time.process_time() - started
        product = seconds_of_product(instance.actions.matrix)
        people = Timed(instance, heterogeneity=setting.problem.heterogeneity)
        started = time.process_time()
        trace = simulate(setting.study(instance.actions, spending), people, seed=0)
        run = time.process_time() - started
    return Measured(
        product=product,
        preparation=preparation,
        run=run,
        clients=people.seconds,
        passes=unavoidable(trace),
        gigabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        regret=sum(phase.regret for phase in trace.phases),
    )


def seconds_of_product(matrix: np.ndarray) -> float:
    """Return the CPU time of one product of all actions with a d × d matrix."""
    other, found, best = np.eye(DIMENSION) + 0.1, np.empty(matrix.shape), float("inf")
    for _ in range(5):
        started = time.process_time()
        np.matmul(matrix, other, out=found)
        best = min(best, time.process_time() - started)
    return best


def unavoidable(trace: RunTrace) -> float:
    """Return the number of passes: one over the active actions per distinct design.

    Active sets only shrink, so designs are counted by the size of their active set.
    """
    return sum({phase.actions_before for phase in trace.phases if phase.cohort}) / COUNT


def report(name: str, best: Measured) -> bool:
    """Print one setting; return whether it meets its limits."""
    limited = name == "none"
    fine = best.gigabytes <= GIGABYTES and (best.ratio <= LIMIT or not limited)
    own = best.ratio * (1 - best.clients / best.run)
    print(
        f"{name}: {best.ratio:.2f} x its designs' passes" + (f" (limit {LIMIT:g})" if limited else ""), end=""
    )
    print(f", {own:.2f} x without the clients; {best.gigabytes:.2f} GB (limit {GIGABYTES:g}) ", end="")
    print("ok" if fine else "MISSED")
    print(f"    run {best.run:.2f} s, {best.passes:.2f} passes of {best.product:.3f} s; ", end="")
    print(f"actions drawn and checked in {best.preparation / best.product:.1f} products; ", end="")
    print(f"regret {best.regret:,.0f}", flush=True)
    return fine


def main() -> int:
    """Measure all settings; each figure is that of the fastest of several processes."""
    parser = argparse.ArgumentParser(description="Measure runs over a million actions.")
    parser.add_argument("--repeats", type=int, default=3, help="processes per setting")
    parser.add_argument("--only", choices=list(SETTINGS), help="one setting")
    options = parser.parse_args()
    missed = 0
    for name in [options.only] if options.only else list(SETTINGS):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            found = list(pool.map(measure, [name] * options.repeats))
        missed += not report(name, min(found, key=lambda one: one.ratio))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
