"""The user's confidence, and stopping once the best guess is good enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Steps, Study, gap_bound, leader, predict
from dpbandits.simulation import simulate
from dpbandits.world import Instance, Population

from .helpers import run

FALSE_ALARM = 1e-6
STUDIES = 300


def _study(trust: str = "none", **changes: object) -> Study:
    settings = {
        "actions": Actions.generate("sphere", count=30, dimension=3, rng=2),
        "horizon": 100_000,
        "heterogeneity": 0.3,
        "bounded_rewards": False,
        "privacy": PrivacyRequest(trust=trust, epsilon=5.0, delta=1e-3),
        "schedule": Schedule(cohorts=(60, 120, 240), first_length=30, growth=4),
        "stop_when_decided": True,
    }
    return Study(**{**settings, **changes})  # type: ignore[arg-type]


def test_each_bound_gets_its_share_of_the_failure_probability() -> None:
    assert _study().bound_failure == 1 / (30 * 100_000)
    # A fifth of the failure probability is for bounds of single phases, the rest for all phases together.
    assert _study(confidence=0.95).bound_failure == pytest.approx(0.01 / (5 * 30 * 3))
    alone = Steps().without("pooled")
    assert _study(confidence=0.95, steps=alone).bound_failure == pytest.approx(0.05 / (5 * 30 * 3))
    # Only phases that fit into the horizon count.
    assert _study(confidence=0.95, horizon=160).bound_failure == pytest.approx(0.01 / (5 * 30 * 2))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"confidence": 0.4}, "confidence: got 0.4"),
        ({"confidence": 1.0}, "confidence: got 1.0"),
        ({"confidence": 95}, "confidence: got 95"),
        ({"stop_gap": -0.1}, "stop_gap: got -0.1"),
        ({"stop_gap": 0.1, "stop_when_decided": False}, "stop_gap: got 0.1"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidValue, match=told):
        _study(**changes)


def test_a_gap_that_does_not_matter_saves_clients() -> None:
    asked = [run(_study(confidence=0.95, stop_gap=gap))[0][-1].clients_asked for gap in (0.0, 0.05, 0.5, 2.5)]
    assert asked == sorted(asked, reverse=True)
    assert asked[0] > asked[-1] == 60


def test_the_prediction_knows_the_gap_at_which_a_study_stops() -> None:
    """The θ* of predictions are those of the simulated studies: both are uniform on the sphere."""
    for gap in (0.0, 0.2):
        study = _study(confidence=0.95, stop_gap=gap)
        found = predict(study, draws=16)
        asked = [run(study, seed)[0][-1].clients_asked for seed in range(8)]
        assert 0.7 < found.participants / np.mean(asked) < 1.4
        assert (found.chance_of_sure > 0.9) == (gap > 0)


def test_the_bound_on_the_gap_needs_a_release_and_is_zero_for_one_action() -> None:
    states, _, _ = run(_study(confidence=0.95))
    assert gap_bound(states[1]) > 0
    alone = np.zeros(30, dtype=bool)
    alone[leader(states[1])] = True
    assert gap_bound(replace(states[1], active=np.packbits(alone).tobytes())) == 0.0


@pytest.mark.parametrize("trust", ["none", "shuffle"])
def test_the_statements_hold_as_often_as_promised(trust: str) -> None:
    """Over 300 studies at a confidence of .8, more than 95 failures have probability 10⁻⁶."""
    gap = 0.4
    study = _study(trust, confidence=0.8, stop_gap=gap)
    rng, wrong, stopped = np.random.default_rng(0), 0, 0
    for seed in range(STUDIES):
        theta = rng.standard_normal(3)
        instance = Instance(study.actions, theta / np.linalg.norm(theta))
        trace = simulate(study, Population(instance, heterogeneity=0.3), seed=seed)
        early = trace.participants < 420
        stopped += early
        wrong += not trace.best_action_survived or (early and trace.final_gap > gap)
    assert wrong <= binom.isf(FALSE_ALARM, STUDIES, 0.2)
    assert stopped > STUDIES / 2  # the test is about studies that stop early
    blind = sum(np.random.default_rng(1).random(STUDIES) < 0.5)  # a study that guesses is rejected
    assert blind > binom.isf(FALSE_ALARM, STUDIES, 0.2)
