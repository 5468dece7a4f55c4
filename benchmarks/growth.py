"""Growth of regret with ε and T in the central and the shuffle model; δ = 10⁻⁶, d = 20, k = 1000, σ = .1.

ε varies at T = 10⁶, and T varies at ε = 1. There are as many participants as the paper's schedule with α = .8
uses, from an unlimited population, so they grow like T^.8. The paper's bound grows like T^(1 − α/2) = T^.6;
the exponent fitted to the measured means (least squares of logarithms) is printed next to this bound.

Regret is heavy-tailed over instances: usually a few plays of each supported action, and occasionally a wrong
best guess played to the end. So means of few runs vary much; see the standard errors.

    python benchmarks/growth.py [--runs 32] [--workers 2] [--plot growth.png]

From T = 10⁷ on, cohorts are large. These settings run fewer times and one after another, which keeps memory
below about 2 GB.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbandits._plots import SOFT, TRUST_COLOURS, new_figure
from dpbandits.simulation import Setting, sweep

TRUSTS = ("central", "shuffle")
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
HORIZONS = (10**4, 10**5, 10**6, 10**7, 10**8)
FEWER_RUNS = {10**7: 2, 10**8: 6}  # divisors of the number of runs; these use one worker
PAPER_EXPONENT = 0.6  # 1 − α/2


@dataclass(frozen=True, kw_only=True)
class Point:
    """The mean regret of one setting, its standard error, the participants and the number of runs."""

    mean: float
    error: float
    participants: int
    runs: int


def setting(trust: str, epsilon: float, horizon: int) -> Setting:
    """Return the paper's problem with an unlimited population."""
    return Setting.of(
        trust=trust, epsilon=epsilon, delta=1e-6, horizon=horizon, population=None, schedule="budgeted"
    )


def measure(settings: Sequence[Setting], runs: int, workers: int) -> dict[Setting, Point]:
    """Return the mean of each setting over the instances of the seeds 0, 1, …"""
    found: dict[Setting, Point] = {}
    for horizon in sorted({own.horizon for own in settings}):
        group = list(dict.fromkeys(own for own in settings if own.horizon == horizon))
        seeds = range(max(2, runs // FEWER_RUNS.get(horizon, 1)))
        results = list(sweep(group, seeds, workers=1 if horizon in FEWER_RUNS else workers))
        for own in group:
            regrets = [trace.regret for other, trace in results if other == own]
            found[own] = Point(
                mean=float(np.mean(regrets)),
                error=float(np.std(regrets, ddof=1)) / len(regrets) ** 0.5,
                participants=max(trace.participants for other, trace in results if other == own),
                runs=len(regrets),
            )
    return found


def table(title: str, names: Sequence[str], columns: Sequence[Sequence[Point]]) -> None:
    """Print one line per value, with one column per trust model."""
    print(f"{title:<8}{'participants':>13}{'runs':>6}" + "".join(f"{t:>12} ± {'s.e.':<8}" for t in TRUSTS))
    for name, points in zip(names, zip(*columns, strict=True), strict=True):
        cells = "".join(f"{point.mean:12,.1f} ± {point.error:<8,.1f}" for point in points)
        print(f"{name:<8}{max(point.participants for point in points):13,d}{points[0].runs:6d}{cells}")


def exponent(points: Sequence[Point]) -> float:
    """Return the power of T that fits best."""
    slope, _ = np.polyfit(np.log(HORIZONS), np.log([point.mean for point in points]), 1)
    return float(slope)


def plot(path: Path, by_epsilon: Sequence[Sequence[Point]], by_horizon: Sequence[Sequence[Point]]) -> None:
    """Draw two panels with logarithmic axes; the paper's power of T starts at the first point."""
    figure, panels = new_figure(10, 4, columns=2)
    for panel, values, columns in zip(panels, (EPSILONS, HORIZONS), (by_epsilon, by_horizon), strict=True):
        for trust, points, style in zip(TRUSTS, columns, ("o-", "^:"), strict=True):
            means, errors = [point.mean for point in points], [point.error for point in points]
            colour = TRUST_COLOURS[trust]
            panel.errorbar(values, means, yerr=errors, fmt=style, color=colour, capsize=3, label=trust)
        panel.set(xscale="log", yscale="log", ylabel="regret")
    start = by_horizon[0][0].mean
    bound = start * (np.array(HORIZONS) / HORIZONS[0]) ** PAPER_EXPONENT
    panels[1].plot(
        HORIZONS, bound, "--", color=SOFT, label=f"growth of the paper's bound, T^{PAPER_EXPONENT}"
    )
    panels[0].set(xlabel="ε, for T = 10⁶")
    panels[1].set(xlabel="T, for ε = 1")
    panels[0].set_ylim(panels[1].get_ylim())
    panels[1].legend(frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Software": None})


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    over_epsilon = [[setting(trust, value, 10**6) for value in EPSILONS] for trust in TRUSTS]
    over_horizon = [[setting(trust, 1.0, value) for value in HORIZONS] for trust in TRUSTS]
    everything = [own for group in (*over_epsilon, *over_horizon) for own in group]
    found = measure(everything, options.runs, options.workers)
    by_epsilon = [[found[own] for own in group] for group in over_epsilon]
    by_horizon = [[found[own] for own in group] for group in over_horizon]
    table("ε", [f"{value:g}" for value in EPSILONS], by_epsilon)
    print()
    table("T", [f"10^{round(np.log10(value))}" for value in HORIZONS], by_horizon)
    fitted = ", ".join(f"{t} {exponent(p):.2f}" for t, p in zip(TRUSTS, by_horizon, strict=True))
    print(f"\nexponent of T: {fitted}; the paper's bound has {PAPER_EXPONENT}")
    if options.plot is not None:
        plot(options.plot, by_epsilon, by_horizon)
    return 0


if __name__ == "__main__":
    sys.exit(main())
