"""The cost of designs for many actions, relative to one matrix product and to other solvers.

    python benchmarks/design_speed.py [--quick]

Every figure is a ratio of CPU times in one process with one BLAS thread: the least of several repeats that
take turns. `X @ M` is the product of all actions with a d × d matrix, written to a preallocated array. Our
time includes the certificate. Passes are how often each row is read, on average. Memory is the peak
allocation of the search. The exit status is non-zero if any limit is exceeded. --quick omits 10⁶ actions and
the slow solvers.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from todd import frank_wolfe, todd

from dpbandits.design import Design, certify, near_g_optimal

FloatArray = NDArray[np.float64]
Shape = tuple[int, int]

DEGREES = 2.5  # degrees of freedom of the heavy tails
PRODUCTS = {(10**5, 50): 2.0, (10**6, 50): 1.3, (10**5, 200): 2.2}  # limits of the ratio to X @ M
TODD = {(10**5, 50): 8.0, (10**5, 200): 8.0, (10**6, 50): 20.0}  # least ratios of Todd's time to ours
REPEATS = 5


def _ball(rng: np.random.Generator, shape: Shape) -> FloatArray:
    rows = rng.standard_normal(shape)
    rows *= rng.random((shape[0], 1)) ** (1 / shape[1]) / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _heavy_rows(rng: np.random.Generator, shape: Shape) -> FloatArray:
    rows = rng.standard_normal(shape)
    rows *= np.sqrt(DEGREES / rng.chisquare(DEGREES, (shape[0], 1)))
    return rows


FAMILIES: dict[str, Callable[[np.random.Generator, Shape], FloatArray]] = {
    "ball": _ball,
    "gauss": lambda rng, shape: rng.standard_normal(shape),
    "heavy entries": lambda rng, shape: rng.standard_t(DEGREES, shape),
    "heavy rows": _heavy_rows,
}


@dataclass
class Report:
    """Lines with a figure and its limit."""

    missed: int = 0
    seconds: dict[tuple[str, Shape], float] = field(default_factory=dict)
    supports: list[float] = field(default_factory=list)

    def line(self, name: str, figure: float, limit: float, *, least: bool = False) -> None:
        """Print one line; with `least`, the figure must not be below the limit."""
        fine = figure >= limit if least else figure <= limit
        self.missed += not fine
        bound = "at least" if least else "limit"
        print(f"{name:<62} {figure:8.3f}   {bound} {limit:g}   {'ok' if fine else 'MISSED'}", flush=True)


def least_cpu_seconds(tasks: Iterable[Callable[[], object]], repeats: int = REPEATS) -> list[float]:
    """Return the least CPU time of each task; the tasks take turns."""
    listed = list(tasks)
    best = [math.inf] * len(listed)
    for _ in range(repeats):
        for position, task in enumerate(listed):
            started = time.process_time()
            task()
            best[position] = min(best[position], time.process_time() - started)
    return best


def measure(report: Report, family: str, shape: Shape, *, peers: bool) -> None:
    """Measure one set of actions."""
    rows = FAMILIES[family](np.random.default_rng(0), shape)
    matrix, product = np.eye(shape[1]) + 0.1, np.empty(shape)
    name = f"{family} ({shape[0]:,} x {shape[1]})"
    ours, one_product = least_cpu_seconds(
        [lambda: near_g_optimal(rows), lambda: np.matmul(rows, matrix, out=product)]
    )
    report.seconds[family, shape] = ours
    report.line(f"{name}: ours / X @ M", ours / one_product, PRODUCTS[shape])
    check_design(report, name, rows)
    if peers:
        ours, theirs = least_cpu_seconds([lambda: near_g_optimal(rows), lambda: todd(rows)], 3)
        report.line(f"{name}: Todd / ours", theirs / ours, TODD[shape], least=True)
        if shape == (10**5, 50):
            (theirs,) = least_cpu_seconds([lambda: frank_wolfe(rows, 2.0, np.random.default_rng(0))], 1)
            report.line(f"{name}: textbook Frank-Wolfe / ours", theirs / ours, 60, least=True)


def check_design(report: Report, name: str, rows: FloatArray) -> None:
    """Report passes, memory, support and g of the design; g comes from a new certificate."""
    tracemalloc.start()
    design = near_g_optimal(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    report.line(f"{name}: passes", design.certificate.passes, 1.3)
    report.line(f"{name}: extra memory / actions", peak / rows.nbytes, 0.2)
    fresh = certify(rows, design.support, design.weights)
    report.line(f"{name}: g / d", fresh.g / fresh.rank, 2)
    report.line(f"{name}: support / bound", design.support.size / fresh.support_limit, 1)
    report.supports.append(design.support.size / design.rank)


def growth(report: Report, family: str, shapes: tuple[Shape, Shape], axis: int, limit: float) -> None:
    """Report the exponent with which time grows along one axis."""
    small, large = shapes
    ratio = report.seconds[family, large] / report.seconds[family, small]
    exponent = math.log(ratio) / math.log(large[axis] / small[axis])
    report.line(f"{family}: exponent in {'kd'[axis]}", exponent, limit)


def measure_small(report: Report) -> None:
    """Measure a thousand actions, for which overhead dominates."""
    for family, make in FAMILIES.items():
        rows = make(np.random.default_rng(0), (1000, 20))
        ours, theirs = least_cpu_seconds([lambda r=rows: near_g_optimal(r), lambda r=rows: todd(r)], 50)  # type: ignore[misc]
        report.line(f"{family} (1,000 x 20): ours / Todd", ours / theirs, 1.25)


def measure_tight(report: Report) -> None:
    """Measure designs with g ≤ 1.01 d."""
    rows = FAMILIES["gauss"](np.random.default_rng(0), (10**5, 50))
    matrix, product = np.eye(50) + 0.1, np.empty(rows.shape)
    designs: list[Design] = []
    ours, one_product = least_cpu_seconds(
        [
            lambda: designs.append(near_g_optimal(rows, tolerance=1.01)),
            lambda: np.matmul(rows, matrix, out=product),
        ]
    )
    fresh = certify(rows, designs[-1].support, designs[-1].weights, tolerance=1.01)
    report.line("gauss (100,000 x 50), g <= 1.01 d: ours / X @ M", ours / one_product, 10)
    report.line("gauss (100,000 x 50), g <= 1.01 d: g / d", fresh.g / 50, 1.01)
    report.line("gauss (100,000 x 50), g <= 1.01 d: support / bound", fresh.support_size / (50 * 51 / 2), 1)


def main() -> int:
    """Measure everything."""
    parser = argparse.ArgumentParser(description="Measure the design solver.")
    parser.add_argument("--quick", action="store_true", help="omit 10⁶ actions and slow solvers")
    quick = parser.parse_args().quick
    report = Report()
    with threadpool_limits(limits=1):
        measure_small(report)
        measure_tight(report)
        for shape in PRODUCTS:
            if not (quick and shape[0] > 10**5):
                for family in FAMILIES:
                    measure(report, family, shape, peers=not quick or shape == (10**5, 50))
        report.line("support / rank, average", float(np.mean(report.supports)), 3)
        for family in FAMILIES:
            if not quick:
                growth(report, family, ((10**5, 50), (10**6, 50)), 0, 1.05)
            growth(report, family, ((10**5, 50), (10**5, 200)), 1, 2.1)
    print(f"{report.missed} limits missed" if report.missed else "all limits met")
    return min(report.missed, 100)


if __name__ == "__main__":
    sys.exit(main())
