"""Prices: which monthly price earns most, if buyers answer privately?

Each person is shown some prices and buys or does not. The reward of a price is the revenue: the price if the
person buys, and nothing otherwise. Revenue rises and falls with the price, so the price gets a square.

python examples/prices.py [--plot prices.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import dpbandits as dp

PRICES = list(range(4, 26, 2))


def bought(price: float) -> float:
    """Return the probability that a person buys at this price; the study does not see it."""
    return float(np.clip(1.05 - price / 24, 0, 1))


def buyer(label: str, rng: np.random.Generator) -> float:
    """Return the revenue from one person at the price with this label."""
    price = float(label.split()[0])
    return price if rng.random() < bought(price) else 0.0


def draw(found: dp.Found, path: str) -> None:
    """Draw the revenue of each price with its interval, and the truth."""
    from dpbandits._plots import ACCENT, SECOND, SOFT, new_figure

    figure, axes = new_figure(7.0, 3.6)
    fine = np.linspace(PRICES[0], PRICES[-1], 200)
    axes.plot(fine, [price * bought(price) for price in fine], ":", color=SOFT, label="truth (not seen)")
    for one in found.options:
        price = float(one.option.split()[0])
        colour = ACCENT if one.option == found.best else SECOND if one.option == found.current else SOFT
        axes.plot([price, price], [one.low, one.high], color=colour, linewidth=2.5)
        axes.plot([price], [one.estimate], "o", color=colour)
    axes.plot([], [], "o-", color=ACCENT, label=f"best: {found.best}")
    axes.plot([], [], "o-", color=SECOND, label=f"in use today: {found.current}")
    axes.set(xlabel="price per month", ylabel="revenue per person, interval at level 0.95")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> dp.Found:
    """Run the study, and print what it found."""
    parser = argparse.ArgumentParser(description="Find the price with the highest revenue.")
    parser.add_argument("--people", type=int, default=3000, help="people who are asked")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    table = {"name": [f"{price} per month" for price in PRICES], "price": PRICES}
    kinds = {"price": dp.Number(squared=True)}
    options = dp.Options.from_table(table, features=kinds, current="20 per month")
    found = dp.choose(
        options,
        people=buyer,
        participants=asked.people,
        trust="central",
        epsilon=1,
        horizon=3000,
        reward_range=(0, max(PRICES)),
        seed=1,
        noise=dp.SimulatedNoise(np.random.default_rng(1)),  # leave this out for real noise
    )
    print(found)
    if asked.plot:
        draw(found, asked.plot)
    return found


if __name__ == "__main__":
    main()
