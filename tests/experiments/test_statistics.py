"""Statistics of experiments: they distinguish orders, differences and powers from chance."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.experiments import overall
from dpbandits.experiments._statistics import all_hold, below, fitted_power, paired_difference, resolved_above


def test_orders_are_told_from_chance() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(100, 50, size=400)  # instances differ far more than models do
    noise = rng.normal(0, 10, size=400)
    assert below(base, base + 5 + noise) is True
    assert below(base + 5 + noise, base) is False
    assert below(base, base + noise - noise.mean()) is None


def test_equal_values_are_no_order() -> None:
    values = np.array([1.0, 2.0, 3.0])
    assert below(values, values) is False


def test_paired_difference() -> None:
    mean, error = paired_difference(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    assert mean == pytest.approx(2)
    assert error == pytest.approx(1 / np.sqrt(3))


def test_all_hold() -> None:
    assert all_hold([True, True]) is True
    assert all_hold([True, None]) is None
    assert all_hold([None, False]) is False


def test_a_power_is_found_and_its_error_is_honest() -> None:
    x = [1e4, 1e5, 1e6]
    rng = np.random.default_rng(1)
    fits = [
        fitted_power(x, [3 * value**0.6 * rng.normal(1, 0.2, size=20) for value in x]) for _ in range(200)
    ]
    powers, errors = np.array(fits).T
    assert powers.mean() == pytest.approx(0.6, abs=0.005)
    assert powers.std() == pytest.approx(errors.mean(), rel=0.25)
    assert not resolved_above(0.61, 0.6, 0.01)
    assert resolved_above(0.63, 0.6, 0.01)


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        ([], None),
        (["not judged"], "not judged"),
        (["agrees", "agrees"], "agrees"),
        (["agrees", "not judged"], "agrees in part"),
        (["agrees", "differs"], "differs in part"),
        (["differs", "not judged"], "differs"),
    ],
)
def test_verdicts_together(verdicts: list[str], together: str | None) -> None:
    assert overall(verdicts) == together
