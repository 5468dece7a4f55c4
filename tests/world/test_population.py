"""Populations: who is drawn, how clients differ, and that nobody is asked twice."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue, NotEnoughClients
from dpbandits.world import Clients, FittedPopulation, Instance, Population, ResampledPopulation


def _instance() -> Instance:
    return Instance(Actions([[1.0, 0.0], [0.0, 1.0]]), [0.6, 0.0])


def test_a_client_serves_once() -> None:
    population = Population(_instance(), heterogeneity=0.1, size=10)
    rng = np.random.default_rng(0)
    population.averages(6, [0, 1], [1, 1], rng)
    assert population.asked == 6
    with pytest.raises(NotEnoughClients, match="11 clients.*has 10"):
        population.averages(5, [0], [1], rng)
    population.averages(4, [0], [1], rng)


def test_clients_differ_by_the_heterogeneity_and_agree_within_themselves() -> None:
    population = Population(_instance(), heterogeneity=0.2)
    averages = population.averages(20_000, [0, 0], [10**12, 10**12], np.random.default_rng(1))
    np.testing.assert_allclose(averages[:, 0], averages[:, 1], atol=1e-4)  # the same client twice
    assert averages.mean() == pytest.approx(0.6, abs=5 * 0.2 / np.sqrt(20_000))
    assert averages.std() == pytest.approx(0.2, rel=0.03)


@pytest.mark.parametrize("rewards", ["gaussian", "uniform", "bernoulli"])
def test_single_rewards_have_the_law_of_averages_of_one_play(rewards: str) -> None:
    """Compare mean and variance with clients that report all actions; false-alarm rate below 10⁻⁶."""
    population = Population(_instance(), heterogeneity=0.5, rewards=rewards)
    count, rng = 150_000, np.random.default_rng(1)
    blocks = list(population.rewards(count, 0, rng))
    assert population.asked == count
    assert len(blocks) > 1
    assert max(len(block) for block in blocks) <= 2**16  # memory does not grow with the cohort
    alone = np.concatenate(blocks)
    assert alone.shape == (count, 1)
    together = population.averages(count, [0, 1], [1, 1], rng)[:, :1]
    scatter = together.std() * np.sqrt(2 / count)
    assert abs(alone.mean() - together.mean()) < 5 * scatter
    assert abs((alone + 0.05).mean() - together.mean()) > 5 * scatter  # a shift is detected
    assert alone.std() == pytest.approx(together.std(), rel=0.015)


def test_single_rewards_are_of_clients_that_exist() -> None:
    population = Population(_instance(), heterogeneity=0.1, size=10)
    with pytest.raises(NotEnoughClients, match="11 clients.*has 10"):
        next(population.rewards(11, 0, np.random.default_rng(0)))


@pytest.mark.parametrize("fitted", [False, True])
def test_a_large_cohort_has_the_law_of_a_small_one(fitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means are drawn in the span of the supported actions. False-alarm rate: about 10⁻⁶ per sum."""
    actions = Actions.generate("ball", count=3, dimension=6, rng=3)
    instance = Instance.draw(actions, np.random.default_rng(4))
    covariance, clients = np.eye(6) * 0.25, 20_000
    population: Clients = Population(instance, heterogeneity=0.5)
    if fitted:
        covariance = np.diag([0.1, 0.3, 0.0, 0.2, 1.0, 0.5]) + 0.05
        population = FittedPopulation(instance, covariance=covariance)
    monkeypatch.setattr("dpbandits.world._population._LARGE", 0)
    monkeypatch.setattr("dpbandits.world._population._VERY_LARGE", 0)
    rng = np.random.default_rng(5)
    averages = population.averages(clients, [0, 1, 2], [10**12] * 3, rng)
    rows = actions.matrix
    factor = np.linalg.cholesky(rows @ covariance @ rows.T)
    standard = np.linalg.solve(factor, (averages - rows @ instance.theta).T)
    assert np.abs(standard.sum(axis=1)).max() / np.sqrt(clients) < norm.isf(1e-7)
    within = np.concatenate([[standard[i] @ standard[j] for j in range(i)] for i in range(1, 3)])
    assert np.abs(within).max() / np.sqrt(clients) < norm.isf(1e-7) * 1.05  # a product of two normals
    for squares in (standard**2).sum(axis=1):
        assert chi2.isf(1 - 1e-6, clients) < squares < chi2.isf(1e-6, clients)
        assert (
            not chi2.isf(1 - 1e-6, clients) < 1.1 * squares < chi2.isf(1e-6, clients)
        )  # a wrong scale is detected


def test_without_heterogeneity_all_clients_are_equal() -> None:
    population = Population(_instance(), heterogeneity=0, rewards="uniform")
    averages = population.averages(50, [0, 1], [10**10, 10**10], np.random.default_rng(1))
    np.testing.assert_allclose(averages, [[0.6, 0.0]] * 50, atol=1e-3)


@pytest.mark.parametrize("changes", [{"heterogeneity": -1}, {"size": 0}, {"rewards": "x"}])
def test_bad_populations_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        Population(_instance(), **{"heterogeneity": 0.1, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("covariance", [[[1.0]], [[1.0, 0], [0, -0.1]], [[np.nan, 0], [0, 1]]])
def test_what_is_no_covariance_is_refused(covariance: list[list[float]]) -> None:
    with pytest.raises(InvalidValue, match="covariance"):
        FittedPopulation(_instance(), covariance=covariance)


def test_tastes_need_a_column_for_each_action() -> None:
    with pytest.raises(InvalidValue, match="tastes: got 1 columns, expected 2"):
        ResampledPopulation(_instance(), tastes=[[0.5]])


def test_every_population_counts_its_clients() -> None:
    fitted = FittedPopulation(_instance(), covariance=np.eye(2), size=3)
    resampled = ResampledPopulation(_instance(), tastes=[[0.1, 0.2]], size=3)
    for population in (fitted, resampled):
        with pytest.raises(NotEnoughClients):
            population.averages(4, [0], [1], np.random.default_rng(0))
