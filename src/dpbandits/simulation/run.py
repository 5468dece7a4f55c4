"""One run in memory: the protocol's own functions in a loop, with a simulated population.

Each phase draws its cohort's averages at once, never round by round, so the cost grows with phases,
cohort and support, not with the horizon.
"""

from __future__ import annotations

import time

import numpy as np

from dpbandits.privacy import Mechanism, SimulatedNoise, guarantee
from dpbandits.protocol import Plan, Release, State, Study, ask, simulate_release, tell
from dpbandits.simulation.trace import PhaseTrace, RunTrace
from dpbandits.world import Population


def simulate(study: Study, population: Population, *, seed: int) -> RunTrace:
    """Play the whole horizon; the population's rewards and all noise come from `seed`."""
    clients, privacy = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    noise = SimulatedNoise(privacy)
    state, phases, mechanisms = study.begin(), list[PhaseTrace](), list[Mechanism]()
    while not state.ended:
        started = time.perf_counter()
        plan = ask(state)
        release, clipped = None, 0.0
        if plan.mechanism is not None:
            release, clipped = _answer(plan, plan.mechanism, population, clients, noise)
            mechanisms.append(plan.mechanism)
        after = tell(state, plan, release)
        phases.append(_trace(state, plan, after, population, clipped, time.perf_counter() - started))
        state = after
    return RunTrace(
        seed=seed,
        phases=tuple(phases),
        unit=mechanisms[0].unit if mechanisms else "numbers",
        actions_left=len(state.active_actions),
        best_action_survived=population.instance.best_action in state.active_actions,
        guarantee=guarantee(study.privacy, mechanisms),
        cover_loss=population.instance.cover_loss(study.horizon),
    )


def _answer(
    plan: Plan,
    mechanism: Mechanism,
    population: Population,
    clients: np.random.Generator,
    noise: SimulatedNoise,
) -> tuple[Release, float]:
    averages = population.averages(plan.cohort, plan.support, plan.plays, clients)
    clipped = float(np.mean(np.abs(averages - plan.centre) > mechanism.bound))
    return simulate_release(plan, averages, noise), clipped


def _trace(
    state: State, plan: Plan, after: State, population: Population, clipped: float, elapsed: float
) -> PhaseTrace:
    size = 0 if plan.mechanism is None else plan.mechanism.message_size
    return PhaseTrace(
        index=plan.phase,
        active=len(state.active_actions),
        support=len(plan.support),
        plays=plan.rounds,
        cohort=plan.cohort,
        width=after.width if plan.reports else None,
        regret=population.instance.regret(plan.support, plan.plays),
        communication=plan.cohort * size,
        clipped=clipped,
        elapsed=elapsed,
    )
