"""Coverage and tightness of the confidence widths, measured over phases of the running protocol.

Small problems (k = 40, d = 4, cohorts of 300), β = .01. For each trust model and reward distribution there
are rows for first phases, for later phases that are recentred, and (if rewards are bounded) for later phases
that are not. Each plan is drawn many times. Directions are ±x and ±(b − x*), for active x and b. Then

- outside: the share of phases and directions with ⟨θ̃ − θ*, v⟩ above its width must be at most β in each row;
- ratio: the width divided by the empirical (1 − β)-quantile of the error in the same direction must be at
  most 1.6 on average over a trust model. Chernoff's bound for exactly normal errors has √(2·ln(1/β))/z =
  1.305.

Without privacy no phase is recentred: there the rows `recentred` measure later phases as they are.

θ* has norm .7, so that the means of clients stay within [−1, 1] even if rewards are ±1.

    python benchmarks/coverage.py [--draws 400] [--instances 3] [--seed 0] [--others [KIND ...]]

With `--others` the rows are those of other_widths.py: widths with a stated variance, with a misfit, of
confirmations, and of all phases together, each over at least 10⁴ phases.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    LinearFit,
    Plan,
    Schedule,
    State,
    Steps,
    Study,
    ask,
    fitted,
    simulate_groups,
    tell,
)
from dpbandits.world import Instance, Population

FloatArray = NDArray[np.float64]

CONFIDENCE = 0.01
LARGEST_RATIO = 1.6
NORM = 0.7
SCHEDULE = Schedule(cohorts=(300, 300), first_length=30, growth=4)
TRUSTS = {
    "none": PrivacyRequest(),
    "central (1, 1e-6)": PrivacyRequest(trust="central", epsilon=1, delta=1e-6),
    "pure central 1": PrivacyRequest(trust="central", epsilon=1, delta=0),
    "local (10, 1e-6)": PrivacyRequest(trust="local", epsilon=10, delta=1e-6),
    "shuffle (1, 1e-6)": PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6),
}
KINDS = (
    ("gaussian", "first"),
    ("gaussian", "recentred"),
    ("bernoulli", "first"),
    ("bernoulli", "recentred"),
    ("bernoulli", "not recentred"),
)


class MeasuredStudy(Study):
    """A study with a fixed β that is large enough to be measured, instead of 1/(kT)."""

    @property
    def bound_failure(self) -> float:
        """The probability β with which a width may be exceeded."""
        return CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Measurements of one plan: the number of phases, and per direction the share outside and the ratio."""

    phases: int
    outside: FloatArray
    ratios: FloatArray


def draw(state: State, plan: Plan, population: Population, rng: np.random.Generator) -> State:
    """Run one phase through the protocol."""
    averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
    return tell(state, plan, simulate_groups(plan, [[plan.reported(averages)]], SimulatedNoise(rng))[0])


def estimates(
    state: State, plan: Plan, population: Population, draws: int, rng: np.random.Generator
) -> tuple[LinearFit, FloatArray]:
    """Draw releases of one plan. Return the fit, which depends on the plan only, and an estimate per row."""
    fit = fitted(state.study, draw(state, plan, population, rng).history[-1].unfitted)
    assert isinstance(fit, LinearFit)
    noise, means = SimulatedNoise(rng), list[tuple[float, ...]]()
    for _ in range(draws):
        averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
        means.append(simulate_groups(plan, [[plan.reported(averages)]], noise)[0].means)
    return fit, np.array(means) @ fit.map.T


def measure(
    state: State,
    population: Population,
    draws: int,
    rng: np.random.Generator,
    *,
    parameter: FloatArray | None = None,
) -> Measured:
    """Draw the same plan many times; widths depend on the plan only. The parameter is θ* by default."""
    plan, truth = ask(state), population.instance
    fit, found = estimates(state, plan, population, draws, rng)
    active = state.study.actions.matrix[state.active_actions]
    differences = active - truth.actions.matrix[truth.best_action]
    one_side = np.concatenate([active, differences[np.any(differences != 0, axis=1)]])
    directions = np.concatenate([one_side, -one_side])
    widths = fit.target_widths(directions)
    true = truth.theta if parameter is None else parameter
    errors = (found - true) @ directions.T
    return Measured(
        phases=draws,
        outside=np.mean(errors > widths, axis=0),
        ratios=widths / np.quantile(errors, 1 - CONFIDENCE, axis=0),
    )


def measured_plans(
    request: PrivacyRequest, rewards: str, kind: str, instances: int, draws: int, rng: np.random.Generator
) -> Iterator[Measured]:
    """Yield one plan per instance; later phases start where a first phase ended."""
    for _ in range(instances):
        actions = Actions.generate("sphere", count=40, dimension=4, rng=rng)
        instance = Instance(actions, NORM * Instance.draw(actions, rng).theta)
        study = MeasuredStudy(
            actions=actions,
            horizon=10**5,
            bounded_rewards=rewards == "bernoulli",
            privacy=request,
            schedule=SCHEDULE,
            steps=Steps().without("recentred") if kind == "not recentred" else None,
        )
        population = Population(instance, heterogeneity=study.heterogeneity, rewards=rewards)
        state = study.begin()
        if kind != "first":
            state = draw(state, ask(state), population, rng)
        yield measure(state, population, draws, rng)


def report(name: str, rewards: str, kind: str, plans: list[Measured]) -> tuple[bool, float]:
    """Print a line; return whether the share outside is small enough, and the mean ratio."""
    outside = np.concatenate([plan.outside for plan in plans])
    ratio = float(np.mean(np.concatenate([plan.ratios for plan in plans])))
    good = float(outside.mean()) <= CONFIDENCE
    phases = sum(plan.phases for plan in plans)
    print(
        f"{name:<20}{rewards:<11}{kind:<15}{phases:7,d}{outside.mean():11.5f}{outside.max():11.4f}{ratio:8.3f}"
        f"   {'ok' if good else 'MISSED'}",
        flush=True,
    )
    return good, ratio


def trust_model(name: str, instances: int, draws: int, rng: np.random.Generator) -> tuple[bool, int]:
    """Measure the rows of one trust model; return whether all limits are met, and the number of phases."""
    good, ratios, phases = True, [], 0
    for rewards, kind in KINDS:
        plans = list(measured_plans(TRUSTS[name], rewards, kind, instances, draws, rng))
        inside, ratio = report(name, rewards, kind, plans)
        good &= inside
        ratios.append(ratio)
        phases += sum(plan.phases for plan in plans)
    mean = float(np.mean(ratios))
    print(f"{name:<20}{'mean ratio':<55}{mean:8.3f}   {'ok' if mean <= LARGEST_RATIO else 'MISSED'}\n")
    return good and mean <= LARGEST_RATIO, phases


def main() -> int:
    """Print the table; return a non-zero status if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400, help="draws of each plan")
    parser.add_argument("--instances", type=int, default=3, help="instances per row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--others", nargs="*", metavar="KIND", help="other widths, see other_widths.py")
    options = parser.parse_args()
    rng, good, phases = np.random.default_rng(options.seed), True, 0
    print(f"{'':<20}{'rewards':<11}{'phase':<15}{'phases':>7}{'outside':>11}{'worst':>11}{'ratio':>8}")
    if options.others is not None:
        import other_widths

        with threadpool_limits(limits=1):
            return int(not other_widths.main(options.others or list(other_widths.KINDS), options.draws, rng))
    with threadpool_limits(limits=1):
        for name in TRUSTS:
            fits, drawn = trust_model(name, options.instances, options.draws, rng)
            good &= fits
            phases += drawn
    print(f"{phases:,} phases; limits: outside {CONFIDENCE}, ratio {LARGEST_RATIO}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
