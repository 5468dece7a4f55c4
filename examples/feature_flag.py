"""A feature flag: is one of four new layouts better than the layout in use today, and by how much?

Nothing is assumed about the layouts: the name is the only feature, so each layout has its own effect. A last
cohort compares the finalists with the layout in use today, and the decision depends on that comparison.

python examples/feature_flag.py [--plot feature-flag.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import dpbandits as dp

# The share of visitors who find what they look for; the study does not see it.
FOUND = {"today": 0.52, "wide": 0.55, "cards": 0.64, "dark": 0.50, "compact": 0.53}


def visitor(layout: str, rng: np.random.Generator) -> float:
    """Return 1 if a visitor finds what it looks for with this layout, and 0 otherwise."""
    return float(rng.random() < FOUND[layout])


def main(arguments: Sequence[str] | None = None) -> dp.Found:
    """Run the study, and print whether to switch."""
    parser = argparse.ArgumentParser(description="Compare new layouts with the layout in use today.")
    parser.add_argument("--visitors", type=int, default=6000, help="visitors who take part")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    options = dp.Options.from_table({"name": list(FOUND)}, features=["name"], current="today")
    found = dp.choose(
        options,
        people=visitor,
        participants=asked.visitors,
        trust="shuffle",
        epsilon=1,
        horizon=20_000,
        reward_range=(0, 1),
        seed=1,
        noise=dp.SimulatedNoise(np.random.default_rng(1)),  # leave this out for real noise
    )
    print(found)
    confirmed = found.confirmation  # the finalists, compared with the layout in use today
    switch = confirmed is not None and confirmed.compared[0].low > 0
    print(f"decision   {'switch to ' + found.best if switch else 'keep ' + str(found.current)}")
    if asked.plot:
        found.plot(asked.plot)
    return found


if __name__ == "__main__":
    main()
