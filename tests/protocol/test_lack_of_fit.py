"""The fit test: a cohort that reports residual coordinates, and the verdict on a linear model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.answers import RewardRange, answer_of, fit_check_of
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Confirmation,
    FitTest,
    Plan,
    Release,
    Schedule,
    State,
    Study,
    ask,
    fit_verdict,
    replay,
    reserved_fit_test,
    tell,
)
from dpbandits.protocol._lack_of_fit import fit_test_evidence
from dpbandits.world import Instance, Population
from tests.protocol.helpers import simulate_release

ACTIONS = Actions.generate("sphere", count=24, dimension=4, rng=8)
SHUFFLE = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6)


def _study(**changes: Any) -> Study:
    given: dict[str, Any] = {
        "actions": ACTIONS,
        "horizon": 50_000,
        "privacy": SHUFFLE,
        "schedule": Schedule(cohorts=(400,), first_length=40),
        "bounded_rewards": False,
        "fit_test": FitTest(cohort=1500, plays=16, coordinates=6),
    }
    return Study(**{**given, **changes})


def _told(state: State, means: tuple[float, ...] | None = None) -> State:
    plan = ask(state)
    told = (0.0,) * plan.numbers if means is None else means
    return tell(state, plan, Release(plan=plan.digest, means=told, reports=plan.cohort, simulated=True))


def _exactly(plan: Plan, instance: Instance) -> tuple[float, ...]:
    return tuple(plan.reported(instance.mean_rewards[list(plan.support)][None])[0].tolist())


def _instance(misfit: float, seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    return Instance.draw(ACTIONS, rng).bent(misfit, rng)


def test_the_fit_test_comes_after_learning_and_before_the_confirmation() -> None:
    study = _study(confirmation=Confirmation(current=1, cohort=300, plays=2), population=2200)
    assert study.begin().clients_left == 400
    learnt = _told(study.begin())
    plan = ask(learnt)
    assert (plan.cohort, set(plan.plays), plan.numbers) == (1500, {16}, 6)
    assert len(plan.support) >= 10
    tested = _told(learnt)
    assert tested.fit_test_evidence is not None
    assert tested.active == learnt.active
    confirmed = _told(tested)
    assert confirmed.confirmation_evidence is not None
    assert [one.cohort for one in confirmed.progress] == [400, 1500, 300]
    assert not ask(confirmed).asks
    releases = [
        Release(plan=one.plan.digest, means=one.means, reports=one.reports, simulated=True)
        for one in confirmed.released
    ]
    assert replay(study, releases).fit_test_evidence == tested.fit_test_evidence


def test_a_linear_model_has_residuals_of_zero_whatever_the_clients_like() -> None:
    plan = ask(_told(_study().begin()))
    assert plan.mixing_matrix is not None
    rows = ACTIONS.matrix[list(plan.support)]
    assert np.abs(plan.mixing_matrix @ rows).max() < 1e-3  # the matrix is rounded to 14 binary digits
    np.testing.assert_allclose(plan.mixing_matrix @ plan.mixing_matrix.T / 16, np.eye(6), atol=1e-3)
    assert plan.asked_mechanism.bound < 7  # √6 + 3.7: not more for any θ*


def test_false_alarms_and_power() -> None:
    """Tests of a linear model, and of deviations up to 0.1, in the shuffle model at (1, 10⁻⁶).

    In 100 tests of a linear model, more false alarms than the 1 − 10⁻⁶ quantile of a binomial at 1 %, 9, are
    a failure. Deviations are noticed with a probability above 0.95, so 15 or fewer of 30 have a probability
    below 10⁻⁶. The same holds for a planted error, releases with errors four times as large as stated.
    """
    study = _study()
    plan, rng = ask(_told(study.begin())), np.random.default_rng(4)
    evidence = fit_test_evidence(study, plan, plan.cohort)

    def alarms(tests: int, misfit: float, scale: float = 1.0) -> int:
        found = 0
        for seed in range(tests):
            people = Population(_instance(misfit, seed), heterogeneity=0.1)
            averages = people.averages(plan.cohort, plan.support, plan.plays, rng)
            means = tuple(
                scale * mean for mean in simulate_release(plan, averages, SimulatedNoise(rng)).means
            )
            found += not fit_verdict(study, replace(evidence, means=means)).explained
        return found

    assert alarms(100, 0.0) <= binom.isf(1e-6, 100, 0.01)
    assert alarms(30, 0.1) > 15
    assert alarms(30, 0.0, scale=4.0) > 15


def test_the_lower_bound_is_below_the_truth_and_a_declared_misfit_is_no_surprise() -> None:
    instance = _instance(0.3, 3)
    for misfit, explained in ((0.0, False), (0.3, True)):
        study = _study(misfit=misfit)
        learnt = _told(study.begin())
        state = _told(learnt, _exactly(ask(learnt), instance))
        found = fit_check_of(state, rewards=RewardRange.of((0, 1)))
        assert found is not None
        assert found.explained is explained
        assert found.about == pytest.approx(0.3 / 3**0.5 / 2, rel=0.5)
        assert 0 <= found.at_least <= 0.3 / 2
        words = "explain what was measured" if explained else "do not explain what was measured"
        assert words in str(found)
        assert answer_of(state, None, level=0.95, rewards=RewardRange.of((0, 1))).fit == found


def test_the_cohort_is_the_smallest_that_notices_a_misfit() -> None:
    study = _study(fit_test=None)
    small, large = (reserved_fit_test(study, 20_000, misfit).cohort for misfit in (0.1, 0.05))
    assert small < large < 10_000
    with pytest.raises(InvalidValue, match=r"misfit to notice: got 0.001"):
        reserved_fit_test(study, 2000, 0.001)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"assignment": "one_per_round"}, "assignment: got one_per_round, expected everyone"),
        ({"actions": Actions(np.eye(3))}, "actions: got 3, expected more than 3"),
    ],
)
def test_a_fit_test_that_a_study_cannot_have_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        _study(**changes)
