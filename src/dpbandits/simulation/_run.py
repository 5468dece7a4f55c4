"""One run in memory: the functions of the protocol in a loop, with a simulated population.

Each phase draws the averages of its cohort at once, not round by round. The cost therefore grows with the
number of phases, clients and supported actions, and not with the horizon. If every round has its own client,
clients are drawn in blocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy import Mechanism, SimulatedNoise, guarantee, weakest
from dpbandits.protocol import (
    Plan,
    Release,
    State,
    Study,
    ask,
    leader,
    simulate_release_in_blocks,
    simulate_separate_release,
    tell,
)
from dpbandits.simulation._trace import PhaseTrace, RunTrace
from dpbandits.world import Clients


def simulate(study: Study, population: Clients, *, seed: int) -> RunTrace:
    """Simulate a study over its whole horizon.

    Args:
        study: The study.
        population: The clients, and the truth that regret is measured against.
        seed: Determines the clients, their rewards and all noise.

    Returns:
        The trace of the run.
    """
    clients, privacy = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
    noise = SimulatedNoise(privacy)
    state, phases, mechanisms = study.begin(), list[PhaseTrace](), list[Mechanism]()
    while not state.ended:
        started = time.perf_counter()
        plan = ask(state)
        release, clipped = None, 0.0
        if plan.reports:
            release, clipped = _answer(plan, population, clients, noise)
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


def _answer(
    plan: Plan, population: Clients, clients: np.random.Generator, noise: SimulatedNoise
) -> tuple[Release, float]:
    """The release of all cohorts of a plan, and the share of the reported numbers that was clipped."""
    cut = list[int]()
    if plan.separate:
        groups = _single_rewards(plan, population, clients, cut)
        return simulate_separate_release(plan, groups, noise), sum(cut) / plan.cohort
    averages = population.averages(plan.cohort, plan.support, plan.plays, clients)
    (mechanism,), reported = plan.mechanisms, plan.reported(averages)
    release = simulate_release_in_blocks(plan, _counting(mechanism, [reported], cut), noise)
    return release, sum(cut) / (plan.cohort * plan.numbers)


def _single_rewards(
    plan: Plan, population: Clients, clients: np.random.Generator, cut: list[int]
) -> Iterator[Iterable[FloatArray]]:
    """For each action, the single rewards that its own cohort reports."""
    for own, action, offset in zip(plan.separate, plan.support, plan.centre.tolist(), strict=True):
        rewards = population.rewards(own.cohort, action, clients)
        yield _counting(own, (block - offset for block in rewards) if offset else rewards, cut)


def _counting(mechanism: Mechanism, blocks: Iterable[FloatArray], cut: list[int]) -> Iterator[FloatArray]:
    """Pass on what clients report, and add the number of clipped entries to `cut`."""
    for reported in blocks:
        cut.append(mechanism.entries_cut(reported))
        yield reported


def _trace(
    state: State, plan: Plan, after: State, population: Clients, clipped: float, elapsed: float
) -> PhaseTrace:
    return PhaseTrace(
        index=plan.phase,
        active=len(state.active_actions),
        support=len(plan.support),
        plays=plan.rounds,
        cohort=plan.cohort,
        width=after.width if plan.reports else None,
        regret=population.instance.regret(plan.support, plan.plays),
        communication=sum(own.cohort * own.message_size for own in plan.mechanisms),
        clipped=clipped,
        elapsed=elapsed,
    )
