"""Which health insurance plan has the fewest visits to a doctor? A replay of a real randomised experiment.

In the RAND health insurance experiment (1974-1982) families were assigned to insurance plans at random. Each
row of examples/data/randhie.csv is one person: the plan, and the visits of one year. Whenever the study asks
for a client with a plan, the next person who really had this plan gives the real answer. Each person answers
once.

python examples/rand_insurance.py
python examples/rand_insurance.py --plot plans.png     (needs matplotlib)
python examples/rand_insurance.py --secure             (noise with the guarantee; not reproducible)
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dp

DATA = Path(__file__).parent / "data" / "randhie.csv"
MOST_VISITS = 5  # a person with more visits counts as having this many, so that rewards have a range
PRIVACY = {"no privacy": "none", "central (1, 1e-6)": "central", "shuffle (1, 1e-6)": "shuffle"}


def experiment(least: int) -> list[dict[str, Any]]:
    """Return one row per person, with the plan, its features and the reward, without plans with few people.

    Args:
        least: How many people a plan must have.
    """
    with DATA.open(newline="", encoding="utf-8") as file:
        people: list[dict[str, Any]] = list(csv.DictReader(file))
    for one in people:
        deductible = "deductible, " if one["deductible"] == "yes" else ""
        one["plan"] = f"{deductible}{one['coinsurance']} %"
        one["reward"] = -min(int(one["visits"]), MOST_VISITS)
    sizes = {plan: sum(one["plan"] == plan for one in people) for plan in {one["plan"] for one in people}}
    return [one for one in people if sizes[one["plan"]] >= least]


def plain_means(people: Sequence[dict[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Return the number of people of each plan, their mean reward and its standard error."""
    found = dict[str, tuple[int, float, float]]()
    for plan in sorted({one["plan"] for one in people}):
        rewards = np.array([one["reward"] for one in people if one["plan"] == plan], dtype=float)
        found[plan] = (
            len(rewards),
            float(rewards.mean()),
            float(rewards.std(ddof=1) / math.sqrt(len(rewards))),
        )
    return found


def plans(people: Sequence[dict[str, Any]]) -> dp.Options:
    """Return the plans as options. Each coinsurance has its own effect: nothing is assumed to be linear."""
    rows = {
        one["plan"]: {name: one[name] for name in ("plan", "coinsurance", "deductible")} for one in people
    }
    kinds = {"coinsurance": dp.Category(), "deductible": dp.Category()}
    table = [rows[plan] for plan in sorted(rows)]
    return dp.Options.from_table(table, label="plan", features=kinds, current="0 %")


def study(people: Sequence[dict[str, Any]], trust: str, asked: argparse.Namespace) -> dp.Found:
    """Replay one study with the given trust model."""
    return dp.choose(
        plans(people),
        people=dp.Replay(table=people, option="plan", reward="reward", phases=asked.phases),
        participants=asked.participants,
        horizon=10_000,
        trust=trust,
        epsilon=1.0,
        delta=1e-6,
        reward_range=(-MOST_VISITS, 0),
        seed=asked.seed,
        noise=None if asked.secure else dp.SimulatedNoise(np.random.default_rng(asked.seed)),
    )


def show(means: dict[str, tuple[int, float, float]], found: dict[str, dp.Found]) -> None:
    """Print the plain means of the experiment, and the answer of each study."""
    people = sum(size for size, _, _ in means.values())
    print(f"{people:,} people, {len(means)} plans; reward: minus the visits of a year, at most {MOST_VISITS}")
    print("plan                people   mean  standard error")
    for plan, (size, mean, error) in means.items():
        print(f"{plan:<18} {size:>7,}  {mean:.3f}  {error:.3f}")
    for name, one in found.items():
        print(f"\n{name}: asked {one.participants:,} people")
        for row in one.options:
            note = "" if row.may_be_best else "  dropped"
            print(f"{row.option:<18}          {row.estimate:.3f}  [{row.low:.3f}, {row.high:.3f}]{note}")
        print(f"best: {one.best}, {one.lead}")
        if one.lead_over_current is not None:
            print(f"      {one.lead_over_current}")
        print(f"privacy: {one.privacy}")
        if one.stopped:
            print(f"stopped: {one.stopped}")


def draw(means: dict[str, tuple[int, float, float]], found: dict[str, dp.Found], path: str) -> None:
    """Draw plain means with two standard errors, and the intervals of each study.

    Args:
        means: See `plain_means`.
        found: The answer of each study.
        path: Where the figure is written.
    """
    from dpbandits._plots import INK, TRUST_COLOURS, new_figure

    figure, axes = new_figure(7.0, 3.6)
    order = sorted(means, key=lambda plan: -means[plan][1])
    for place, plan in enumerate(order):
        _, mean, error = means[plan]
        label = "experiment: mean ± 2 standard errors" if place == 0 else None
        axes.errorbar([mean], [place - 0.27], xerr=[2 * error], fmt="s", color=INK, capsize=3, label=label)
    for number, (name, one) in enumerate(found.items()):
        rows = {row.option: row for row in one.options}
        for place, plan in enumerate(order):
            row, height = rows[plan], place - 0.09 + 0.18 * number
            ends = [[row.estimate - row.low], [row.high - row.estimate]]
            axes.errorbar(
                [row.estimate],
                [height],
                xerr=ends,
                fmt="o",
                color=TRUST_COLOURS[PRIVACY[name]],
                label=f"study, {name}" if place == 0 else None,
            )
    axes.set_yticks(range(len(order)), order)
    axes.set_ylabel("coinsurance")
    axes.invert_yaxis()
    axes.set_xlabel(f"minus the visits of a year, at most {MOST_VISITS} counted; intervals at level 0.95")
    axes.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> dict[str, dp.Found]:
    """Replay the studies, and print what they found."""
    parser = argparse.ArgumentParser(description="Replay the RAND health insurance experiment.")
    parser.add_argument("--participants", type=int, default=2800, help="people who are asked at most")
    parser.add_argument("--least", type=int, default=600, help="people whom a plan must have to be an option")
    parser.add_argument("--phases", type=int, default=1, help="phases of the study")
    parser.add_argument("--seed", type=int, default=1, help="order of the people, and simulated noise")
    parser.add_argument("--secure", action="store_true", help="draw secure noise, with the privacy guarantee")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    people = experiment(asked.least)
    means = plain_means(people)
    try:
        found = {name: study(people, trust, asked) for name, trust in PRIVACY.items()}
    except dp.DpbanditsError as error:
        parser.error(str(error))
    show(means, found)
    if asked.plot:
        draw(means, found, asked.plot)
    return found


if __name__ == "__main__":
    main()
