"""Problem instances: θ*, gaps, the best action and regret."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.world import Instance


def test_gaps_best_action_and_regret() -> None:
    instance = Instance(Actions([[1.0, 0.0], [0.0, 1.0], [-0.5, 0.0]]), [0.5, 0.2])
    assert instance.best_action == 0
    np.testing.assert_allclose(instance.gaps, [0, 0.3, 0.75])
    assert instance.regret([1, 2], [10, 4]) == pytest.approx(10 * 0.3 + 4 * 0.75)


def test_a_drawn_theta_lies_on_the_unit_sphere() -> None:
    actions = Actions.generate("ball", count=5, dimension=4, rng=0)
    theta = Instance.draw(actions, np.random.default_rng(0)).theta
    assert np.linalg.norm(theta) == pytest.approx(1)


@pytest.mark.parametrize(
    ("theta", "message"),
    [([0.5], "2, the dimension of the actions"), ([1, 1], "norm 1.41"), ([np.nan, 0], "nan")],
)
def test_an_invalid_theta_is_refused(theta: list[float], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Instance(Actions([[1.0, 0.0]]), theta)


def test_measured_rewards_decide_where_they_are_given() -> None:
    actions = Actions([[1.0, 0.0], [0.0, 1.0]])
    instance = Instance(actions, [0.5, 0.2], measured=[0.1, 0.4])
    assert instance.best_action == 1
    np.testing.assert_allclose(instance.gaps, [0.3, 0])
    with pytest.raises(InvalidValue, match="measured: got 1 numbers, expected 2"):
        Instance(actions, [0.5, 0.2], measured=[0.1])


def test_a_matrix_is_not_read_as_its_first_row() -> None:
    actions, rows = Actions([[1.0, 0.0], [0.0, 1.0]]), [[0.1, 0.4], [0.2, 0.3]]
    with pytest.raises(InvalidValue, match="theta: got 4 numbers, expected 2"):
        Instance(actions, rows)
    with pytest.raises(InvalidValue, match="measured: got 4 numbers, expected 2"):
        Instance(actions, [0.5, 0.2], measured=rows)
