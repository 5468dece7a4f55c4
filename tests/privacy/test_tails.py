"""Radii compared with brute force: sums over all outcomes of a small distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import nbinom, norm

from dpbandits.privacy import tails
from dpbandits.privacy.noise import BoxNormLaw
from dpbandits.privacy.noise._box_norm_law import _negative_binomial_quantiles
from dpbandits.privacy.noise._max_norm_radius import radius_exceeded
from dpbandits.privacy.tails import _box_norm_sums as cubes


def exceeded(law: BoxNormLaw, coefficients: np.ndarray, deviation: float, radius: float) -> float:
    """P(⟨a, z⟩ + G > radius) for z in two dimensions with P(z) ∝ exp(−‖z‖∞/scale), G normal."""
    reach = int(60 * law.scale)
    line = np.arange(-reach, reach + 1)
    first, second = np.meshgrid(line, line, indexing="ij")
    chances = np.exp(-np.maximum(np.abs(first), np.abs(second)) / law.scale)
    chances /= chances.sum()
    error = coefficients[0] * first + coefficients[1] * second
    return float((chances * norm.sf((radius - error) / deviation)).sum())


@pytest.mark.parametrize("confidence", [0.05, 1e-3, 1e-9])
@pytest.mark.parametrize("deviation", [0.5, 5.0, 50.0])
def test_few_coordinates_have_a_shorter_radius_that_is_still_exceeded_rarely(
    confidence: float, deviation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = BoxNormLaw(scale=5.0)
    for coefficients in (np.array([1.0, 0.0]), np.array([0.7, -0.7]), np.array([0.9, 0.2])):
        given = (coefficients[None], np.array([deviation**2]), confidence, 1)
        short = float(law.radius(*given)[0])
        monkeypatch.setattr(tails, "FEW_COORDINATES", 0)
        usual = float(law.radius(*given)[0])
        monkeypatch.undo()
        assert short <= usual
        assert exceeded(law, coefficients, deviation, short) <= confidence
        # Half of it is too short; with little other noise, it is much shorter than the usual radius.
        assert exceeded(law, coefficients, deviation, short / 2) > confidence
        assert deviation > 1 or short < 0.9 * usual


@pytest.mark.parametrize("scale", [2.0**-10, 0.3, 5.0, 3e3, 1e5])
@pytest.mark.parametrize("coordinates", [1, 7, 60, 2048])
def test_the_max_norm_radius_has_the_tail_of_a_negative_binomial(scale: float, coordinates: int) -> None:
    law = nbinom(coordinates + 1, -math.expm1(-1 / scale))
    for tail in (0.5, 1e-3, 1e-12):
        largest = coordinates + int(law.isf(tail))
        expected = float(law.sf(largest - coordinates))
        assert radius_exceeded(scale, coordinates, largest) == pytest.approx(expected, rel=1e-9)
    assert radius_exceeded(scale, coordinates, coordinates - 1) == 1


@pytest.mark.parametrize("stop", [0.9, 0.1, 1e-4, 1e-7])
@pytest.mark.parametrize("successes", [2, 21, 201])
def test_quantiles_of_the_negative_binomial_are_exact(successes: int, stop: float) -> None:
    chances = np.concatenate([np.linspace(0.99, 0.05, 20), np.geomspace(0.04, 1e-15, 30)])
    found = _negative_binomial_quantiles(chances, successes, stop)
    np.testing.assert_array_equal(found, nbinom.isf(chances, successes, stop))


def direct_cumulant(scale: float, argument: np.ndarray) -> float:
    """log E exp(⟨u, z⟩) by a sum over all radii of the cube."""
    radii = np.arange(int(700 * scale))
    sides = 2 * radii[:, None] + 1
    uniform = np.sinh(sides * argument / 2) / (sides * np.sinh(argument / 2))
    chances = np.exp(-radii / scale) * sides[:, 0] ** len(argument)
    return math.log(float(chances @ uniform.prod(axis=1)) / float(chances.sum()))


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
@pytest.mark.parametrize("scale", [0.7, 5.0])
def test_the_cumulant_of_k_norm_noise_is_exact(scale: float, share: float) -> None:
    for row in ([1.0, 1.0, 1.0], [1.0, 0.3, 1e-3, 0.2]):
        argument, law = np.array(row), BoxNormLaw(scale=scale)._cubes(len(row))
        argument *= share * law.stop / argument.sum()
        powers = cubes._even_moments(argument[None] / argument.sum())
        found = float(cubes._cumulant(powers, np.array([share**2]), law)[0])
        assert found == pytest.approx(direct_cumulant(scale, argument), rel=1e-6)
        # That of z + V differs, and is told from it.
        more = float(cubes._cumulant(powers, np.array([share**2]), law, whole=False)[0])
        assert found < (1 - 1e-5) * more


@pytest.mark.parametrize("rows", [2, 30])
@pytest.mark.parametrize("confidence", [0.01, 1e-9])
def test_sums_of_k_norm_noise_exceed_their_radius_rarely(rows: int, confidence: float) -> None:
    law = BoxNormLaw(scale=2.0)
    line = np.arange(-120, 121)
    chances = np.exp(-np.maximum(np.abs(line[:, None]), np.abs(line)) / law.scale)
    # Projections on (1, 2): the sums over lines z₁ + 2z₂ = w.
    one = np.bincount((line[:, None] + 2 * line + 360).ravel(), weights=chances.ravel()) / chances.sum()
    total = np.ones(1)
    for _ in range(rows):
        total = np.convolve(total, one)
    tail = np.cumsum(total[::-1])[::-1]  # P(sum ≥ w), from the lowest w on

    def exceeded(radius: float) -> float:
        return float(tail[math.floor(radius) + 1 + 360 * rows])

    found = float(law.radius(np.array([[1.0, 2.0]]), np.zeros(1), confidence, rows)[0])
    assert exceeded(found) <= confidence < exceeded(0.6 * found)


def test_factors_bound_the_radius_of_a_sum_of_k_norm_noise() -> None:
    law, rng, rows, confidence = BoxNormLaw(scale=50.0), np.random.default_rng(0), 200, 1e-7
    coefficients, other = rng.standard_normal((300, 6)), rng.uniform(0, 5e5, 300)
    coefficients[0], coefficients[1], other[:2] = 1.0, [1, 0, 0, 0, 0, 0], 0.0
    own = rows * law.variance(6) * (coefficients**2).sum(axis=1)
    deviations = np.sqrt(own + other)
    shares = own / deviations**2
    largest = float((np.abs(coefficients).max(axis=1) / deviations).max())
    spread = tails.Spread(least=float(shares.min()), most=float(shares.max()), largest=largest)
    low, high = law.factors(spread, confidence, rows, 6)
    found = law.radius(coefficients, other, confidence, rows) / deviations
    assert low <= found.min()
    assert found.max() <= high < 1.05 * found.max()
