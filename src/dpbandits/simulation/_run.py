"""One run in memory: the functions of the protocol in a loop, with a simulated population.

Each phase draws the averages of its cohort at once, not round by round. The cost therefore grows with the
number of phases, clients and supported actions, and not with the horizon or the population. Very large
cohorts, and clients that play a single round each, are drawn in blocks, so that memory use stays bounded.
"""

from __future__ import annotations

import time

import numpy as np

from dpbandits.privacy import Mechanism, SimulatedNoise, guarantee, weakest
from dpbandits.protocol import Plan, State, Study, ask, leader, simulate_groups, tell
from dpbandits.simulation._trace import PhaseTrace, RunTrace
from dpbandits.world import Clients


def simulate(study: Study, population: Clients, *, seed: int) -> RunTrace:
    """Simulate a study over its whole horizon.

    Args:
        study: The study.
        population: The simulated clients, none of whom is asked twice, and the truth behind them.
        seed: Determines the clients, their rewards and all noise.

    Returns:
        One record per phase, and the totals.

    Raises:
        NotEnoughClients: The population is smaller than the study needs.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> study = examples.study()
        >>> population = dp.Population(dp.Instance(study.actions, theta=[0.9, 0.1]), heterogeneity=0.1)
        >>> dp.simulate(study, population, seed=7).rounds
        100
    """
    clients, privacy = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    noise = SimulatedNoise(privacy)
    state, phases, mechanisms = study.begin(), list[PhaseTrace](), list[Mechanism]()
    while not state.ended:
        started = time.perf_counter()
        plan = ask(state)
        release, clipped = None, 0.0
        if plan.asks:
            reported = study.assignment_rule.simulate(plan, population, clients)
            release, clipped = simulate_groups(plan, reported, noise)
            mechanisms.extend(plan.mechanisms)
        after = tell(state, plan, release)
        phases.append(_trace(state, plan, after, population, clipped, time.perf_counter() - started))
        state = after
    guess = leader(state)
    return RunTrace(
        seed=seed,
        phases=tuple(phases),
        unit=mechanisms[0].unit if mechanisms else "numbers",
        actions_left=len(state.active_actions),
        final_action=guess,
        final_gap=float(population.instance.gaps[guess]),
        best_action_survived=population.instance.best_action in state.active_actions,
        guarantee=guarantee(study.privacy, mechanisms),
        mechanism=weakest(study.privacy, mechanisms),
        cover_loss=population.instance.cover_loss(study.horizon),
    )


def _trace(
    state: State, plan: Plan, after: State, population: Clients, clipped: float, elapsed: float
) -> PhaseTrace:
    return PhaseTrace(
        progress=after.progress[-1],
        actions_before=len(state.active_actions),
        actions_played=len(plan.support),
        rounds=plan.rounds,
        regret=population.instance.regret(plan.support, plan.plays),
        communication=sum(own.cohort * own.message_size for own in plan.mechanisms),
        clipped=clipped,
        elapsed=elapsed,
    )
