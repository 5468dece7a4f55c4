"""The random draws of a prediction: unbiased, reproducible, and with the tails of the noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from dpbandits._arrays import FloatArray
from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, calibrate, noise_tails, typical_deviation
from dpbandits.protocol._best_guess import ErrorDraws, best_guess
from dpbandits.protocol._heavy_tails import drawn_scales
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


def test_every_draw_may_have_errors_of_its_own() -> None:
    gaps, errors = _problem(0.5)
    draws = ErrorDraws.drawn(np.random.default_rng(0), 16, 4)
    scales = np.r_[np.full(8, 1.0), np.full(7, 3.0), 0.0]
    mixed = best_guess(gaps, errors * scales[:, None, None], draws)
    for scale in (1.0, 3.0):
        alone, own = best_guess(gaps, errors * scale, draws), scales == scale
        assert mixed.gaps[own].tolist() == alone.gaps[own].tolist()
        assert mixed.chances[own] == pytest.approx(alone.chances[own], rel=1e-12)
    assert mixed.chances[-1] == 0  # without errors the guess is right


@pytest.mark.parametrize("together", [2, 4])
@pytest.mark.parametrize(("count", "dimension"), [(60, 4), (2, 2), (6, 20), (2, 1)])
def test_weighted_draws_have_the_statistics_of_uniform_ones(
    count: int, dimension: int, together: int
) -> None:
    actions = Actions.generate("sphere", count=count, dimension=dimension, rng=0)
    drawn = drawn_parameters(actions, 1500 * together, 5, together=together)
    uniform = np.random.default_rng(1).standard_normal((100_000, dimension))
    uniform /= np.linalg.norm(uniform, axis=1, keepdims=True)
    assert np.linalg.norm(drawn.thetas, axis=1) == pytest.approx(1)
    assert drawn.weights.max() <= together
    for limit in (0.003, 0.03, 0.3, 3.0):
        few, many = (_margins(actions, thetas) < limit for thetas in (drawn.thetas, uniform))
        terms = (drawn.weights * few).reshape(-1, together).mean(axis=1)  # groups are independent
        error = np.hypot(np.std(terms) / len(terms) ** 0.5, np.std(many) / len(many) ** 0.5)
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


def test_draws_of_a_group_have_one_tie_at_different_distances() -> None:
    actions = Actions.generate("sphere", count=30, dimension=3, rng=0)
    margins = _margins(actions, drawn_parameters(actions, 400, 1, together=4).thetas).reshape(-1, 4)[:, 1:]
    farther = margins[:, 1:] / margins[:, :-1]
    assert np.median(farther) == pytest.approx(1e4 ** (1 / 3), rel=0.2)  # three intervals of 3·10⁻⁵ to .3


def test_a_guess_that_is_almost_never_wrong_is_right() -> None:
    gaps, errors = np.array([0.0, 1.0]), np.array([[0.0], [1 / 38.4]])  # the expected gap is about 10⁻³²³
    draws = ErrorDraws.drawn(np.random.default_rng(0), 16, 1)
    assert best_guess(gaps, errors, draws).expected_gap == 0


def test_actions_on_a_line_have_draws_without_weights() -> None:
    line = Actions(np.outer([0.1, 0.5, 0.9], [0.6, 0.8]))
    assert (drawn_parameters(line, 6, 0).weights == 1).all()


@pytest.mark.parametrize("coordinates", [1, 3, 20])
def test_scaled_normal_noise_has_the_tails_of_laplace_noise(coordinates: int) -> None:
    drawn = drawn_scales("each", coordinates, 100_000, np.random.default_rng(3))
    assert drawn.weights.max() <= 2
    for limit in (0.5, 2.0, 4.0, 6.0):
        terms = drawn.weights * 2 * ndtr(-limit / np.sqrt(drawn.variances[:, 0]))
        error = terms.std() / len(terms) ** 0.5
        assert abs(terms.mean() - np.exp(-(2**0.5) * limit)) < SIGMAS * error
        if limit == 4.0:  # the test distinguishes it from normal noise of the same variance
            assert terms.mean() > 40 * ndtr(-limit) + SIGMAS * error


@pytest.mark.parametrize("tails", ["common", "ball"])
@pytest.mark.parametrize("coordinates", [2, 5, 20])
def test_a_common_scale_has_the_moments_of_k_norm_noise(coordinates: int, tails: str) -> None:
    drawn = drawn_scales(tails, coordinates, 100_000, np.random.default_rng(4))
    rng = np.random.default_rng(5)
    squares = rng.chisquare(coordinates + 1, size=100_000) / (coordinates + 1)
    if tails == "common":
        radii = rng.gamma(coordinates + 1, size=100_000)
        squares = radii**2 / ((coordinates + 1) * (coordinates + 2))
    for power in (1, 2, 3):
        terms, exact = drawn.weights * drawn.variances[:, 0] ** power, squares**power
        error = np.hypot(terms.std(), exact.std()) / len(terms) ** 0.5
        assert abs(terms.mean() - exact.mean()) < SIGMAS * error
    least = 1.3 if tails == "common" else 1.2
    assert np.mean(drawn.variances[:, 0]) > least  # without the weights the variance is too large


@pytest.mark.parametrize("confidence", [1e-3, 1e-9])
def test_a_prediction_has_the_noise_of_the_plan(confidence: float) -> None:
    """At 10⁻³ Laplace noise has the least radius, at 10⁻⁹ Gaussian noise, which has a larger deviation."""
    request = PrivacyRequest(trust="shuffle", epsilon=1.0, delta=1e-6)
    asked: dict[str, Any] = {"coordinates": 3, "shape": "box", "confidence": confidence}
    mechanism = calibrate(request, cohort=500, bound=1.0, **asked)
    typical = typical_deviation(request, clients=500, bound=1.0, **asked)
    assert typical == pytest.approx(mechanism.error_deviation(500), rel=0.15)
    tails = {"polya": "each", "discrete-gaussian": "normal"}
    assert noise_tails(request, clients=500, **asked) == tails[mechanism.noise_name]
