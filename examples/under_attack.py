"""A study under attack: how far can lying clients push a bad option?

1,000 clients rate six options through a shuffler. Some of them lie, so that the worst option wins. Where each
report is checked (modes `trusted` and `verified`), a liar can only claim the most extreme rewards. In mode
`split` nobody can check a report, so one liar can send anything.

python examples/under_attack.py [--plot under-attack.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import dpbandits as dp
from dpbandits.protocol import add_up, best_estimate, nothing, plausible, report_totals, sums_of

MEANS = {"a": 0.30, "b": 0.22, "c": 0.15, "d": 0.05, "e": -0.05, "worst": -0.20}
CLIENTS = 1000
OPTIONS = dp.Options.from_table({"name": list(MEANS)}, features=["name"])
STUDY = dp.Study(
    actions=OPTIONS.actions,
    horizon=10_000,
    schedule=dp.Schedule(cohorts=(CLIENTS,), first_length=600),
    privacy=dp.PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6),
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a study.

    Attributes:
        best: The option that the study recommends.
        estimate: The estimated mean reward of the worst option, which is −0.2.
        plausible: Whether honest clients could have produced the release.
    """

    best: str
    estimate: float
    plausible: bool


def attacked(liars: int, *, checked: bool = True) -> Result:
    """Run a study in which some clients lie.

    Args:
        liars: How many clients lie.
        checked: Whether each report is checked. If not, each liar sends a thousand times its report.
    """
    rng = np.random.default_rng(1)
    noise, plan = dp.SimulatedNoise(rng), dp.ask(STUDY.begin())
    means = np.array([MEANS[OPTIONS.labels[action]] for action in plan.support])
    lie = np.where(means == min(MEANS.values()), 1.0, -1.0)
    rewards = [lie if client < liars else means + rng.normal(0, 0.1, len(means)) for client in range(CLIENTS)]
    reports = [dp.respond_with_averages(plan, one.tolist(), noise).payload for one in rewards]
    sums = add_up(plan, nothing(plan), reports)
    if not checked:
        totals = sum((report_totals(plan, one) for one in reports), np.zeros(plan.numbers, dtype=np.int64))
        totals = totals + 999 * sum(report_totals(plan, one) for one in reports[:liars])
        sums = sums_of(plan, totals.tolist(), CLIENTS)
    release = dp.analyze(plan, sums, noise)
    state = dp.tell(STUDY.begin(), plan, release)
    scores = OPTIONS.actions.matrix @ best_estimate(state)
    return Result(
        best=OPTIONS.labels[int(np.argmax(scores))],
        estimate=float(scores[OPTIONS.index("worst")]),
        plausible=plausible(plan, release),
    )


def draw(path: str) -> None:
    """Draw the estimate of the worst option against the number of liars."""
    from dpbandits._plots import ACCENT, BAD, SOFT, new_figure

    figure, axes = new_figure(7.0, 3.6)
    numbers = [0, 50, 100, 150, 200, 250, 300, 350, 400]
    axes.plot(
        numbers, [attacked(one).estimate for one in numbers], "o-", color=ACCENT, label="reports checked"
    )
    one = attacked(1, checked=False)
    axes.plot([1], [one.estimate], "X", color=BAD, markersize=10, label="mode split: one liar")
    axes.axhline(MEANS["a"], color=SOFT, linewidth=1, linestyle=":", label="mean of the best option")
    axes.set(xlabel=f"lying clients of {CLIENTS:,}", ylabel="estimated mean of the worst option")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> dict[str, Result]:
    """Attack the study in several ways, and print what each attack gains."""
    parser = argparse.ArgumentParser(description="Attack a study with lying clients.")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    results = {
        "nobody lies": attacked(0),
        "1 liar, reports checked": attacked(1),
        "50 liars, reports checked": attacked(50),
        "300 liars, reports checked": attacked(300),
        "1 liar in mode split": attacked(1, checked=False),
    }
    print(f"{'attack':<28}{'best':<7}{'worst option':>13}  plausible")
    for name, one in results.items():
        print(f"{name:<28}{one.best:<7}{one.estimate:>13.2f}  {'yes' if one.plausible else 'NO'}")
    if asked.plot:
        draw(asked.plot)
    return results


if __name__ == "__main__":
    main()
