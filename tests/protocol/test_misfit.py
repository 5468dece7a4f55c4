"""Mean rewards that are not linear in the features: what widths allow for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.answers import answer_of
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Release, Schedule, State, Study, ask, fitted, tell
from dpbandits.protocol._misfit import misfit_bias
from dpbandits.world import Instance

ACTIONS = Actions.generate("sphere", count=40, dimension=4, rng=2)


def _study(**changes: Any) -> Study:
    given: dict[str, Any] = {
        "actions": ACTIONS,
        "horizon": 100_000,
        "schedule": Schedule(cohorts=(400, 400), first_length=60, growth=4),
        "bounded_rewards": False,
    }
    return Study(**{**given, **changes})


def _exact(study: Study, means: np.ndarray[Any, Any], phases: int = 2) -> State:
    """Return the state after releases without any error: the means of the clients that a plan asks."""
    state = study.begin()
    for _ in range(phases):
        plan = ask(state)
        if not plan.asks:
            break
        reported = plan.reported(means[list(plan.support)][None])[0] + plan.centre
        release = Release(plan=plan.digest, means=tuple(reported), reports=plan.cohort, simulated=True)
        state = tell(state, plan, release)
    return state


@pytest.mark.parametrize("towards", [None, 0, 3])
def test_the_bias_is_the_largest_over_all_deviations(towards: int | None) -> None:
    rng, support, actions = np.random.default_rng(0), (1, 3, 6), np.array([1, 2, 3, 5])
    coefficients = rng.normal(size=(4, 3))
    found = misfit_bias(coefficients, support=support, actions=actions, towards=towards)
    largest = np.zeros(4)
    for signs in product((-1, 1), repeat=7):
        h = np.array(signs, dtype=float)
        own = h[actions] if towards is None else h[towards] - h[actions]
        largest = np.maximum(largest, np.abs(coefficients @ h[list(support)] - own))
    same = actions == towards
    np.testing.assert_allclose(found[~same], largest[~same])
    assert not found[same].any()


@pytest.mark.parametrize("trust", ["none", "central"])
def test_the_best_option_is_kept_for_the_worst_deviation(trust: str) -> None:
    """The releases have no error but the misfit, so that no width may be exceeded because of noise.

    Without the allowance the best option is dropped, because its mean is measured badly by the others.
    """
    told, dropped = 0.1, 0
    privacy = PrivacyRequest(trust=trust, epsilon=20, delta=1e-3)
    crowd = Schedule(cohorts=(10**5, 10**5), first_length=60, growth=4)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        instance = Instance.draw(ACTIONS, rng).bent(told, rng)
        study = _study(misfit=told, schedule=crowd, privacy=privacy)
        assert instance.best_action in _exact(study, instance.mean_rewards).active_actions
        unaware = _exact(replace(study, misfit=0.0), instance.mean_rewards)
        dropped += instance.best_action not in unaware.active_actions
    assert dropped > 0


def test_intervals_of_answers_allow_for_the_misfit() -> None:
    rng = np.random.default_rng(3)
    instance = Instance.draw(ACTIONS, rng).bent(0.05, rng)
    answer, narrow = (
        answer_of(_exact(_study(misfit=told), instance.mean_rewards, phases=1), None, level=0.95)
        for told in (0.05, 0.0)
    )
    for one in answer.options:
        assert one.low <= instance.mean_rewards[one.action] <= one.high
    assert answer.high - answer.low >= narrow.high - narrow.low + 2 * 0.05


def test_a_linear_study_is_unchanged() -> None:
    state = _exact(_study(), Instance.draw(ACTIONS, np.random.default_rng(1)).mean_rewards)
    known = replace(state.study, misfit=1e-9)
    narrow, wide = (fitted(one, state.history[-1].unfitted) for one in (state.study, known))
    some = np.arange(5)
    np.testing.assert_allclose(narrow.widths(some, towards=2), wide.widths(some, towards=2), atol=1e-6)


def test_a_misfit_that_a_study_cannot_allow_for_is_refused() -> None:
    with pytest.raises(InvalidValue, match="misfit: got 2.0, expected a number >= 0 and <= 1"):
        _study(misfit=2.0)
    paper = PrivacyRequest(trust="central", preset="paper", epsilon=10, delta=0.25)
    with pytest.raises(InvalidValue, match=r"misfit: got 0.1, expected 0 in preset paper"):
        _study(misfit=0.1, privacy=paper)
