"""`plausible` accepts releases of honest clients, and rejects a release with a sum that was moved far.

It rejects an honest release with a probability of 10⁻⁹ per number; for all runs here together, below 10⁻⁵.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbandits.errors import PlanMismatch
from dpbandits.privacy import PrivacyRequest, SimulatedNoise, calibrate, calibrate_per_action
from dpbandits.protocol import Plan, Release, plausible, simulate_groups
from tests.privacy.noises import NOISES
from tests.protocol.helpers import simulate_release

COHORT, SUPPORT = 50, 4
CASES = [(trust, noise, "box") for trust, noises in NOISES.items() for noise in noises or (None,)]
CASES += [(trust, "discrete-gaussian", "ball") for trust in ("central", "local", "shuffle")]
CASES.append(("central", "ball-norm", "ball"))


def _plan(trust: str, noise: str | None, shape: str) -> Plan:
    delta = 0.0 if noise in ("k-norm", "ball-norm", "polya") else 1e-4
    request = PrivacyRequest(trust=trust, noise=noise, epsilon=1.5, delta=delta)
    mechanism = calibrate(request, coordinates=SUPPORT, cohort=COHORT, bound=0.7, shape=shape)
    return Plan(
        study="s",
        phase=1,
        support=tuple(range(SUPPORT)),
        plays=(3,) * SUPPORT,
        rank=3,
        mechanism=mechanism,
        offsets=(4.0, -1.0, 0.0, 0.25),
    )


@pytest.mark.parametrize(("trust", "noise", "shape"), CASES)
def test_honest_releases_pass_and_moved_ones_do_not(trust: str, noise: str | None, shape: str) -> None:
    plan = _plan(trust, noise, shape)
    rng = np.random.default_rng(3)
    for end in (-1.0, 0.0, 1.0):  # the extreme case for honest clients: all at the same bound
        averages = np.full((COHORT, SUPPORT), 9.0 * end)
        for _ in range(100):
            release = simulate_release(plan, averages, SimulatedNoise(rng))
            assert plausible(plan, release)
    mechanism: Any = plan.mechanism
    radius = mechanism.error_radius(np.eye(SUPPORT), np.zeros(SUPPORT), 1e-9, COHORT)[0]
    far = 0.7 + 1.2 * radius + 1e-6
    for direction in (far, -far):
        means = list(plan.offsets)
        means[2] += direction
        assert not plausible(plan, replace(release, means=tuple(means)))
    with pytest.raises(PlanMismatch):
        plausible(plan, replace(release, plan="x"))


def test_a_ball_limits_the_length_of_all_means_together() -> None:
    plan = _plan("central", "discrete-gaussian", "ball")
    mechanism: Any = plan.mechanism
    deviation = mechanism.error_deviation(COHORT)
    release = Release(plan=plan.digest, means=plan.offsets, reports=COHORT, simulated=True)
    for length, passes in ((0.7 + 8 * deviation, True), (0.7 + 9 * deviation, False)):
        means = tuple(offset + length / 2 for offset in plan.offsets)  # ‖(1, 1, 1, 1)‖ = 2
        assert plausible(plan, replace(release, means=means)) is passes


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_each_action_of_its_own_cohort_is_judged_by_its_own_mechanism(trust: str) -> None:
    request = PrivacyRequest(trust=trust, epsilon=2.0, delta=1e-4)
    plays, bounds = (20, 35), (0.5, 3.0)
    plan = Plan(
        study="s",
        phase=1,
        support=(0, 1),
        plays=plays,
        rank=2,
        mechanism=None,
        per_action=calibrate_per_action(request, cohorts=plays, bounds=bounds),
        offsets=(1.0, 2.0),
    )
    rng = np.random.default_rng(1)
    for _ in range(50):
        groups = [[np.full((count, 1), 9.0)] for count in plays]
        release = simulate_groups(plan, groups, SimulatedNoise(rng))[0]
        assert plausible(plan, release)
    first, second = release.means
    assert not plausible(plan, replace(release, means=(first + 30.0, second)))
    assert not plausible(plan, replace(release, means=(first, second - 200.0)))
