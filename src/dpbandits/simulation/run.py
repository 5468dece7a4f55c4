"""One run in memory: the protocol's own functions in a loop, with a simulated population.

Each phase draws its cohort's averages at once, never round by round, so the cost grows with phases,
cohort and support, not with the horizon. Where every round has its own client, these are drawn in blocks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpbandits.privacy import Mechanism, SimulatedNoise, guarantee, weakest
from dpbandits.protocol import (
    Plan,
    Release,
    State,
    Study,
    ask,
    gather,
    simulate_release_in_blocks,
    tell,
)
from dpbandits.protocol.inference import leader
from dpbandits.simulation.trace import PhaseTrace, RunTrace
from dpbandits.world import Clients

FloatArray = NDArray[np.float64]


def simulate(study: Study, population: Clients, *, seed: int) -> RunTrace:
    """Play the whole horizon; the population's rewards and all noise come from `seed`."""
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
    """What all groups of clients answer together, and the share of their answers that was clipped."""
    releases, cut = list[Release](), list[int]()
    for part in plan.parts:
        blocks = _answers(part, population, clients, single=bool(plan.separate))
        releases.append(simulate_release_in_blocks(part, _counting(part, blocks, cut), noise))
    answers = sum(part.cohort * part.numbers for part in plan.parts)
    return gather(plan, releases), sum(cut) / answers


def _answers(
    part: Plan, population: Clients, clients: np.random.Generator, *, single: bool
) -> Iterable[FloatArray]:
    if single:
        return population.rewards(part.cohort, part.support[0], clients)
    return [population.averages(part.cohort, part.support, part.plays, clients)]


def _counting(part: Plan, blocks: Iterable[FloatArray], cut: list[int]) -> Iterator[FloatArray]:
    """What clients report; how many of its entries lie beyond the bound is noted in `cut`."""
    (mechanism,) = part.mechanisms
    for block in blocks:
        reported = part.reported(block)
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
