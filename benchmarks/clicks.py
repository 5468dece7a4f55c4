"""Clicks: the best of 20 options with click rates from 1 % to 3 %, and the confidence widths of their means.

20 options without features in common (indicator vectors), whose rates are equally spaced, so that the best is
.105 % better than the second. Rewards are 0 or 1, the rates of a client deviate by about .5 %, central ε = 1,
and 10⁴ participants in three phases with 16, 48 and 144 plays per option. Each row is a study with, or
without, the statement that rewards have a variance of at most .03.

- found: the share of studies whose best guess is the best option. It must be at least 95 % with the
  statement;
- left: how many options are left at the end; dropped: the share of studies that dropped the best option;
- width: the largest width of the last phase (`State.width`) on the scale of click rates, on average over the
  studies;
- ratio: the width of an option's mean after the last phase at level .95, one-sided, divided by the empirical
  .95-quantile of the error, over all options and studies. It must be at most 2 with the statement, and errors
  may exceed these widths in at most 5 % (outside).

    python benchmarks/clicks.py [--studies 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    LinearFit,
    Schedule,
    State,
    Study,
    ask,
    fitted,
    leader,
    simulate_groups,
    tell,
)
from dpbandits.world import Instance, Population

OPTIONS = Actions(np.eye(20))
RATES = np.linspace(0.01, 0.03, OPTIONS.count)
CENTRAL = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
VARIANCE, SPREAD, LEVEL = 0.03, 0.005, 0.95
LEAST_FOUND, LARGEST_RATIO = 0.95, 2.0


def study_of(variance: float | None) -> Study:
    """Return the study; rewards 0 and 1 become −1 and 1, so deviations are doubled."""
    return Study(
        actions=OPTIONS,
        horizon=10**6,
        privacy=CENTRAL,
        schedule=Schedule(cohorts=(1500, 2500, 6000), first_length=16 * OPTIONS.count, growth=3.0),
        heterogeneity=2 * SPREAD,
        confidence=LEVEL,
        reward_range=(0.0, 1.0),
        reward_variance=None if variance is None else 4 * variance,
    )


def run(study: Study, instance: Instance, rng: np.random.Generator) -> State:
    """Run all phases that ask clients."""
    people, noise = Population(instance, heterogeneity=2 * SPREAD, rewards="bernoulli"), SimulatedNoise(rng)
    state = study.begin()
    while (plan := ask(state)).asks:
        reported = study.assignment_rule.simulate(plan, people, rng)
        state = tell(state, plan, simulate_groups(plan, reported, noise)[0])
    return state


def relative_errors(state: State, instance: Instance) -> list[float]:
    """Return the errors of the means of the last phase, divided by their widths."""
    study, evidence = state.study, state.history[-1].unfitted
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    rows = OPTIONS.matrix[list(evidence.plan.support)]
    radii = fit.errors.radius(rows @ fit.map, rows, confidence=1 - LEVEL)
    errors = rows @ fit.estimate - instance.mean_rewards[list(evidence.plan.support)]
    return [float(value) for value in errors / radii]


def main() -> int:
    """Print one row with and one without the variance; return 1 if a row fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    studies, failed = options.studies, False
    print(f"{'variance':>10}{'found':>9}{'left':>7}{'dropped':>9}{'width':>9}{'ratio':>7}{'outside':>9}")
    for variance in (None, VARIANCE):
        study, found, left, dropped, errors, width = study_of(variance), 0, 0, 0, list[float](), 0.0
        for number in range(studies):
            rng = np.random.default_rng([options.seed, number])
            means = 2 * rng.permutation(RATES) - 1
            instance = Instance(OPTIONS, np.zeros(OPTIONS.dimension), measured=means)
            state = run(study, instance, rng)
            found += leader(state) == instance.best_action
            left += len(state.active_actions)
            dropped += instance.best_action not in state.active_actions
            errors += relative_errors(state, instance)
            width += (state.width or 0.0) / 2 / studies
        ratio, outside = 1 / float(np.quantile(errors, LEVEL)), float(np.mean(np.array(errors) > 1))
        bad = variance is not None and (found < LEAST_FOUND * studies or ratio > LARGEST_RATIO)
        bad = bad or outside > 1 - LEVEL or dropped > binom.isf(1e-3, studies, 1 - LEVEL)
        failed = failed or bad
        print(
            f"{variance or 'unknown':>10}{found / studies:>9.1%}{left / studies:>7.1f}"
            f"{dropped / studies:>9.1%}{width:>9.2%}{ratio:>7.2f}{outside:>9.1%}{'  FAILED' if bad else ''}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
