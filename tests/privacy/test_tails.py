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
