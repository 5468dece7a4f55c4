"""Regret at the scale of the paper, compared with the paper's constants without privacy in the same run.

d = 20, k = 1000, T = 10⁶, σ = .1, B = 1, θ* on the unit sphere, at most 50,796 participants, means over
instances.

    python benchmarks/regret.py [--runs 100] [--workers 2] [--families]

`--families` adds other families of problems. There, the ratio of private to non-private regret must stay
within 1.5 times that of the main setting, no row may be worse than `paper`, and the best action must survive.
A near tie that is guessed wrongly costs hundreds of times the median run, so means need many runs: 500 if a
run is cheap. `--share` runs only a part of these runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import numpy as np

from dpbandits.simulation import RunTrace, Setting, sweep

PAPER = Setting.paper(preset="paper")
TIGHT = Setting.paper(schedule="budgeted")
ROWS = {
    "none": (TIGHT, 160),
    "central (10, .1)": (TIGHT.changed(trust="central", delta=0.1), 175),
    "central (1, 1e-6)": (TIGHT.changed(trust="central", epsilon=1, delta=1e-6), 240),
    "shuffle (1, 1e-6)": (TIGHT.changed(trust="shuffle", epsilon=1, delta=1e-6), 260),
    "pure central 1": (TIGHT.changed(trust="central", epsilon=1, delta=0), 200),
    "shuffle (.3, 1e-6)": (TIGHT.changed(trust="shuffle", epsilon=0.3, delta=1e-6), 2_000),
    "local (10, 1e-6)": (TIGHT.changed(trust="local", epsilon=10, delta=1e-6), 420),
    "pure local 10": (TIGHT.changed(trust="local", epsilon=10, delta=0), 420),
    "pure local 3": (TIGHT.changed(trust="local", epsilon=3, delta=0), 1_200),
    "pure local 1": (TIGHT.changed(trust="local", epsilon=1, delta=0), 8_000),
}
FAMILIES = {
    "main": {},
    "low-rank": {"family": "low-rank"},
    "clustered": {"family": "clustered"},
    "k=50, d=5": {"actions": 50, "dimension": 5},
    "k=10⁴, d=50": {"actions": 10_000, "dimension": 50},
    "bernoulli": {"rewards": "bernoulli"},
    "σ=0": {"heterogeneity": 0.0},
    "σ=.5": {"heterogeneity": 0.5},
}
RUNS = {"k=50, d=5": 3000, "k=10⁴, d=50": 100}
USUAL_RUNS, PAPER_RUNS = 500, 24
COMPARED = ("none", "central (1, 1e-6)", "shuffle (1, 1e-6)")


def run(settings: Iterable[Setting], runs: int, workers: int) -> dict[Setting, list[RunTrace]]:
    """Run all settings, with a progress line."""
    found: dict[Setting, list[RunTrace]] = {setting: [] for setting in settings}
    total = runs * len(found)
    for number, (setting, trace) in enumerate(sweep(list(found), range(runs), workers=workers), 1):
        found[setting].append(trace)
        print(f"\r{number}/{total} runs", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 30 + "\r", end="", file=sys.stderr)
    return found


def mean(traces: list[RunTrace]) -> float:
    """Return the mean regret."""
    return float(np.mean([trace.regret for trace in traces]))


def error(traces: list[RunTrace]) -> float:
    """Return the standard error of the mean."""
    return float(np.std([trace.regret for trace in traces], ddof=1)) / len(traces) ** 0.5


def main_table(runs: int, workers: int) -> bool:
    """Print the rows with their limits, and the paper's constants without privacy."""
    found = run([PAPER, *(setting for setting, _ in ROWS.values())], runs, workers)
    paper, good = mean(found[PAPER]), True
    print(
        f"{'':<22}{'regret':>9} ± {'s.e.':<6}{'limit':>8}{'÷ paper, no privacy':>22}  survived  participants"
    )
    print(f"{'paper, no privacy':<22}{paper:9,.0f}")
    for name, (setting, limit) in ROWS.items():
        traces = found[setting]
        survived = sum(trace.best_action_survived for trace in traces)
        people = max(trace.participants for trace in traces)
        fits = mean(traces) <= limit and survived == len(traces) and people <= 50_796
        good &= fits
        print(
            f"{name:<22}{mean(traces):9,.0f} ± {error(traces):<6,.0f}{limit:8,d}{mean(traces) / paper:22.4f}"
            f"  {survived}/{len(traces)}  {people:,}{'' if fits else '   MISSED'}",
            flush=True,
        )
    return good


def family_table(share: float, workers: int) -> bool:
    """Print ratios to the non-private regret on other families, compared with the main setting."""
    good, allowed = True, list[float]()
    print(f"\n{'family':<14}{'runs':>6}{'paper none':>11}", *(f"{name:>18}" for name in COMPARED), end="")
    print("   ratios      survived")
    for family, changes in FAMILIES.items():
        runs = max(24, round(share * RUNS.get(family, USUAL_RUNS)))
        settings = [ROWS[name][0].changed(**changes) for name in COMPARED]
        paper = mean(next(iter(run([PAPER.changed(**changes)], PAPER_RUNS, workers).values())))
        found = run(settings, runs, workers)
        regrets = [mean(found[setting]) for setting in settings]
        ratios = [regret / regrets[0] for regret in regrets[1:]]
        allowed = allowed or [1.5 * ratio for ratio in ratios]
        survived = sum(trace.best_action_survived for setting in settings for trace in found[setting])
        fits = all(r <= a for r, a in zip(ratios, allowed, strict=True)) and survived == 3 * runs
        fits &= max(regrets) <= paper
        good &= fits
        cells = [f"{mean(found[s]):9,.1f} ± {error(found[s]):<6,.1f}" for s in settings]
        print(
            f"{family:<14}{runs:6,d}{paper:11,.0f}",
            *cells,
            f"  {ratios[0]:.2f}, {ratios[1]:.2f}   {survived}/{3 * runs}{'' if fits else '   MISSED'}",
            flush=True,
        )
    return good


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--families", action="store_true")
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    good = main_table(options.runs, options.workers)
    if options.families:
        good &= family_table(options.share, options.workers)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
