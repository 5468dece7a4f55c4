"""Radii compared with brute force: sums over all outcomes of a small distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dpbandits.privacy.noise import BoxNormLaw, _laws as laws


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
        monkeypatch.setattr(laws, "FEW_COORDINATES", 0)
        usual = float(law.radius(*given)[0])
        monkeypatch.undo()
        assert short <= usual
        assert exceeded(law, coefficients, deviation, short) <= confidence
        # Half of it is too short; with little other noise, it is much shorter than the usual radius.
        assert exceeded(law, coefficients, deviation, short / 2) > confidence
        assert deviation > 1 or short < 0.9 * usual
