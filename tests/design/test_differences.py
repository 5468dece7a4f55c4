"""Designs for differences: near the optimum where that is known, and they span what they must estimate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpbandits.design import DifferenceDesign, for_differences, near_g_optimal


def _largest(rows: np.ndarray, support: np.ndarray, weights: np.ndarray, options: np.ndarray) -> float:
    """Return the largest v'V⁺v over differences of options, computed from scratch."""
    inverse = np.linalg.pinv((rows[support].T * weights) @ rows[support])
    pairs = itertools.combinations(options, 2)
    return max(float((rows[a] - rows[b]) @ inverse @ (rows[a] - rows[b])) for a, b in pairs)


def _checked(rows: np.ndarray, options: np.ndarray) -> DifferenceDesign:
    found = for_differences(rows, options)
    assert found.weights.sum() == pytest.approx(1)
    assert (found.weights > 0).all()
    assert found.largest == pytest.approx(_largest(rows, found.support, found.weights, options), rel=1e-4)
    own = rows[found.support]
    assert found.rank == np.linalg.matrix_rank(own)
    solved = np.linalg.lstsq(own.T, rows[options].T, rcond=None)[0]  # the options are in the span
    np.testing.assert_allclose(own.T @ solved, rows[options].T, atol=1e-8)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_one_difference_of_short_options_has_the_optimum_of_elfving(seed: int) -> None:
    """With unit vectors to play and short options, the smallest v'V⁻¹v is (Σ|v_i|)² (Elfving 1952)."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([np.eye(5), 0.05 * rng.uniform(-1, 1, (2, 5))])
    found = _checked(rows, np.array([5, 6]))
    optimum = np.abs(rows[5] - rows[6]).sum() ** 2
    assert optimum * (1 - 1e-6) <= found.largest <= 1.35 * optimum
    assert found.efficiency > 0.9


def test_nearly_equal_options_are_measured_through_another_action() -> None:
    """Soare's example: the second unit vector tells the first from a direction at a small angle to it."""
    angle = 0.1
    rows = np.vstack([np.eye(4), [np.cos(angle), np.sin(angle), 0, 0]])
    options = np.array([0, 4])
    found, usual = _checked(rows, options), near_g_optimal(rows[options])
    assert 1 in found.support
    assert found.largest < _largest(rows, options[usual.support], usual.weights, options) / 100
    assert 2 not in found.support  # two unit vectors tell nothing about the difference
    assert 3 not in found.support


def test_many_options_of_low_rank() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 6)) / 10
    found = _checked(rows, np.arange(12))
    assert found.rank == 3
    assert found.efficiency > 0.9
    assert len(found.support) <= 20
