"""Fuzzing of designs on difficult action sets, checked by a new certificate and by brute force.

    python benchmarks/design_fuzz.py --cases 5000

Cases are drawn from a seed: families, rank deficiency, duplicates, zero rows, column scales down to 1e-8,
overall scales 1e±150, noise around the rank threshold, tolerances from 1.01 to 2, few and many rows. A case
is a violation if no design is found, if a new certificate disagrees with that of the design, or if a bound is
exceeded. The exit status is the number of violations, at most 100.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpbandits.design import Design, certify, near_g_optimal, support_bound
from dpbandits.errors import DpbanditsError

FloatArray = NDArray[np.float64]
Family = Callable[[np.random.Generator, tuple[int, int]], FloatArray]

FAMILIES: dict[str, Family] = {
    "sphere": lambda rng, shape: _unit(rng.standard_normal(shape)),
    "gauss": lambda rng, shape: rng.standard_normal(shape),
    "heavy entries": lambda rng, shape: rng.standard_t(2.5, shape),
    "heavy rows": lambda rng, shape: _unit(rng.standard_normal(shape)) * rng.pareto(1.0, (shape[0], 1)),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "corners": lambda rng, shape: rng.integers(0, 2, shape).astype(np.float64),
    "clusters": lambda rng, shape: (
        rng.standard_normal((3, shape[1]))[rng.integers(3, size=shape[0])] + 1e-2 * rng.standard_normal(shape)
    ),
    "one-hot": lambda rng, shape: np.eye(shape[1])[np.minimum(rng.geometric(0.4, shape[0]), shape[1]) - 1],
}


def _unit(rows: FloatArray) -> FloatArray:
    """Scale rows to norm 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def draw_case(rng: np.random.Generator) -> tuple[str, FloatArray, float]:
    """Draw one case; return its description, its rows, and the tolerance."""
    many = rng.random() < 0.2
    count = int(rng.integers(4097, 9000)) if many else int(rng.integers(1, 300))
    dimension = int(rng.integers(1, 13))
    family = str(rng.choice(list(FAMILIES)))
    rows = FAMILIES[family](rng, (count, dimension))
    words = [family, f"{count} x {dimension}"]
    if rng.random() < 0.4:
        rank = int(rng.integers(1, dimension + 1))
        rows = rows[:, :rank] @ rng.standard_normal((rank, dimension))
        words.append(f"rank <= {rank}")
    if rng.random() < 0.3:
        rows = rows[rng.integers(max(1, count // 3), size=count)]
        words.append("duplicates")
    if rng.random() < 0.3:
        rows = rows * (rng.random((count, 1)) < rng.choice([0.01, 0.5, 0.9]))
        words.append("zero rows")
    if rng.random() < 0.3:
        rows = rows * 10.0 ** rng.uniform(-8, 0, dimension)
        words.append("column scales")
    if rng.random() < 0.2:
        rows = rows + 10.0 ** rng.uniform(-15, -3) * np.abs(rows).max() * rng.standard_normal(rows.shape)
        words.append("noise")
    if rng.random() < 0.3:
        exponent = int(rng.integers(-150, 151))
        rows = rows * 10.0**exponent
        words.append(f"scale 1e{exponent}")
    return ", ".join(words), rows, float(rng.choice([1.01, 1.1, 1.3, 2.0]))


def violation(rows: FloatArray, tolerance: float, design: Design) -> str | None:
    """Return what is wrong with a design, or None."""
    fresh = certify(rows, design.support, design.weights, tolerance=tolerance)
    rank = design.rank
    limit = max(math.floor(support_bound(rank)), rank * (rank + 1) // 2 if tolerance < 2 else 0)
    if not fresh.holds:
        return "; ".join(fresh.problems)
    if design.support.size > limit:
        return f"{design.support.size} supported rows, {limit} allowed"
    if fresh.rank != rank or rank > min(rows.shape):
        return f"rank {rank}, but {fresh.rank} by the certificate"
    if fresh.g > design.certificate.g * (1 + 1e-6):
        return f"g = {fresh.g}, certified {design.certificate.g}"
    if rank and not rank * (1 - 1e-6) <= fresh.g:
        return f"g = {fresh.g} below the rank {rank}"
    return _brute_force(rows, tolerance, design)


def _brute_force(rows: FloatArray, tolerance: float, design: Design) -> str | None:
    """Compare with textbook formulas, if the rows are well conditioned."""
    scaled = rows / (np.abs(rows).max() or 1.0)
    lengths = np.linalg.svd(scaled, compute_uv=False)
    if design.rank == 0 or lengths[design.rank - 1] < 1e-4 * lengths[0]:
        return None
    chosen = scaled[design.support]
    information = chosen.T @ (design.weights[:, np.newaxis] * chosen)
    if np.linalg.matrix_rank(scaled, tol=1e-7 * lengths[0]) != design.rank:
        return None
    inverse = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    g = float(np.einsum("ij,jk,ik->i", scaled, inverse, scaled).max())
    if g > tolerance * design.rank * (1 + 1e-5):
        return f"g = {g} by brute force"
    return None


def fuzz(cases: int, seed: int) -> list[str]:
    """Run all cases; return the violations."""
    rng = np.random.default_rng(seed)
    found = []
    for case in range(cases):
        words, rows, tolerance = draw_case(rng)
        try:
            wrong = violation(rows, tolerance, near_g_optimal(rows, tolerance=tolerance))
        except DpbanditsError as error:
            wrong = str(error)
        if wrong:
            found.append(f"case {case} ({words}, tolerance {tolerance}): {wrong}")
    return found


def main() -> int:
    """Fuzz, and print the violations."""
    parser = argparse.ArgumentParser(description="Fuzz the design solver.")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = fuzz(options.cases, options.seed)
    for line in found:
        print(line)
    print(f"{options.cases:,} cases, {len(found)} violations   limit 0   {'MISSED' if found else 'ok'}")
    return min(len(found), 100)


if __name__ == "__main__":
    sys.exit(main())
