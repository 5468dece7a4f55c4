"""Regret at the paper's scale, against the paper's own constants without privacy, in the same run.

d = 20, k = 1000, T = 10⁶, σ = .1, B = 1, θ* on the unit sphere, at most 50,796 participants, means over
instances.

    python benchmarks/regret.py [--runs 100] [--workers 2] [--families]

`--families` adds other families of problems: there, the ratio of private to non-private regret must stay
within 1.5 times that of the main setting, nothing may be worse than `paper`, and the best action survives.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dpbandits.simulation import RunTrace, Setting, sweep

PAPER = Setting(preset="paper")
TIGHT = Setting(schedule="budgeted")
ROWS = {
    "none": (TIGHT, 160),
    "central (10, .1)": (replace(TIGHT, trust="central", delta=0.1), 175),
    "central (1, 1e-6)": (replace(TIGHT, trust="central", epsilon=1, delta=1e-6), 240),
    "shuffle (1, 1e-6)": (replace(TIGHT, trust="shuffle", epsilon=1, delta=1e-6), 260),
    "pure central 1": (replace(TIGHT, trust="central", epsilon=1, delta=0), 200),
    "shuffle (.3, 1e-6)": (replace(TIGHT, trust="shuffle", epsilon=0.3, delta=1e-6), 2_000),
    "local (10, 1e-6)": (replace(TIGHT, trust="local", epsilon=10, delta=1e-6), 30_000),
}
FAMILIES = {
    "low-rank": {"family": "low-rank"},
    "clustered": {"family": "clustered"},
    "k=50, d=5": {"actions": 50, "dimension": 5},
    "k=10⁴, d=50": {"actions": 10_000, "dimension": 50},
    "bernoulli": {"rewards": "bernoulli"},
    "σ=0": {"heterogeneity": 0.0},
    "σ=.5": {"heterogeneity": 0.5},
}
COMPARED = ("none", "central (1, 1e-6)", "shuffle (1, 1e-6)")


def run(settings: Iterable[Setting], runs: int, workers: int) -> dict[Setting, list[RunTrace]]:
    """All runs of all settings, with a line of progress."""
    found: dict[Setting, list[RunTrace]] = {setting: [] for setting in settings}
    total = runs * len(found)
    for number, (setting, trace) in enumerate(sweep(list(found), range(runs), workers=workers), 1):
        found[setting].append(trace)
        print(f"\r{number}/{total} runs", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 30 + "\r", end="", file=sys.stderr)
    return found


def mean(traces: list[RunTrace]) -> float:
    """Of the regret."""
    return float(np.mean([trace.regret for trace in traces]))


def main_table(runs: int, workers: int) -> tuple[dict[str, float], bool]:
    """The rows with their limits; the paper's constants without privacy beside them."""
    found = run([PAPER, *(setting for setting, _ in ROWS.values())], runs, workers)
    paper, good = mean(found[PAPER]), True
    print(
        f"{'':<22}{'regret':>9} ± {'s.e.':<6}{'limit':>8}{'÷ paper, no privacy':>22}  survived  participants"
    )
    print(f"{'paper, no privacy':<22}{paper:9,.0f}")
    means = {}
    for name, (setting, limit) in ROWS.items():
        traces = found[setting]
        means[name] = mean(traces)
        error = float(np.std([t.regret for t in traces], ddof=1)) / len(traces) ** 0.5
        survived = sum(trace.best_action_survived for trace in traces)
        people = max(trace.participants for trace in traces)
        fits = means[name] <= limit and survived == len(traces) and people <= 50_796
        good &= fits
        print(
            f"{name:<22}{means[name]:9,.0f} ± {error:<6,.0f}{limit:8,d}{means[name] / paper:22.4f}"
            f"  {survived}/{len(traces)}  {people:,}{'' if fits else '   MISSED'}"
        )
    return means, good


def family_table(means: dict[str, float], runs: int, workers: int) -> bool:
    """Ratios to the non-private regret on other families, against the main setting's."""
    good = True
    print(
        f"\n{'family':<14}{'paper none':>11}{'none':>8}{'central':>9}{'shuffle':>9}   ratios (main: ", end=""
    )
    print(", ".join(f"{means[name] / means['none']:.2f}" for name in COMPARED[1:]) + ")   survived")
    for family, changes in FAMILIES.items():
        settings = [replace(ROWS[name][0], **changes) for name in COMPARED]
        paper = replace(PAPER, **changes)
        found = run([paper, *settings], runs, workers)
        regrets = [mean(found[setting]) for setting in settings]
        ratios = [regret / regrets[0] for regret in regrets[1:]]
        survived = sum(trace.best_action_survived for setting in settings for trace in found[setting])
        allowed = [1.5 * means[name] / means["none"] for name in COMPARED[1:]]
        fits = all(r <= a for r, a in zip(ratios, allowed, strict=True)) and survived == 3 * runs
        fits &= max(regrets) <= mean(found[paper])
        good &= fits
        row = f"{family:<14}{mean(found[paper]):11,.0f}{regrets[0]:8,.0f}"
        print(
            f"{row}{regrets[1]:9,.0f}{regrets[2]:9,.0f}   "
            f"{ratios[0]:.2f}, {ratios[1]:.2f}   {survived}/{3 * runs}{'' if fits else '   MISSED'}"
        )
    return good


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--families", action="store_true")
    options = parser.parse_args()
    means, good = main_table(options.runs, options.workers)
    if options.families:
        good &= family_table(means, max(24, options.runs // 2), options.workers)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
