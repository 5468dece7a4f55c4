from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dpbandits._arrays import FloatArray
from dpbandits.actions import Actions
from dpbandits.protocol._best_guess import ErrorDraws, best_guess
from dpbandits.protocol._near_ties import drawn_parameters

# Standard errors that a mean may be off: the false-alarm rate of each comparison is below 10⁻⁶.
SIGMAS = 5


def _problem(noise: float) -> tuple[FloatArray, FloatArray]:
    """Gaps of 40 actions in R⁴, and the errors of their estimates, which are correlated."""
    rows = Actions.generate("sphere", count=40, dimension=4, rng=3).matrix
    rewards = rows @ np.array([0.5, 0.5, 0.5, 0.5])
    return rewards.max() - rewards, noise * rows @ np.diag([1.0, 0.5, 2.0, 1.0])


def _brute_force(gaps: FloatArray, errors: FloatArray) -> tuple[float, float, float, float]:
    """Mean gap and chance to be right by drawing all errors, each with its standard error."""
    normals = np.random.default_rng(1).standard_normal((200_000, errors.shape[1]))
    found = gaps[np.argmax(normals @ errors.T - gaps, axis=1)]
    right = found == 0
    root = len(found) ** 0.5
    return float(found.mean()), float(found.std()) / root, float(right.mean()), float(right.std()) / root


@pytest.mark.parametrize("noise", [0.06, 0.1, 0.5, 5.0])
def test_the_expected_gap_of_the_best_guess_is_unbiased(noise: float) -> None:
    gaps, errors = _problem(noise)
    rng = np.random.default_rng(2)
    guesses = [best_guess(gaps, errors, ErrorDraws.drawn(rng, 16, 4)) for _ in range(1500)]
    gap, gap_error, right, right_error = _brute_force(gaps, errors)
    for values, expected, error in (
        ([guess.expected_gap for guess in guesses], gap, gap_error),
        ([guess.right for guess in guesses], right, right_error),
    ):
        own = np.std(values) / len(values) ** 0.5
        assert abs(np.mean(values) - expected) < SIGMAS * np.hypot(own, error)


def test_the_sum_over_all_actions_would_be_rejected_where_noise_dominates() -> None:
    gaps, errors = _problem(0.5)
    away = np.linalg.norm(errors - errors[np.argmin(gaps)], axis=1)
    worse = gaps > 0
    counted_twice = float(gaps[worse] @ ndtr(-gaps[worse] / away[worse]))
    gap, gap_error, _, _ = _brute_force(gaps, errors)
    assert counted_twice > gap + 100 * gap_error


def test_a_guess_without_errors_is_right() -> None:
    gaps, errors = _problem(1e-6)
    guess = best_guess(gaps, errors, ErrorDraws.drawn(np.random.default_rng(0), 16, 4))
    assert (guess.right, guess.expected_gap) == (1.0, 0.0)
    tied = best_guess(np.zeros(3), np.eye(3), ErrorDraws.drawn(np.random.default_rng(0), 16, 3))
    assert tied.right == 1.0  # every action is the best


@pytest.mark.parametrize(("count", "dimension"), [(60, 4), (2, 2), (6, 20), (2, 1)])
def test_weighted_draws_have_the_statistics_of_uniform_ones(count: int, dimension: int) -> None:
    actions = Actions.generate("sphere", count=count, dimension=dimension, rng=0)
    drawn = drawn_parameters(actions, 3000, 5)
    uniform = np.random.default_rng(1).standard_normal((100_000, dimension))
    uniform /= np.linalg.norm(uniform, axis=1, keepdims=True)
    assert np.linalg.norm(drawn.thetas, axis=1) == pytest.approx(1)
    assert drawn.weights.max() <= 2
    for limit in (0.003, 0.03, 0.3, 3.0):
        few, many = (_margins(actions, thetas) < limit for thetas in (drawn.thetas, uniform))
        terms = drawn.weights * few
        error = np.hypot(np.std(terms) / len(few) ** 0.5, np.std(many) / len(many) ** 0.5)
        assert abs(terms.mean() - many.mean()) <= SIGMAS * error + 1e-12
        if limit == 0.003 and dimension > 1:  # without weights the test would fail
            assert few.mean() > many.mean() + SIGMAS * error


def _margins(actions: Actions, thetas: FloatArray) -> FloatArray:
    """By how much the best action is better than the second best."""
    rewards = np.sort(thetas @ actions.matrix.T, axis=1)
    return np.asarray(rewards[:, -1] - rewards[:, -2], dtype=np.float64)


def test_more_draws_keep_the_first_ones() -> None:
    actions = Actions.generate("sphere", count=30, dimension=3, rng=0)
    few, many = drawn_parameters(actions, 5, 1), drawn_parameters(actions, 9, 1)
    assert (many.thetas[:5] == few.thetas).all()
    assert (many.weights[:5] == few.weights).all()


def test_actions_on_a_line_have_draws_without_weights() -> None:
    line = Actions(np.outer([0.1, 0.5, 0.9], [0.6, 0.8]))
    assert (drawn_parameters(line, 6, 0).weights == 1).all()
