"""The K-norm noise of the ball: its exact sampler, its radii and where it is chosen.

Samples are drawn with a fixed key, so that the tests have no false alarms beyond the choice of that key.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import integrate, stats

from dpbandits.privacy import KeyedNoise, PrivacyRequest, calibrate, tails
from dpbandits.privacy._calibration import least_noise
from dpbandits.privacy.noise import BallNormLaw
from dpbandits.privacy.noise._ball_norm_point import Uniforms, exact_ball_point

from .laws import matches, noise_source

SMALL = 1e-6  # the level of the tests of fit


def keyed(context: str) -> KeyedNoise:
    return KeyedNoise(bytes(32), [context.encode()])


@pytest.mark.parametrize("source", ["keyed", "simulated"])
def test_lengths_are_gamma_and_directions_are_uniform(source: str) -> None:
    s, scale, rows = 6, 1e5, 1_000
    points = (keyed("fit") if source == "keyed" else noise_source(source)).ball_norm(scale, (rows, s))
    assert points.dtype == np.int64
    lengths = np.linalg.norm(points, axis=1)
    assert stats.kstest(lengths / scale, stats.gamma(s).cdf).pvalue > SMALL
    for factor in (0.9, 1.1):
        assert stats.kstest(lengths / (factor * scale), stats.gamma(s).cdf).pvalue < SMALL
    squares = (points / lengths[:, None]) ** 2
    signs = np.sign(points)
    for column in range(s):
        assert stats.kstest(squares[:, column], stats.beta(0.5, (s - 1) / 2).cdf).pvalue > SMALL
        assert stats.binomtest(int((signs[:, column] > 0).sum()), rows).pvalue > SMALL
        product = int((signs[:, column] * signs[:, column - 1] > 0).sum())
        assert stats.binomtest(product, rows).pvalue > SMALL
    cube = noise_source("simulated").box_norm(scale, (rows, s))  # another direction is noticed
    other = cube[:, 0] ** 2 / (cube.astype(float) ** 2).sum(axis=1)
    assert stats.kstest(other, stats.beta(0.5, (s - 1) / 2).cdf).pvalue < SMALL


def _cells(scale: float, reach: int) -> np.ndarray:
    """P(z) for |z_j| ≤ reach in the plane: the density, integrated with the chance of rounding to z."""
    step = 0.02
    line = np.arange(-reach - 1 + step / 2, reach + 1, step)
    density = np.exp(-np.hypot(line[:, None], line) / scale) / (2 * np.pi * scale**2)
    kernel = np.clip(1 - np.abs(line - np.arange(-reach, reach + 1)[:, None]), 0, None) * step
    return np.asarray(kernel @ density @ kernel.T)


@pytest.mark.parametrize("source", ["keyed", "simulated"])
def test_rounded_points_have_their_joint_law(source: str) -> None:
    scale, reach, rows = 0.8, 2, 2_500
    points = (keyed("cells") if source == "keyed" else noise_source(source)).ball_norm(scale, (rows, 2))
    near = points[np.abs(points).max(axis=1) <= reach] + reach
    seen = np.bincount(near @ np.array([2 * reach + 1, 1]), minlength=(2 * reach + 1) ** 2)
    for factor in (0.8, 1.0, 1.2):
        due = rows * _cells(factor * scale, reach).ravel()
        counts, expected = np.append(seen, rows - seen.sum()), np.append(due, rows - due.sum())
        assert matches(counts, expected) == (factor == 1)


class Fixed(Uniforms):
    """Uniform numbers whose digits do not depend on when they are asked for."""

    def __init__(self, seed: int) -> None:
        self.seed, self.most = seed, 0

    def first(self, place: int, bits: int) -> int:
        self.most = max(self.most, bits)
        digits = hashlib.shake_256(f"{self.seed} {place}".encode()).digest(bits // 8 + 1)
        return int.from_bytes(digits) >> 8 * len(digits) - bits


def test_a_point_does_not_depend_on_the_precision_of_the_first_try() -> None:
    again = 0
    for seed in range(60):
        exact = exact_ball_point(20.0, 3, Fixed(seed), digits=60)
        rough = Fixed(seed)
        assert exact_ball_point(20.0, 3, rough, digits=3) == exact
        again += rough.most > 13
    assert again > 20  # three digits often do not decide


def test_digits_of_a_uniform_number_are_drawn_once() -> None:
    asked = list[int]()

    def bits(count: int) -> int:
        asked.append(count)
        return (1 << count) - 1 if len(asked) == 1 else 0

    numbers = Uniforms(bits)
    assert numbers.first(0, 4) == 15
    assert numbers.first(0, 6) == 60
    assert numbers.first(0, 3) == 7
    assert asked == [4, 2]


@pytest.mark.parametrize("s", [2, 12])
@pytest.mark.parametrize("confidence", [0.01, 1e-9])
@pytest.mark.parametrize("deviation", [1e-3, 50.0])
def test_radii_are_exceeded_rarely(s: int, confidence: float, deviation: float) -> None:
    law, length = BallNormLaw(scale=5.0), 0.7

    def exceeded(radius: float) -> float:
        def given(square: float) -> float:
            spread = np.sqrt(deviation**2 + length**2 * law.scale**2 * square)
            return float(stats.chi2.pdf(square, s + 1) * stats.norm.sf(radius / spread))

        return float(integrate.quad(given, 0, 600, limit=400, epsabs=1e-14)[0])

    row = np.full((1, s), length / s**0.5)
    radius = float(law.radius(row, np.array([deviation**2]), confidence, 1)[0])
    assert exceeded(radius) <= confidence < exceeded(0.65 * radius)


def test_factors_bound_all_radii() -> None:
    law, rng, s, confidence = BallNormLaw(scale=50.0), np.random.default_rng(0), 6, 1e-7
    rows, other = rng.standard_normal((200, s)), rng.uniform(0, 1e5, 200)
    own = law.variance(s) * (rows**2).sum(axis=1)
    deviations = np.sqrt(own + other)
    shares = own / deviations**2
    spread = tails.Spread(least=float(shares.min()), most=float(shares.max()), largest=1.0)
    low, high = law.factors(spread, confidence, 1, s)
    found = law.radius(rows, other, confidence, 1) / deviations
    assert 0.9 * found.min() < low <= found.min()
    assert found.max() <= high < 1.1 * found.max()


def test_where_it_has_the_least_error() -> None:
    request = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
    chosen = [
        least_noise(request, coordinates=numbers, clients=5000, shape="ball") for numbers in (2, 5, 12, 60)
    ]
    assert chosen == ["ball-norm", "ball-norm", "discrete-gaussian", "discrete-gaussian"]
    pure = PrivacyRequest(trust="central", epsilon=1, delta=0)
    made = calibrate(pure, coordinates=60, cohort=100, bound=1.0, shape="ball")
    assert made.noise_name == "ball-norm"
    assert 0.999 < made.event.pure_epsilon <= 1
    assert calibrate(pure, coordinates=2, cohort=100, bound=1.0).noise_name == "k-norm"  # in a box
