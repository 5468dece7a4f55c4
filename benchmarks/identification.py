"""Participants until a study is sure of the best option, at confidence .95, and the coverage of its bounds.

Three instances, σ = .1, up to 10⁶ rounds. Schedules are planned with the objective "identification", for
3,000 participants without privacy and 8,000 in the shuffle model. The planner does not know θ*:

- 60 options in R⁸: random unit vectors;
- mixed options: 60 options with a constant, three features that are 0 or 1, and four between −1 and 1;
- Soare's: the unit vectors of R⁸ and a direction at an angle of .107 to the first, which is the best option.

For the first two, θ* is one fixed draw from the sphere. It is a hard one: the oracle needs about 210
participants for it, and fewer for nine draws in ten. The oracle knows θ* and plays without limit: it needs
2·log(20)·σ²·max ‖x* − x‖²/gap² participants to show at an error of .05 that x* is better than each x. `wrong`
is the share of studies that dropped the best option, `open` the share that asked everybody and had several
options left. `--before` adds a row per instance with the earlier method, which is not judged: it eliminates
by the last phase alone, with β = 1/(kT), designs of the active options and the schedules in `BEFORE`.

    python benchmarks/identification.py [--studies 300] [--coverage 1300] [--before] [--trust none]

Coverage: studies of 12 options in R⁴ with similar means, where nothing is dropped. `outside` is the share of
differences to the best option whose error exceeds its bound in any of the 8 phases; the level is .01. `ratio`
is the bound over the empirical .99-quantile of the error in the same phase and direction, on average over the
phases from the second on. The first phase of a private study, before reports are recentred, has little
information; its ratio is printed, too.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Schedule, Study, ask, fitted, plan_study, simulate_groups, tell
from dpbandits.protocol._pooling import pooled_leads
from dpbandits.simulation import simulate
from dpbandits.world import Instance, Population

FloatArray = NDArray[np.float64]

CONFIDENCE, SIGMA, HORIZON = 0.95, 0.1, 10**6
LEVEL, LARGEST_RATIO = 0.01, 1.6
BUDGETS = {"none": 3000, "shuffle": 8000}
BEFORE = {
    "none": Schedule(cohorts=tuple(200 * 2**i for i in range(6)), first_length=1000, growth=3),
    "shuffle": Schedule(cohorts=tuple(500 * 2**i for i in range(6)), first_length=1000, growth=3),
}
TARGETS = {
    "60 options in R⁸": {"none": 1700, "shuffle": 5000},
    "mixed options": {"none": 1500, "shuffle": 5500},
    "Soare's": {"none": 600, "shuffle": 4500},
}


def instances() -> dict[str, Instance]:
    """Return the three instances."""
    sphere = Actions.generate("sphere", count=60, dimension=8, rng=1)
    rng = np.random.default_rng(1)
    switches, amounts = rng.integers(0, 2, (60, 3)), rng.uniform(-1, 1, (60, 4))
    rows = np.hstack([np.ones((60, 1)), switches, amounts])
    mixed = Actions(rows / np.linalg.norm(rows, axis=1).max())
    near = np.zeros(8)
    near[:2] = math.cos(0.107), math.sin(0.107)
    return {
        "60 options in R⁸": Instance.draw(sphere, np.random.default_rng(370)),
        "mixed options": Instance.draw(mixed, np.random.default_rng(449)),
        "Soare's": Instance(Actions(np.vstack([np.eye(8), near])), np.eye(8)[0]),
    }


def oracle(instance: Instance) -> float:
    """Return the participants of an allocation that knows θ*."""
    rows, best = instance.actions.matrix, instance.best_action
    others = np.arange(len(rows)) != best
    squares = np.square(rows[best] - rows[others]).sum(axis=1)
    return float(2 * math.log(20) * SIGMA**2 * np.max(squares / instance.gaps[others] ** 2))


def study_of(actions: Actions, trust: str) -> Study:
    """Return a planned study that stops when one option is left."""
    return plan_study(
        actions=actions,
        horizon=HORIZON,
        participants=BUDGETS[trust],
        heterogeneity=SIGMA,
        privacy=PrivacyRequest(trust=trust, epsilon=1, delta=1e-6),
        confidence=CONFIDENCE,
        stop_when_decided=True,
        objective="identification",
    )


def measured(name: str, instance: Instance, trust: str, studies: int, *, before: bool) -> bool:
    """Run studies of one instance, print a line, and return whether its targets are met."""
    study = study_of(instance.actions, trust)
    if before:
        study = replace(study, confidence=None, objective="regret", schedule=BEFORE[trust])
    people = Population(instance, heterogeneity=SIGMA)
    traces = [simulate(study, people, seed=seed) for seed in range(studies)]
    asked = np.array([trace.participants for trace in traces], dtype=np.float64)
    wrong = np.mean([not trace.best_action_survived for trace in traces])
    left = np.mean([trace.actions_left > 1 for trace in traces])
    rounds = np.mean([sum(one.rounds for one in trace.phases if one.progress.cohort) for trace in traces])
    mean, limit, known = float(asked.mean()), TARGETS[name][trust], oracle(instance)
    met = before or bool(mean <= limit and wrong <= 1 - CONFIDENCE)
    print(
        f"{name:17} {trust:8} {mean:7,.0f} ± {asked.std() / math.sqrt(studies):<4.0f} (90 %: "
        f"{np.quantile(asked, 0.9):6,.0f})  oracle {known:4.0f}  × {mean / known:5.1f}  wrong {wrong:.1%}  "
        f"open {left:.1%}  rounds {rounds:9,.0f}  "
        + ("as before" if before else f"target {limit:,} {'met' if met else 'MISSED'}"),
        flush=True,
    )
    return met


def errors_of(study: Study, instance: Instance, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the errors of the pooled differences to the best option, and their bounds, for each phase."""
    rng, noise = np.random.default_rng(seed), SimulatedNoise(np.random.default_rng([seed, 1]))
    people, state, best = Population(instance, heterogeneity=SIGMA), study.begin(), instance.best_action
    others = np.flatnonzero(np.arange(study.actions.count) != best)
    found = list[FloatArray](), list[FloatArray]()
    while (plan := ask(state)).asks:
        release, _ = simulate_groups(plan, study.assignment_rule.simulate(plan, people, rng), noise)
        state = replace(tell(state, plan, release), active=state.active)  # nothing is dropped
        fits = [fitted(study, evidence.unfitted) for evidence in state.history]
        leads = pooled_leads(study, fits, best, others)
        assert leads is not None
        found[0].append(instance.gaps[others] - leads.estimates)  # positive: another option seems better
        found[1].append(leads.widths(LEVEL))
    return np.array(found[0]), np.array(found[1])


def coverage(trust: str, studies: int) -> bool:
    """Measure the coverage of the pooled bounds, print a line, and return whether the limits are met."""
    actions = Actions.generate("sphere", count=12, dimension=4, rng=1)
    instance = Instance(actions, 0.05 * Instance.draw(actions, np.random.default_rng(0)).theta)
    cohort = 100 if trust == "none" else 1000
    schedule = Schedule(cohorts=(cohort,) * 8, first_length=1000, growth=1.1)
    study = replace(study_of(actions, trust), schedule=schedule, stop_when_decided=False)
    pairs = [errors_of(study, instance, seed) for seed in range(studies)]
    errors, widths = (np.array(one) for one in zip(*pairs, strict=True))
    outside = float(np.mean(np.any(errors > widths, axis=1)))
    first, *later = np.mean(np.mean(widths, axis=0) / np.quantile(errors, 1 - LEVEL, axis=0), axis=1)
    met = outside <= LEVEL and float(np.mean(later)) <= LARGEST_RATIO
    print(
        f"pooled bounds     {trust:8} {errors[..., 0].size:7,} phases  outside {outside:.2%} of "
        f"{LEVEL:.0%}  ratio {np.mean(later):.2f} (largest {max(later):.2f}, first phase {first:.2f}) of "
        f"{LARGEST_RATIO}  {'met' if met else 'MISSED'}",
        flush=True,
    )
    return met


def main() -> int:
    """Print all lines; the exit status says whether all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--coverage", type=int, default=1300)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--trust", choices=BUDGETS, action="append")
    options = parser.parse_args()
    met = True
    with threadpool_limits(limits=1):
        for name, instance in instances().items():
            for trust in options.trust or BUDGETS:
                met &= measured(name, instance, trust, options.studies, before=False)
                if options.before:
                    measured(name, instance, trust, min(options.studies, 100), before=True)
        for trust in (options.trust or BUDGETS) if options.coverage else ():
            met &= coverage(trust, options.coverage)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
