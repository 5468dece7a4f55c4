"""What the protocol alone computes from the users, the rewards and the noise of a deployment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.federation import read_federation
from dpbandits.federation._site import _AT_ONCE
from dpbandits.privacy import NoiseSource, SimulatedNoise
from dpbandits.protocol import Plan, Release, State, analyze, ask, tell
from tests.protocol.helpers import simulate_release

from .deployed import Deployment
from .helpers import batch_of
from .population import Population
from .seeded_client import noise_of


def members(deployment: Deployment, phase: int, attempt: int) -> dict[int, list[str]]:
    """The users of each site in an attempt, sorted."""
    used = deployment.used()
    return {site: [user for user, *at in rows if at == [phase, attempt]] for site, rows in used.items()}


def alone(deployment: Deployment) -> tuple[State, State, list[Release]]:
    """Two states and the releases of the first.

    The first state is that of the protocol's functions in one loop, with the users, the rewards and the noise
    of the deployment. The second is that of the simulator's release with the same users, rewards and server
    noise. Where users add the noise, the simulator draws their noise as one sum, so it is another draw.
    """
    study = read_federation(deployment.path).study
    attempts = {phase: attempt for phase, attempt, _ in deployment.releases()}
    same, simulated = study.begin(), study.begin()
    noises = [SimulatedNoise(np.random.default_rng(7)) for _ in range(2)]
    releases = list[Release]()
    while not same.ended:
        plan, release = ask(same), None
        if plan.phase in attempts:
            asked = members(deployment, plan.phase, attempts[plan.phase])
            rows = _averages(deployment, asked, plan)
            parts = [_randomized(plan, found, noise_of(site)) for site, found in rows.items()]
            release = analyze(plan, batch_of(plan, parts), noises[0])
            releases.append(release)
        same = tell(same, plan, release)
    while not simulated.ended:
        plan, release = ask(simulated), None
        if plan.phase in attempts:
            asked = members(deployment, plan.phase, attempts[plan.phase])
            everybody = np.concatenate(list(_averages(deployment, asked, plan).values()))
            release = simulate_release(plan, everybody, noises[1])
        simulated = tell(simulated, plan, release)
    return same, simulated, releases


def _randomized(plan: Plan, averages: FloatArray, noise: NoiseSource) -> FloatArray:
    """R for each user, in the blocks of a site: the draws of a seeded source depend on them."""
    starts = range(0, len(averages), _AT_ONCE)
    blocks = [plan.reported(averages[start : start + _AT_ONCE]) for start in starts]
    return np.concatenate([plan.asked_mechanism.randomize(block, noise) for block in blocks])


def _averages(deployment: Deployment, asked: Mapping[int, list[str]], plan: Plan) -> dict[int, FloatArray]:
    actions, count = read_federation(deployment.path).study.actions, deployment.shape.users
    return {
        site: Population(actions, site, count).averages(users, plan) for site, users in asked.items() if users
    }
