"""Regret of `tight` with 5,000 participants against LinUCB with 50,000, on the same instances.

T = 5·10⁴, d = 20, k = 1000, σ = .1. LinUCB asks one new client per round, who reports the reward of that
round, and has no privacy. In `tight`, as in the paper, each client of a phase reports averages over all
rounds of the phase: there are fewer participants, and each reports more. Every row of `tight` must have less
regret.

    python benchmarks/against_linucb.py [--runs 10] [--workers 2]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from joblib import Parallel, delayed

from dpbandits.baselines import linucb
from dpbandits.simulation import Setting, sweep

HORIZON = 50_000
SIZE = {"horizon": HORIZON, "participants": HORIZON // 10}
ROWS = {
    "none": Setting.of(**SIZE),
    "central (1, 1e-6)": Setting.of(**SIZE, trust="central", epsilon=1, delta=1e-6),
    "shuffle (1, 1e-6)": Setting.of(**SIZE, trust="shuffle", epsilon=1, delta=1e-6),
}


def baseline(seed: int) -> float:
    """Return the regret of LinUCB on the instance of this seed."""
    setting = ROWS["none"]
    instance = setting.instance(seed)
    return linucb(instance, horizon=HORIZON, heterogeneity=setting.problem.heterogeneity, seed=seed).regret


def line(name: str, regrets: list[float], participants: int) -> str:
    """Return the mean over instances, and its standard error."""
    error = np.std(regrets, ddof=1) / len(regrets) ** 0.5
    return f"{name:<20}{np.mean(regrets):9,.0f} ± {error:<6,.0f}{participants:13,d}"


def main() -> int:
    """Print the table; return a non-zero status unless every row has less regret than LinUCB."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="number of instances, at least 2")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    seeds = range(max(2, options.runs))
    reference = list(Parallel(n_jobs=options.workers)(delayed(baseline)(seed) for seed in seeds))
    found = list(sweep(list(ROWS.values()), seeds, workers=options.workers))
    print(f"{'':<20}{'regret':>9} ± {'s.e.':<6}{'participants':>13}{'÷ LinUCB':>10}")
    print(line("LinUCB", reference, HORIZON))
    good = True
    for name, setting in ROWS.items():
        traces = [trace for own, trace in found if own == setting]
        regrets = [trace.regret for trace in traces]
        ratio = float(np.mean(regrets) / np.mean(reference))
        good &= ratio < 1
        people = max(trace.participants for trace in traces)
        print(f"{line(name, regrets, people)}{ratio:10.3f}   {'ok' if ratio < 1 else 'MISSED'}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
