"""Tails of sums of bounded rewards, compared with exact distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpbandits.answers import _tails

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
    tail = _tails.of_bounded(factors, np.array([float(count) for count, _ in groups]), NOTHING)
    z = values / tail.units[0]
    assert np.all(reached <= tail(z[:, None])[:, 0] * (1 + 1e-9))
    rows = _tails.of_bounded(np.ones((1, 1)), np.ones(1), NOTHING, replaced=False)
    assert np.all(reached <= rows(z[:, None])[:, 0] * (1 + 1e-9))


def test_the_tail_is_nearly_that_of_the_normal_distribution_and_a_shorter_one_is_wrong() -> None:
    values, reached = _beyond(*_sums([(100_000, 1.0)], 0.5))
    tail = _tails.of_bounded(np.array([[1e5]]), np.array([1e5]), NOTHING)
    z = values / tail.units[0]
    judged = (z > 2) & (z < 4)
    assert np.all(tail(z[judged, None])[:, 0] <= norm.sf(z[judged]) * 1.1)
    assert np.all(tail(z[judged, None])[:, 0] < 0.45 * np.exp(-(z[judged] ** 2) / 2))
    assert np.all(reached[judged] > tail(1.05 * z[judged, None])[:, 0])


def test_rounding_to_a_grid_is_part_of_the_tail() -> None:
    """400 rewards, each report with a coin of ±0.15: the coins have 0.0225 times the proxy of the rewards."""
    values, reached = _beyond(*_sums([(400, 1.0), (400, 0.15)], 0.5))
    tail = _tails.of_bounded(np.array([[400.0]]), np.array([400.0]), np.array([0.0225 * 400]))
    z = values / tail.units[0]
    assert np.all(reached <= tail(z[:, None])[:, 0] * (1 + 1e-9))
    alone = _tails.of_bounded(np.array([[400.0]]), np.array([400.0]), NOTHING)
    assert np.all(alone(z[:, None]) <= tail(z[:, None]))


def test_each_direction_has_its_own_table() -> None:
    counts = np.array([10.0, 1000.0])
    both = _tails.of_bounded(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), counts, np.zeros(3))
    assert both.units == pytest.approx([0.1**0.5, 0.001**0.5, 0.1**0.5])
    few, many, again = both(np.full((1, 1, 3), 2.5))[0, 0]
    assert few == again > many > norm.sf(2.5)
    assert np.array_equal(both(np.full((1, 3, 1), 2.5)).ravel(), [few, many, few])
    assert both(np.array([[-1.0, 0.0, 50.0]]))[0].tolist() == [1.0, 1.0, both.values[0, -1]]
