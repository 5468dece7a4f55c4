"""DP-PE, the standard linear bandit with one new client per round: its cost, and its price of privacy.

1. CPU time of one run of T = 10⁶, divided by that of DP-DPE in the same process: ≤ 3.
2. Regret divided by that of PE, the same algorithm without privacy, at (1, 10⁻⁶) and T = 10⁷, over the same
   instances: ≤ 1.1. Rewards are ±1, because the paper assumes that they are bounded by B = 1. Gaussian
   rewards are shown, too. They are unbounded and must be clipped at about four deviations, so noise is four
   times as large.
3. Regret against T, with the exponent that fits best (least squares of logarithms), compared with √T.

d = 20, k = 1000, σ = 0: all clients are equal. Run it with

    python benchmarks/one_client_per_round.py [--runs 32] [--workers 2]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from run_cost import least_cpu_seconds, report
from threadpoolctl import threadpool_limits

from dpbandits.simulation import Setting, run_once, sweep

TRUSTS = ("none", "central", "shuffle")
HORIZONS = (10**4, 10**5, 10**6, 10**7)
FloatArray = NDArray[np.float64]


def setting(trust: str, horizon: int, rewards: str = "bernoulli", algorithm: str = "pe") -> Setting:
    """Return the paper's problem without differences between clients."""
    return Setting.of(
        algorithm=algorithm,
        schedule="exponential",  # so that planning is not measured
        trust=trust,
        epsilon=1.0,
        delta=1e-6,
        horizon=horizon,
        rewards=rewards,
        heterogeneity=0.0,
    )


def cost(trust: str) -> float:
    """Return the CPU time of a run of DP-PE divided by that of DP-DPE.

    A first run of each calibrates what is calibrated once per process.
    """
    one, everyone = (setting(trust, 10**6, "gaussian", algorithm) for algorithm in ("pe", "dpe"))
    for own in (one, everyone):
        run_once(own, 1)
    separate, together = least_cpu_seconds(lambda: run_once(one, 1), lambda: run_once(everyone, 1))
    return separate / together


def regrets(settings: Sequence[Setting], runs: int, workers: int) -> dict[Setting, FloatArray]:
    """Return the regrets of each setting, over the instances of the seeds 0, 1, …"""
    found: dict[Setting, dict[int, float]] = {own: {} for own in settings}
    survived = True
    for own, trace in sweep(settings, range(runs), workers=workers):
        found[own][trace.seed] = trace.regret
        survived &= trace.best_action_survived
    print("the best action survived in all runs" if survived else "THE BEST ACTION WAS DROPPED in some runs")
    return {own: np.array([by_seed[seed] for seed in range(runs)]) for own, by_seed in found.items()}


def described(values: FloatArray) -> str:
    """Format mean and standard error."""
    return f"{values.mean():10,.0f} ± {values.std(ddof=1) / len(values) ** 0.5:<7,.0f}"


def ratio(private: FloatArray, plain: FloatArray) -> tuple[float, float]:
    """Return the ratio of the means, with its standard error over the common instances."""
    quotient = float(private.mean() / plain.mean())
    rest = private - quotient * plain
    return quotient, float(rest.std(ddof=1) / len(rest) ** 0.5 / plain.mean())


def show_privacy(found: dict[Setting, FloatArray]) -> list[tuple[str, float, float]]:
    """Print regret divided by that of PE at T = 10⁷; return the ratios that have a limit."""
    limited = []
    print(f"\n{'T = 10⁷, (1, 10⁻⁶)':<24}{'regret ± s.e.':>20}{'÷ PE':>14}")
    for rewards in ("bernoulli", "gaussian"):
        plain = found[setting("none", 10**7, rewards)]
        for trust in TRUSTS:
            own = found[setting(trust, 10**7, rewards)]
            quotient, error = ratio(own, plain)
            print(f"{rewards + ', ' + trust:<24}{described(own)}{quotient:11.3f} ± {error:.3f}")
            if rewards == "bernoulli" and trust != "none":
                limited.append((f"{trust}: regret / PE's, T = 10⁷", quotient, 1.1))
    return limited


def show_growth(found: dict[Setting, FloatArray]) -> None:
    """Print regret against T, divided by √T, and the exponents."""
    print(f"\n{'T':<8}" + "".join(f"{trust:>20}{'÷ √T':>8}" for trust in TRUSTS))
    for horizon in HORIZONS:
        cells = [found[setting(trust, horizon)] for trust in TRUSTS]
        row = "".join(f"{described(own)}{own.mean() / horizon**0.5:8.1f}" for own in cells)
        print(f"10^{round(np.log10(horizon)):<5}{row}")
    for trust in TRUSTS:
        means = np.log([found[setting(trust, horizon)].mean() for horizon in HORIZONS])
        slope = np.polyfit(np.log(HORIZONS), means, 1)[0]
        steps = ", ".join(f"{step:.2f}" for step in np.diff(means) / np.diff(np.log(HORIZONS)))
        print(f"{trust}: exponent of T {slope:.2f} (from decade to decade {steps}); √T has 0.50")


def main() -> int:
    """Measure everything; return a non-zero status if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with threadpool_limits(limits=1):
        rows = [(f"{trust}: one run of DP-PE / of DP-DPE, T = 10⁶", cost(trust), 3) for trust in TRUSTS]
    everything = [setting(trust, horizon) for trust in TRUSTS for horizon in HORIZONS]
    everything += [setting(trust, 10**7, "gaussian") for trust in TRUSTS]
    found = regrets(everything, options.runs, options.workers)
    rows += show_privacy(found)
    show_growth(found)
    print()
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
