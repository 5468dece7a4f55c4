"""Studies whose mean rewards are not linear: what they drop, and whether the fit test notices it.

60 options with a constant feature, three features that are 0 or 1 and four between −1 and 1; σ = .1, normal
rewards, shuffle (1, 10⁻⁶), 10⁶ rounds and 10⁴ participants. The mean reward of each option deviates from
⟨θ*, x⟩ by an amount that is uniform in [−m, m].

- declared: the study has misfit = m, and all participants are asked in learning phases. The truly best option
  must be dropped in at most 5 % of studies; a row fails if the count exceeds the .999-quantile of a binomial;
- undeclared: the study has misfit = 0. The table shows how often it drops the best option, for comparison. A
  fit test that is planned to notice .03 is run on the same truths. It must report m ≥ .03 in at least 90 % of
  studies and m = 0 in at most 1 %, up to the .999-quantile of a binomial.

    python benchmarks/misfit.py [--studies 500] [--seed 0] [--misfits 0.03 0.1]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    State,
    Study,
    ask,
    fit_verdict,
    plan_study,
    reserved_fit_test,
    simulate_groups,
    tell,
)
from dpbandits.world import Instance, Population

SHUFFLE = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6)
PARTICIPANTS, HORIZON, HETEROGENEITY = 10**4, 10**6, 0.1
MISFITS, NOTICED = (0.0, 0.01, 0.03, 0.1), 0.03
MOST_DROPPED, MOST_ALARMS, LEAST_POWER = 0.05, 0.01, 0.9


def mixed_options() -> Actions:
    """Return options with a constant feature, features that are 0 or 1, and features between −1 and 1."""
    rng = np.random.default_rng(1)
    rows = np.hstack([np.ones((60, 1)), rng.integers(0, 2, (60, 3)), rng.uniform(-1, 1, (60, 4))])
    return Actions(rows / np.linalg.norm(rows, axis=1).max())


ACTIONS = mixed_options()


def run(study: Study, instance: Instance, rng: np.random.Generator) -> State:
    """Run all phases that ask clients."""
    people, noise, state = (
        Population(instance, heterogeneity=HETEROGENEITY),
        SimulatedNoise(rng),
        study.begin(),
    )
    while (plan := ask(state)).asks:
        reported = study.assignment_rule.simulate(plan, people, rng)
        state = tell(state, plan, simulate_groups(plan, reported, noise)[0])
    return state


def planned(participants: int) -> Study:
    """Return a planned study that assumes a linear model."""
    return plan_study(
        actions=ACTIONS,
        horizon=HORIZON,
        participants=participants,
        privacy=SHUFFLE,
        heterogeneity=HETEROGENEITY,
    )


def main() -> int:
    """Print one row per misfit; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--misfits", type=float, nargs="+", default=MISFITS)
    options = parser.parse_args()
    studies, failed = options.studies, False
    everybody = planned(PARTICIPANTS)
    test = reserved_fit_test(everybody, PARTICIPANTS, NOTICED)
    tested = replace(planned(PARTICIPANTS - test.cohort), fit_test=test)
    print(f"{studies} studies; the fit test asks {test.cohort:,} of {PARTICIPANTS:,} clients")
    print(f"{'misfit':>8}{'declared: dropped':>20}{'undeclared: dropped':>22}{'reported':>10}{'about':>8}")
    for misfit in options.misfits:
        dropped, unaware, reported, about = 0, 0, 0, 0.0
        for number in range(studies):
            rng = np.random.default_rng([options.seed, number])
            instance = Instance.draw(ACTIONS, rng).bent(misfit, rng)
            if misfit:
                told = run(replace(everybody, misfit=misfit), instance, rng)
                dropped += instance.best_action not in told.active_actions
            state = run(tested, instance, rng)
            unaware += instance.best_action not in state.active_actions
            assert state.fit_test_evidence is not None
            verdict = fit_verdict(tested, state.fit_test_evidence)
            reported, about = reported + (not verdict.explained), about + verdict.about / studies
        bad = dropped > binom.isf(1e-3, studies, MOST_DROPPED)
        bad = bad or (misfit == 0 and reported > binom.isf(1e-3, studies, MOST_ALARMS))
        bad = bad or (misfit >= NOTICED and reported < LEAST_POWER * studies)
        failed = failed or bad
        print(
            f"{misfit:>8.2f}{dropped / studies:>20.1%}{unaware / studies:>22.1%}{reported / studies:>10.1%}"
            f"{about:>8.3f}{'  FAILED' if bad else ''}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
