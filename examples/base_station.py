"""A base station: which of 45 configurations gives phones the best connection?

An operator may change the tilt of an antenna, its power and the scheduler. Phones measure their throughput
and send noisy reports through a shuffler. The best tilt lies inside its range, so the tilt gets a square too.

python examples/base_station.py [--plot base-station.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import dpbandits as dp

CURRENT = {"tilt": 2, "power": 30, "scheduler": "fair"}


def configurations() -> dp.Options:
    """Return all combinations of tilt (degrees), power (watts) and scheduler."""
    return dp.Options.grid(
        tilt=[2, 4, 6, 8, 10],
        power=[20, 30, 40],
        scheduler=["fair", "greedy", "random"],
        features={"tilt": dp.Number(squared=True)},
        current=CURRENT,
    )


def phones(options: dp.Options) -> dp.Population:
    """Return simulated phones. The study does not see the truth, which is best at tilt 7 and full power."""
    tilt, power = (np.array(options.table[name], dtype=float) for name in ("tilt", "power"))
    greedy = np.array([name == "greedy" for name in options.table["scheduler"]])
    throughput = 0.5 - 0.02 * (tilt - 7) ** 2 + 0.008 * (power - 20) + 0.12 * greedy
    theta = np.linalg.lstsq(options.actions.matrix, throughput - throughput.mean(), rcond=None)[0]
    return dp.Population(dp.Instance(options.actions, theta), heterogeneity=0.1)


def main(arguments: Sequence[str] | None = None) -> dp.Found:
    """Run the study, and print what it found."""
    parser = argparse.ArgumentParser(description="Find the best configuration of a base station.")
    parser.add_argument("--phones", type=int, default=4000, help="phones that take part")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    options = configurations()
    found = dp.choose(
        options,
        people=phones(options),
        participants=asked.phones,
        trust="shuffle",
        epsilon=1,
        horizon=100_000,
        seed=1,
        noise=dp.SimulatedNoise(np.random.default_rng(1)),  # leave this out for real noise
    )
    print(found)
    if asked.plot:
        found.plot(asked.plot, most=12)
    return found


if __name__ == "__main__":
    main()
