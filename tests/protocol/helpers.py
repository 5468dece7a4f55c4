"""Helpers: small studies and populations, and a run that passes real messages instead of simulating them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.actions import Actions
from dpbandits.privacy import NoiseSource, PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Plan,
    Release,
    Schedule,
    State,
    Study,
    analyze,
    ask,
    gather,
    respond_with_averages,
    shuffle,
    simulate_groups,
    tell,
)
from dpbandits.world import Instance, Population


def small_study(trust: str = "none", preset: str = "paper", **changes: Any) -> Study:
    defaults: dict[str, Any] = {
        "actions": Actions.generate("sphere", count=30, dimension=3, rng=1),
        "horizon": 300,
        "privacy": PrivacyRequest(trust=trust, preset=preset, epsilon=10, delta=0.25),
        "schedule": Schedule(alpha=0.7),
    }
    return Study(**{**defaults, **changes})


def people(study: Study, seed: int = 0) -> Population:
    instance = Instance.draw(study.actions, np.random.default_rng(seed))
    return Population(instance, heterogeneity=study.heterogeneity)


def exchanged(plan: Plan, population: Population, rng: np.random.Generator) -> Release:
    """For each part of the plan, every client reports, the third party shuffles, and the server analyzes."""
    noise, releases = SimulatedNoise(rng), list[Release]()
    for part in plan.parts:
        if plan.per_action:
            averages = np.concatenate(list(population.rewards(part.cohort, part.support[0], rng)))
        else:
            averages = population.averages(part.cohort, part.support, part.plays, rng)
        reports = [respond_with_averages(part, row.tolist(), noise) for row in averages]
        releases.append(analyze(part, shuffle(part, reports, noise), noise))
    return gather(plan, releases)


def run(study: Study, seed: int = 0) -> tuple[list[State], list[Plan], list[Release]]:
    rng, population = np.random.default_rng(seed), people(study, seed)
    states, plans, releases = [study.begin()], list[Plan](), list[Release]()
    while not states[-1].ended:
        plans.append(ask(states[-1]))
        release = exchanged(plans[-1], population, rng) if plans[-1].asks else None
        if release is not None:
            releases.append(release)
        states.append(tell(states[-1], plans[-1], release))
    return states, plans, releases


def simulate_release(plan: Plan, averages: FloatArray, noise: NoiseSource) -> Release:
    """Simulate a cohort from averages with one row per client and one column per supported action."""
    return simulate_groups(plan, [[plan.reported(averages)]], noise)[0]


def gaussian_study(trust: str = "central", *, epsilon: float, delta: float, **changes: Any) -> Study:
    """Return a study with discrete Gaussian noise and unbounded rewards."""
    noise = None if trust == "none" else "discrete-gaussian"
    privacy = PrivacyRequest(trust=trust, epsilon=epsilon, delta=delta, noise=noise)
    return small_study(**{"privacy": privacy, "horizon": 10_000, "bounded_rewards": False, **changes})
