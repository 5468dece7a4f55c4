"""Tails of sums of rewards and of sums over people, compared with exact distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpbandits.privacy.tails import tail_of_bounded, tail_of_people
from dpbandits.privacy.tails._sub_gaussian_sums import _edges, _moments

NOTHING = np.zeros(1)


def _sums(groups: list[tuple[int, float]], chance: float) -> tuple[Any, Any]:
    """Return the values and probabilities of Σ w·(Y − EY), for groups of rewards ±1 with their weights w."""
    values, chances = np.zeros(1), np.ones(1)
    for count, weight in groups:
        wins = np.arange(count + 1)
        own = weight * (2 * wins - 2 * count * chance)
        values = (values[:, None] + own).ravel()
        chances = (chances[:, None] * binom.pmf(wins, count, chance)).ravel()
    return values, chances


def _beyond(values: Any, chances: Any) -> tuple[Any, Any]:
    """Return each value s > 0 with P(S ≥ s)."""
    order = np.argsort(values)
    values, reached = values[order], np.cumsum(chances[order][::-1])[::-1]
    return values[values > 0], reached[values > 0]


@pytest.mark.parametrize("chance", [0.5, 0.35, 0.1, 0.02, 0.8, 0.99])
@pytest.mark.parametrize(
    "groups", [[(1, 1.0)], [(9, 1.0)], [(400, 1.0)], [(60, 1.0), (60, 0.3)], [(200, 1.0), (5, 4.0)]]
)
def test_the_tail_is_above_the_exact_one_of_every_coin(
    groups: list[tuple[int, float]], chance: float
) -> None:
    values, reached = _beyond(*_sums(groups, chance))
    # The mean of a kind of rewards has the factor count·w.
    factors = np.array([[count * weight for count, weight in groups]])
    tail = tail_of_bounded(factors, np.array([float(count) for count, _ in groups]), NOTHING)
    z = values / tail.units[0]
    assert np.all(reached <= tail(z[:, None])[:, 0] * (1 + 1e-9))
    rows = tail_of_bounded(np.ones((1, 1)), np.ones(1), NOTHING, replaced=False)
    assert np.all(reached <= rows(z[:, None])[:, 0] * (1 + 1e-9))


def test_the_tail_is_nearly_that_of_the_normal_distribution_and_a_shorter_one_is_wrong() -> None:
    values, reached = _beyond(*_sums([(100_000, 1.0)], 0.5))
    tail = tail_of_bounded(np.array([[1e5]]), np.array([1e5]), NOTHING)
    z = values / tail.units[0]
    judged = (z > 2) & (z < 4)
    assert np.all(tail(z[judged, None])[:, 0] <= norm.sf(z[judged]) * 1.1)
    assert np.all(tail(z[judged, None])[:, 0] < 0.45 * np.exp(-(z[judged] ** 2) / 2))
    assert np.all(reached[judged] > tail(1.05 * z[judged, None])[:, 0])


def test_rounding_to_a_grid_is_part_of_the_tail() -> None:
    """400 rewards, each report with a coin of ±0.15: the coins have 0.0225 times the proxy of the rewards."""
    values, reached = _beyond(*_sums([(400, 1.0), (400, 0.15)], 0.5))
    tail = tail_of_bounded(np.array([[400.0]]), np.array([400.0]), np.array([0.0225 * 400]))
    z = values / tail.units[0]
    assert np.all(reached <= tail(z[:, None])[:, 0] * (1 + 1e-9))
    alone = tail_of_bounded(np.array([[400.0]]), np.array([400.0]), NOTHING)
    assert np.all(alone(z[:, None]) <= tail(z[:, None]))


def test_each_direction_has_its_own_table() -> None:
    counts = np.array([10.0, 1000.0])
    both = tail_of_bounded(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), counts, np.zeros(3))
    assert both.units == pytest.approx([0.1**0.5, 0.001**0.5, 0.1**0.5])
    few, many, again = both(np.full((1, 1, 3), 2.5))[0, 0]
    assert few == again > many > norm.sf(2.5)
    assert np.array_equal(both(np.full((1, 3, 1), 2.5)).ravel(), [few, many, few])
    assert both(np.array([[-1.0, 0.0, 50.0]]))[0].tolist() == [1.0, 1.0, both.values[0, -1]]


# What one person contributes: values and probabilities, with mean 0 and the least proxy 1 up to rounding.
def _coin(chance: float) -> tuple[Any, Any]:
    """Two values. The least proxy of a coin is known (Kearns and Saul 1998)."""
    proxy = 0.25 if chance == 0.5 else (1 - 2 * chance) / (2 * np.log((1 - chance) / chance))
    return np.array([-chance, 1 - chance]) / np.sqrt(proxy), np.array([1 - chance, chance])


def _rarely(chance: float) -> tuple[Any, Any]:
    """0, or with this probability one of two opposite values. The proxy is the largest 2·log E e^(λX)/λ²."""
    rates = np.geomspace(1e-2, 50, 4000)
    proxy = np.max(2 * np.log1p(chance * (np.cosh(rates) - 1)) / rates**2)
    return np.array([-1.0, 0.0, 1.0]) / np.sqrt(proxy), np.array([chance / 2, 1 - chance, chance / 2])


PERSONS = [_coin(0.5), _coin(0.35), _coin(0.1), _coin(0.97), _rarely(1 / 3), _rarely(0.6), _rarely(0.02)]


@pytest.mark.parametrize("people", [30, 400, 20_000])
@pytest.mark.parametrize("place", range(len(PERSONS)))
def test_the_tail_of_people_is_above_the_exact_one(people: int, place: int) -> None:
    values, chances = PERSONS[place]
    counts, size = np.round((values - values[0]) / (values[1] - values[0])).astype(int), 2 * people + 1
    one = np.zeros(size + 1)
    one[counts] = chances
    exact = np.fft.irfft(np.fft.rfft(one) ** people, len(one))
    reached = np.cumsum(np.maximum(exact, 0)[::-1])[::-1]
    sums = (people * values[0] + np.arange(len(one)) * (values[1] - values[0])) / np.sqrt(people)
    tail, judged = tail_of_people(np.ones(1), people), (sums > 0) & (reached > 1e-9)
    assert np.all(reached[judged] <= tail(sums[judged, None])[:, 0] * (1 + 1e-6) + 1e-12)


def test_the_tail_of_many_people_is_nearly_normal_and_a_shorter_one_is_wrong() -> None:
    z = np.linspace(1.5, 4, 200)
    for people, most in [(500, 2.6), (3000, 1.6), (10**6, 1.1)]:
        found = tail_of_people(np.ones(1), people)(z[:, None])[:, 0]
        assert np.all(norm.sf(z) <= found)  # normal people have this tail
        assert np.all(found[z < 2.5] <= most * norm.sf(z[z < 2.5]))
    assert np.all(norm.sf(z) > tail_of_people(np.ones(1), 10**6)(1.05 * z[:, None])[:, 0])
    assert np.all(tail_of_people(np.ones(1), 3)(z[:, None])[:, 0] <= np.exp(-(z**2) / 2) * 1.02)


@pytest.mark.parametrize("place", range(len(PERSONS)))
def test_moments_after_tilting_are_within_their_bounds(place: int) -> None:
    values, chances = PERSONS[place]
    for tilt in (0.0, 0.02, 0.1, 0.4):
        tilted = chances * np.exp(tilt * values)
        tilted /= tilted.sum()
        deviations = values - tilted @ values
        variance, third, fourth = (float(tilted @ deviations**power) for power in (2, 3, 4))
        bounds = _moments(np.array([variance]), tilt)
        assert fourth <= bounds[0][0] * (1 + 1e-6)
        assert abs(third) <= bounds[1][0] * (1 + 1e-6)
        assert variance <= _edges(tilt)[-1]
