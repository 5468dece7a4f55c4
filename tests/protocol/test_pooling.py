"""Bounds from all phases together: they hold in all phases at once, however designs depend on the past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from dpbandits.actions import Actions
from dpbandits.answers import Knowledge
from dpbandits.answers._bounds import Bounds, left_for_widths
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Schedule, State, Steps, Study, ask, simulate_groups, tell
from dpbandits.protocol._clipping import mean_excess
from dpbandits.protocol._pooling import Leads, _pulled, _quantiles
from dpbandits.protocol.assignment import Pull
from dpbandits.simulation import simulate
from dpbandits.world import Instance, Population

FALSE_ALARM = 1e-6


def _study(trust: str = "none", delta: float = 1e-6, **changes: object) -> Study:
    settings = {
        "actions": Actions.generate("sphere", count=12, dimension=3, rng=2),
        "horizon": 100_000,
        "bounded_rewards": False,
        "privacy": PrivacyRequest(trust=trust, delta=delta),
        "schedule": Schedule(cohorts=(100,) * 12, first_length=400, growth=1.2),
        "confidence": 0.95,
        "stop_when_decided": True,
    }
    return Study(**{**settings, **changes})  # type: ignore[arg-type]


def test_the_bound_holds_in_all_phases_of_adaptive_designs() -> None:
    """A designer asks more precisely whenever the error is large. Over 4,000 paths at α = .05.

    The bound is exceeded too often with probability 10⁻⁶. A bound that is right in each single phase, a
    normal quantile, is exceeded in some phase far more often, so the test notices it.
    """
    rng, paths, alpha = np.random.default_rng(0), 4000, 0.05
    total, information = np.zeros(paths), np.zeros(paths)
    ever, naive = np.zeros(paths, dtype=bool), np.zeros(paths, dtype=bool)
    for _ in range(20):
        high = total > np.sqrt(np.maximum(information, 1e-9))
        proxies = np.where(high, 0.2, 1.0) * rng.uniform(0.5, 2, paths)
        total += rng.standard_normal(paths) / np.sqrt(proxies)
        information += 1 / proxies
        prior, nothing = np.full(paths, 1.0), np.zeros(paths)
        leads = Leads(estimates=total / information, information=information, prior=prior, pulls=nothing)
        ever |= leads.estimates > leads.widths(alpha)
        naive |= leads.estimates > norm.isf(alpha) / np.sqrt(information)
    limit = binom.isf(FALSE_ALARM, paths, alpha)
    assert 0 < ever.sum() <= limit
    assert naive.sum() > limit


def test_the_quantile_solves_its_equation_from_above() -> None:
    levels = np.geomspace(0.7, 40, 200)
    found = _quantiles(levels)
    reached = found**2 / 2 + np.log(2) + log_ndtr(found)
    np.testing.assert_allclose(reached, levels, rtol=1e-9)
    assert (np.diff(found) > 0).all()


def test_the_shares_add_up_to_the_failure_probability() -> None:
    for study in (_study(), _study(stop_gap=0.1)):
        pairs = study.actions.count - 1
        single = 5 * study.actions.count * 12 * study.bound_failure
        assert single + pairs * sum(study.pair_failures) == pytest.approx(0.05)
    assert _study().pair_failures[0] > _study(stop_gap=0.1).pair_failures[0]


def test_only_noise_that_may_be_normal_is_pooled() -> None:
    assert _study("shuffle").pools
    assert _study("central").pools
    assert not _study("central", delta=0.0).pools
    assert not _study("local", delta=0.0).pools
    assert not _study(confidence=None).pools
    assert not _study(steps=Steps().without("pooled")).pools
    assert not _study(steps=Steps().without("differences")).pools


def test_all_phases_together_need_fewer_clients() -> None:
    """With equal cohorts, the last phase alone never gets as precise as all phases together."""
    asked = dict[bool, int]()
    for pooled in (True, False):
        study = _study(steps=None if pooled else Steps().without("pooled"))
        instance = Instance.draw(study.actions, np.random.default_rng(3))
        people = Population(instance, heterogeneity=study.heterogeneity)
        traces = [simulate(study, people, seed=seed) for seed in range(6)]
        assert all(trace.best_action_survived for trace in traces)
        asked[pooled] = sum(trace.participants for trace in traces)
    assert asked[True] < 0.6 * asked[False]


def test_one_client_per_round_is_pooled_without_privacy() -> None:
    study = _study(assignment="one_per_round", schedule=Schedule.one_client_per_round(3), horizon=60_000)
    assert study.pools
    instance = Instance.draw(study.actions, np.random.default_rng(3))
    people = Population(instance, heterogeneity=study.heterogeneity)
    both = [study, replace(study, steps=Steps().without("pooled"))]
    asked = [sum(simulate(one, people, seed=seed).participants for seed in range(3)) for one in both]
    assert asked[0] <= asked[1]


def _states(study: Study, people: Population, seed: int) -> list[State]:
    rng, noise = np.random.default_rng(seed), SimulatedNoise(np.random.default_rng(seed))
    states = [study.begin()]
    while (plan := ask(states[-1])).asks:
        reported = study.assignment_rule.simulate(plan, people, rng)
        states.append(tell(states[-1], plan, simulate_groups(plan, reported, noise)[0]))
    return states


def test_intervals_from_all_phases_cover_and_are_narrower() -> None:
    """40 studies at level .8 of options that differ little. More than 22 misses have probability 10⁻⁶.

    Intervals of a quarter of the width miss in nearly all studies, and would be noticed.
    """
    study = _study(
        stop_when_decided=False, schedule=Schedule(cohorts=(100,) * 6, first_length=400, growth=1.2)
    )
    instance = Instance(study.actions, 0.002 * Instance.draw(study.actions, np.random.default_rng(3)).theta)
    people, rest = Population(instance, heterogeneity=study.heterogeneity), np.arange(1, 12)
    truth, missed, narrow = instance.mean_rewards[0] - instance.mean_rewards[rest], 0, 0
    for seed in range(40):
        states = _states(study, people, seed)
        low, high = Bounds(states, knowledge=Knowledge.MODEL, failure=0.2).leads(0, rest.tolist())
        centre, half = (low + high) / 2, (high - low) / 2
        missed += bool(np.any(np.abs(truth - centre) > half))
        narrow += bool(np.any(np.abs(truth - centre) > half / 4))
    assert missed <= binom.isf(FALSE_ALARM, 40, 0.2) < narrow
    alone = [replace(state, study=replace(study, steps=Steps().without("pooled"))) for state in states]
    wider = Bounds(alone, knowledge=Knowledge.MODEL, failure=0.2).leads(0, rest.tolist())
    assert (high - low < 0.75 * (wider[1] - wider[0])).all()


def test_intervals_leave_room_for_the_bounds_of_the_study() -> None:
    study = _study()
    left = left_for_widths(study, Knowledge.MODEL, 0.05)
    assert left == pytest.approx(0.05 - 3 * 12 * 12 * study.bound_failure)
    with pytest.raises(InvalidValue, match="confidence: got 0.5"):
        left_for_widths(_study(confidence=0.5), Knowledge.MODEL, 0.05)


def test_the_total_excess_of_all_phases_is_bounded() -> None:
    """What is cut off is exponential, the worst case of the proof. 4,000 paths of 12 phases at β = .05.

    The false-alarm rate is 10⁻⁶. If twice as much is cut off, the test notices it.
    """
    rng, paths, phases, clients, chance, failure = np.random.default_rng(0), 4000, 12, 200, 0.02, 0.05
    clipped = rng.binomial(clients, chance, (paths, phases))
    excess = rng.gamma(np.maximum(clipped, 1e-9)) / 2  # in units of 2·√v/z, the total of all clients
    total, expected = excess.cumsum(axis=1), clients * chance * np.arange(1, phases + 1)
    limit = binom.isf(FALSE_ALARM, paths, failure)
    assert np.any(total > expected + np.log(1 / failure), axis=1).sum() <= limit
    assert np.any(2 * total > expected + np.log(1 / failure), axis=1).sum() > limit


def test_the_pull_of_many_phases_is_less_than_the_sum() -> None:
    one, failure = np.ones(2), 1e-6
    level = np.log(1 / failure)
    pull = Pull(most=one * (level + 0.5), slopes=one, expected=0.5)
    np.testing.assert_allclose(_pulled([one], [pull], failure), level + 0.5)
    np.testing.assert_allclose(_pulled([one] * 12, [pull] * 12, failure), level + 6)
    unknown = Pull(most=one, slopes=None, expected=0.0)
    np.testing.assert_allclose(_pulled([one] * 3, [pull, pull, unknown], failure), level + 2)


def test_nobody_is_clipped_where_nobody_is_expected() -> None:
    """With n·p ≤ β the bound is zero; p = 2·exp(−z²/2)."""
    width, deviation = np.array([0.1]), np.array([1.0])
    assert mean_excess(12.1, width, deviation, 1000, 1e-6)[0] == 0
    assert mean_excess(5.1, width, deviation, 1000, 1e-6)[0] > 0
