"""Clipping around an estimate: the radius, and the bound on what clipping cuts off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.protocol._clipping import MARGIN, clip_radius, mean_excess, residual_deviations


def test_the_radius_leaves_a_margin_for_every_action() -> None:
    widths, deviations = np.array([0.1, 0.3]), np.array([0.5, 0.2])
    radius = clip_radius(widths, deviations)
    assert radius == pytest.approx(0.1 + MARGIN * 0.5)
    assert ((radius - widths) / deviations >= MARGIN - 1e-12).all()


def test_the_deviation_of_a_clients_average() -> None:
    rows = np.array([[0.6, 0.8], [0.3, 0.4]])
    found = residual_deviations(rows, np.array([4.0, 25.0]), 0.2)
    np.testing.assert_allclose(found, [np.sqrt(0.04 + 0.25), np.sqrt(0.04 * 0.25 + 0.04)])


@pytest.mark.parametrize("confidence", [0.05, 0.01])
@pytest.mark.parametrize(("clients", "margin"), [(50, 2.0), (400, 2.5), (400, 3.5)])
def test_the_mean_excess_is_rarely_larger(clients: int, margin: float, confidence: float) -> None:
    """Gaussian residuals with the largest allowed mean and variance, on both sides. False-alarm rate 10⁻⁶."""
    rng, width, deviation, trials = np.random.default_rng(3), 0.2, 0.7, 3000
    radius = width + margin * deviation
    residuals = width + deviation * rng.standard_normal((trials, clients))
    excess = np.maximum(np.abs(residuals) - radius, 0).mean(axis=1)
    bound = mean_excess(radius, np.array([width]), np.array([deviation]), clients, confidence)[0]
    assert (excess > bound).sum() <= binom.isf(1e-6, trials, confidence)
    if margin < 3:  # shows that the test can fail; with a larger margin too little is cut
        assert (excess > bound / 50).sum() > binom.isf(1e-6, trials, confidence)


def test_more_clients_or_a_wider_clip_lose_less() -> None:
    one = np.array([1.0])
    base = mean_excess(4.0, 0.1 * one, one, 100, 1e-6)
    assert mean_excess(4.0, 0.1 * one, one, 1000, 1e-6) < base
    assert mean_excess(5.0, 0.1 * one, one, 100, 1e-6) < base
