"""A million actions: how fast does a private study find a good one?

The actions are a million points in ten dimensions. A phase plays only a few of them, chosen so that all
others can be predicted, and drops those that cannot be best.

python examples/million_actions.py [--actions 1000000] [--plot million-actions.png]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import dpbandits as dp


def draw(trace: dp.RunTrace, actions: int, path: str) -> None:
    """Draw how many actions are left after each phase, and how many are played in it."""
    from dpbandits._plots import ACCENT, SECOND, new_figure

    figure, axes = new_figure(7.0, 3.6)
    phases = [phase for phase in trace.phases if phase.cohort]
    numbers = [0, *(phase.index for phase in phases)]
    left = [actions, *(phase.progress.actions_left for phase in phases)]
    axes.plot(numbers, left, "o-", color=ACCENT, label="actions that may be best")
    axes.plot(
        numbers[1:], [phase.actions_played for phase in phases], "s--", color=SECOND, label="actions played"
    )
    axes.set(yscale="log", xlabel="phase", ylabel="actions", xticks=numbers)
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> dp.RunTrace:
    """Run the study on simulated clients, and print its phases."""
    parser = argparse.ArgumentParser(description="Find one of the best of many actions.")
    parser.add_argument("--actions", type=int, default=10**6, help="number of actions")
    parser.add_argument("--plot", metavar="PATH", help="write a figure")
    asked = parser.parse_args(arguments)
    actions = dp.Actions.generate("sphere", count=asked.actions, dimension=10, rng=1)
    study = dp.Study(
        actions=actions,
        horizon=10**8,
        schedule=dp.Schedule.shared(10_000, phases=5, first_length=200, growth=8, cohort_growth=2),
        privacy=dp.PrivacyRequest(trust="central", epsilon=1, delta=1e-6),
        bounded_rewards=False,
        stop_when_decided=True,
    )
    theta = actions.matrix[0] * math.sqrt(0.999)
    trace = dp.simulate(study, dp.Population(dp.Instance(actions, theta), heterogeneity=0.1), seed=1)
    for phase in (one for one in trace.phases if one.cohort):
        print(
            f"phase {phase.index}: {phase.cohort:,} clients, {phase.actions_played} actions played, "
            f"{phase.progress.actions_left:,} of {asked.actions:,} left"
        )
    print(f"best guess: action {trace.final_action}, {trace.final_gap:.4f} below the best action")
    if (stated := trace.guarantee) is not None:
        print(f"privacy: ({stated.epsilon:g}, {stated.delta:.3g})-DP, trust {stated.trust}")
    if asked.plot:
        draw(trace, asked.actions, asked.plot)
    return trace


if __name__ == "__main__":
    main()
