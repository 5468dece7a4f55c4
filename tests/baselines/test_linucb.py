"""LinUCB plays the actions of its textbook form, learns, and refuses wrong arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.baselines import linucb
from dpbandits.baselines._linucb import choices
from dpbandits.errors import InvalidValue
from dpbandits.world import Instance


def _instance(family: str = "sphere", count: int = 25, dimension: int = 3) -> Instance:
    actions = Actions.generate(family, count=count, dimension=dimension, rng=3)
    return Instance.draw(actions, np.random.default_rng(4))


def _textbook(instance: Instance, horizon: int, sigma: float, seed: int) -> list[int]:
    """LinUCB that inverts V in each round; it uses one standard normal variable per round."""
    rng, rows = np.random.default_rng(seed), instance.actions.matrix
    dimension = rows.shape[1]
    gram, total, played = np.eye(dimension), np.zeros(dimension), []
    for time in range(horizon):
        inverse = np.linalg.inv(gram)
        growth = dimension * math.log(1 + time / dimension)
        radius = 1 + math.sqrt((1 + sigma**2) * (2 * math.log(horizon) + growth))
        bounds = [x @ inverse @ total + radius * math.sqrt(x @ inverse @ x) for x in rows]
        played.append(int(np.argmax(bounds)))
        x = rows[played[-1]]
        reward = x @ instance.theta + math.sqrt(1 + sigma**2 * (x @ x)) * rng.standard_normal()
        gram += np.outer(x, x)
        total += reward * x
    return played


@pytest.mark.parametrize("family", ["sphere", "low-rank", "clustered"])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_the_actions_are_those_of_the_textbook(family: str, sigma: float) -> None:
    # Different lengths, because unit vectors tie in the first round and rounding would decide.
    lengths = np.random.default_rng(5).uniform(0.5, 0.99, size=(25, 1))
    actions = Actions(_instance(family, count=25, dimension=4).actions.matrix * lengths)
    instance = Instance.draw(actions, np.random.default_rng(6))
    found = choices(instance, horizon=600, heterogeneity=sigma, seed=9)
    assert found.tolist() == _textbook(instance, 600, sigma, seed=9)
    assert len(set(found.tolist())) > 3


def test_the_trace_adds_up_the_gaps() -> None:
    instance = _instance()
    trace = linucb(instance, horizon=3_000, heterogeneity=0.1, seed=1)
    played = choices(instance, horizon=3_000, heterogeneity=0.1, seed=1)
    regret = np.cumsum(instance.gaps[played])
    assert trace.times[0] == 1
    assert trace.times[-1] == trace.horizon == trace.participants == 3_000
    assert 140 <= len(trace.times) <= 200
    np.testing.assert_allclose(trace.cumulative_regret, regret[np.array(trace.times) - 1])
    assert trace.regret == pytest.approx(instance.gaps[played].sum())


def test_it_learns() -> None:
    instance = _instance()
    played = choices(instance, horizon=20_000, heterogeneity=0.1, seed=1)
    early, late = instance.gaps[played[:500]].mean(), instance.gaps[played[-500:]].mean()
    assert late < early / 4


def test_the_seed_decides_everything() -> None:
    instance = _instance()
    first, again, other = (linucb(instance, horizon=500, heterogeneity=0.1, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.cumulative_regret != other.cumulative_regret


@pytest.mark.parametrize(
    ("name", "value"),
    [("horizon", 0), ("horizon", 2.5), ("heterogeneity", -1.0), ("heterogeneity", math.nan), ("seed", -1)],
)
def test_errors_name_the_invalid_argument(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"horizon": 10, "heterogeneity": 0.1, "seed": 0, name: value}
    with pytest.raises(InvalidValue, match=name):
        linucb(_instance(), **arguments)
