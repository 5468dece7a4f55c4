"""Intervals of answers: radii from draws of a known distribution, and leads from differences to the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dpbandits as dp
from dpbandits import examples
from dpbandits.answers import Knowledge, _bounds, answer_of
from dpbandits.answers._directions import differences
from dpbandits.answers._errors import PhaseErrors
from dpbandits.errors import InvalidValue
from dpbandits.protocol import PhaseEvidence, Steps, ask, fitted

OPTIONS = dp.Options.grid(price=[1, 2, 3], colour=["red", "green", "blue"])
ROWS = OPTIONS.actions.matrix
REQUESTS = {
    "none": dp.PrivacyRequest(),
    "k-norm": dp.PrivacyRequest(trust="central", epsilon=1, delta=0),
    "discrete-gaussian": dp.PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6, noise="discrete-gaussian"),
}


def _phase(noise: str, cohort: int = 300, **changes: Any) -> tuple[dp.Study, PhaseEvidence]:
    settings: dict[str, Any] = {
        "actions": OPTIONS.actions,
        "horizon": 10_000,
        "privacy": REQUESTS[noise],
        "schedule": dp.Schedule(cohorts=(cohort,), first_length=12),
        "heterogeneity": 0.3,
    }
    study = dp.Study(**settings | changes)
    state = study.begin()
    plan = ask(state)
    evidence = study.assignment_rule.evidence(state, plan, (cohort,), None)
    return study, replace(evidence, means=(0.0,) * plan.numbers)


def _errors_of_releases(study: dp.Study, evidence: PhaseEvidence, count: int) -> Any:
    """Draw θ̃ − θ* of normal people, without the code that is tested; θ* = 0."""
    rng = np.random.default_rng(7)
    plan, fit = evidence.plan, fitted(study, evidence)
    errors = np.empty((count, study.actions.dimension))
    population = dp.Population(
        dp.Instance(study.actions, np.zeros(study.actions.dimension)), heterogeneity=0.3
    )
    for number in range(count):
        averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
        reported = np.array([plan.reported(averages)]).reshape(len(averages), -1).mean(axis=0)
        drawn = plan.asked_mechanism.noise_draws(1, plan.cohort, dp.SimulatedNoise(rng))
        assert drawn is not None
        errors[number] = fit.map @ (reported + drawn[0])  # type: ignore[attr-defined]
    return errors


@pytest.mark.parametrize("noise", list(REQUESTS))
def test_joint_radii_of_normal_people_are_exceeded_as_often_as_stated(noise: str) -> None:
    study, evidence = _phase(noise)
    radii = PhaseErrors(study, evidence, Knowledge.NORMAL).joint(ROWS, 0.1)
    pull = fitted(study, evidence).errors.pull(ROWS @ fitted(study, evidence).map)  # type: ignore[attr-defined]
    errors = _errors_of_releases(study, evidence, 600)
    # The seeds are fixed. 600 studies at β = .1 miss 60 times on average, with a standard deviation of 7.3.
    missed = np.any(errors @ ROWS.T > radii - pull, axis=1).sum()
    assert 30 <= missed <= 90
    assert np.any(errors @ ROWS.T > 0.8 * (radii - pull), axis=1).sum() > 90
    single = PhaseErrors(study, evidence, Knowledge.NORMAL).each(ROWS, 0.1)
    assert np.all(single < radii)


def test_known_noise_gives_shorter_radii_than_chernoffs_bound() -> None:
    for noise in ("k-norm", "discrete-gaussian"):
        study, evidence = _phase(noise, cohort=100)
        errors = PhaseErrors(study, evidence, Knowledge.MODEL)
        assert np.all(errors.joint(ROWS, 0.05) < 0.95 * errors.bound(ROWS, 0.05 / len(ROWS)))
        # Nothing is drawn for so small a probability.
        assert errors.joint(ROWS, 1e-4).tolist() == errors.bound(ROWS, 1e-4 / len(ROWS)).tolist()
    study, evidence = _phase("none")
    errors = PhaseErrors(study, evidence, Knowledge.MODEL)
    assert errors.joint(ROWS, 0.05).tolist() == errors.bound(ROWS, 0.05 / len(ROWS)).tolist()


@pytest.mark.parametrize("noise", ["none", "k-norm"])
def test_joint_radii_of_independent_bounded_rewards_hold_and_are_short(noise: str) -> None:
    """All differences of a grid, many of which are parallel, for rewards −1 or 1 with mean 0."""
    study, evidence = _phase(noise, bounded_rewards=True, heterogeneity=0.0)
    pairs = differences(ROWS)
    errors = PhaseErrors(study, evidence, Knowledge.MODEL)
    assert errors.pairs_suffice(ROWS, 0.1)
    radii, pull = errors.joint(pairs, 0.1), errors._pull(pairs)
    plan, fit, rng = evidence.plan, fitted(study, evidence), np.random.default_rng(5)
    rewards, studies = plan.cohort * np.array(plan.plays), 4000
    means = 2 * rng.binomial(rewards, 0.5, (studies, len(rewards))) / rewards - 1
    reported = means if plan.mixing_matrix is None else means @ plan.mixing_matrix.T
    noises = plan.asked_mechanism.noise_draws(studies, plan.cohort, dp.SimulatedNoise(rng))
    assert noises is not None
    found = (reported + noises) @ fit.map.T @ pairs.T  # type: ignore[attr-defined]

    def missed(shorter: float) -> int:
        return int(np.any(found > shorter * (radii - pull), axis=1).sum())

    # The seed is fixed. 4,000 studies at β = .1 may miss 400 times, with a standard deviation of 19.
    assert missed(1.0) <= 400 + 4.9 * 19
    assert missed(0.8) > 400 + 4.9 * 19
    several = PhaseErrors(study, evidence, Knowledge.MODEL).bound(pairs, 0.1 / len(pairs))
    assert np.mean(radii / several) < 0.95
    alone = errors.joint(pairs[:1], 0.05)
    assert alone == pytest.approx(errors.joint(np.repeat(pairs[:1], 7, axis=0), 0.05)[:1], rel=0.01)


def test_radii_of_independent_people_are_not_those_of_other_people() -> None:
    """Independent people have shorter radii, also if both kinds are computed in one process."""
    clipped = Steps().without("recentred", "whitened")
    study, evidence = _phase("discrete-gaussian", steps=clipped)
    any_people = PhaseErrors(study, evidence, Knowledge.BOUNDED).joint(ROWS, 0.1)
    independent = PhaseErrors(study, evidence, Knowledge.BOUNDED, independent=True).joint(ROWS, 0.1)
    assert np.all(independent < any_people)


@pytest.mark.parametrize("level", [0, 1, 1.5])
def test_a_level_is_strictly_between_0_and_1(level: float) -> None:
    options = examples.options()
    state = examples.after_one_phase(examples.study(options))
    with pytest.raises(InvalidValue, match="level: got"):
        answer_of(state, options, level=level)


@dataclass
class GivenErrors:
    """Radii that a test chooses: r[j, i] for the difference of options j and i."""

    radii: Any
    differences: Any

    def joint(self, directions: Any, _chance: float) -> Any:
        best = next(j for j in range(len(self.radii)) if np.array_equal(directions, self.differences(j)))
        return np.delete(self.radii[best], best)


def test_leads_follow_from_differences_to_any_best_option() -> None:
    """If the differences to the best option err by at most their radii, every lead lies in its interval."""
    rng, rows = np.random.default_rng(3), ROWS
    count, outside = len(rows), 0
    for _ in range(500):
        truth, theta = rng.normal(size=4) * 0.3, rng.normal(size=4) * 0.1
        means, best = rows @ truth, int(np.argmax(rows @ truth))
        errors = rows @ theta  # of the estimate truth + theta
        radii = rng.uniform(0.05, 0.3, (count, count))
        slack = np.abs(errors[best] - errors) * rng.uniform(1, 1.5, count)
        radii[best] = np.maximum(slack, 1e-3)  # the events for the best option hold, and no others need to
        given = GivenErrors(radii, lambda j: rows[j] - rows[np.arange(count) != j])
        phase: Any = _bounds._Phase(
            errors=given,  # type: ignore[arg-type]
            active=np.ones(count, dtype=bool),
            estimate=truth + theta,
            basis=np.eye(4),
            failure=0.1,
        )
        own, others = int(rng.integers(count)), np.arange(count)
        low, high = _bounds._through_best(phase, rows, own, others)
        lead = means[own] - means
        assert np.all(low - 1e-12 <= lead)
        assert np.all(lead <= high + 1e-12)
        inner = 0.3 * (high - low)
        outside += bool(np.any((lead < low + inner) | (lead > high - inner)))
    assert outside > 250  # intervals of 40 % of the length would miss most of the time


def test_later_phases_get_most_of_the_failure_probability() -> None:
    shares = _bounds._shares(3)
    assert shares == pytest.approx([0.75 / 21 + 0.25 / 3, 3 / 21 + 0.25 / 3, 12 / 21 + 0.25 / 3])
    assert _bounds._shares(1) == [1.0]
    assert min(_bounds._shares(1000)) >= 0.25 / 1000  # no overflow, and no phase without a share
