"""Sixty mobile phone plans: which one satisfies customers most?

Plans differ in price, data, contract and network. 5,000 customers rate a few plans each, from 0 to 10. The
result is differentially private. Run it with `python examples/sixty_options.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dpbandits as dp

MONTHS = {"none": 0, "1 year": 12, "2 years": 24}
TERMS = list(MONTHS)  # in order
NETWORKS = {"red": 0.0, "blue": 0.6, "green": -0.3}


def plans() -> list[dict[str, Any]]:
    """Return a table with one plan per row; a data frame or a CSV file works too."""
    rng = np.random.default_rng(7)
    return [
        {
            "name": f"plan {number:02d}",
            "price": int(rng.integers(8, 30)),
            "gigabytes": int(rng.choice([1, 2, 5, 10, 20, 50, 100])),
            "contract": str(rng.choice(list(MONTHS))),
            "network": str(rng.choice(list(NETWORKS))),
        }
        for number in range(1, 61)
    ]


PLANS = plans()


def mean_rating(name: str) -> float:
    """Return the truth, which the study does not see."""
    plan = next(one for one in PLANS if one["name"] == name)
    liked = 0.6 * math.log(plan["gigabytes"]) + NETWORKS[plan["network"]]
    return 5.0 - 0.1 * plan["price"] - 0.05 * MONTHS[plan["contract"]] + liked


def customer(name: str, rng: np.random.Generator) -> float:
    """Return one customer's rating of a plan."""
    return MEANS[name] + rng.uniform(-1.2, 1.2)


MEANS = {plan["name"]: mean_rating(plan["name"]) for plan in PLANS}


def main() -> dp.Found:
    """Find the best plan."""
    kinds = {"price": None, "gigabytes": dp.Number(log=True), "contract": dp.Ordered(TERMS), "network": None}
    options = dp.Options.from_table(PLANS, label="name", features=kinds, current="plan 01")
    found = dp.choose(options, people=customer, horizon=100_000, reward_range=(0, 10), seed=1)
    print(found)
    return found


if __name__ == "__main__":
    main()
