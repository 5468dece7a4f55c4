"""A custom mechanism, audited: does it add the noise that it claims?

`one_bit.py` defines a mechanism in which a client sends one random sign. The audit plays a game against the
code that runs: it guesses from a report which of two clients sent it. Here the mechanism of the file passes,
and copies with too little noise are refuted.

python examples/audited_mechanism.py [--samples 20000] [--plot audited-mechanism.png]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpbandits.privacy import AuditResult, SimulatedNoise, audit

sys.path.insert(0, str(Path(__file__).parent))

from one_bit import OneBit

CLAIMED = 1.0
TRUE = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)  # the ε that the noise really gives


def audited(true: float, samples: int) -> AuditResult:
    """Audit the claim ε = 1 against code whose noise gives another ε."""
    claimed = OneBit(coordinates=2, cohort=100, bound=1.0, epsilon=CLAIMED)
    running = replace(claimed, epsilon=true)
    return audit(
        claimed,
        SimulatedNoise(np.random.default_rng(1)),  # an audit of a deployment takes SecureNoise()
        epsilon=CLAIMED,
        delta=0.0,
        samples=samples,
        reveals=lambda _, averages, noise: running.randomize(averages[:, 0], noise),
    )


def draw(results: dict[float, AuditResult], path: str) -> None:
    """Draw the ε that the audit shows against the ε that holds."""
    from dpbandits._plots import BAD, GOOD, SOFT, new_figure

    figure, axes = new_figure(7.0, 3.6)
    axes.plot(TRUE, TRUE, ":", color=SOFT, label="ε that holds")
    axes.axhline(CLAIMED, color=SOFT, linewidth=1, label="ε that is claimed")
    for verdict, colour in (("not refuted", GOOD), ("refuted", BAD)):
        own = [true for true, one in results.items() if one.violated == (verdict == "refuted")]
        shown = [results[true].epsilon_lower_bound for true in own]
        axes.plot(own, shown, "o", color=colour, label=f"ε that the audit shows: {verdict}")
    axes.set(xlabel="ε that the noise gives", ylabel="ε")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> dict[float, AuditResult]:
    """Audit the mechanism and its faulty copies, and print the verdicts."""
    parser = argparse.ArgumentParser(description="Audit a custom mechanism.")
    parser.add_argument("--samples", type=int, default=20_000, help="plays of the game in each world")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    results = {true: audited(true, asked.samples) for true in TRUE}
    print(f"claimed: ε = {CLAIMED:g}; {asked.samples:,} plays in each of two worlds")
    for true, one in results.items():
        verdict = "REFUTED" if one.violated else "not refuted"
        print(f"noise for ε = {true:<4g}  shown: ε ≥ {one.epsilon_lower_bound:.3f}  {verdict}")
    if asked.plot:
        draw(results, asked.plot)
    return results


if __name__ == "__main__":
    main()
