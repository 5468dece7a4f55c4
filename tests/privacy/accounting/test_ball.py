"""Discrete Gaussian noise in a ball, compared with sums over the whole lattice, independent of the proof."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import BallSum, GaussianEvent, gaussian_noise_ratio, least_ball_scale

FloatArray = NDArray[np.float64]


def share_masses(scale: float, shares: int) -> FloatArray:
    """The probabilities of the sum of `shares` discrete Gaussians on −reach … reach."""
    reach = math.ceil(12 * scale)
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    one /= one.sum()
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)
    return total


def brute_force_delta(epsilon: float, scale: float, shares: int, shift: tuple[int, ...]) -> float:
    """Σ over the lattice of (P(z) − e^ε·P(z − shift))₊."""
    masses = share_masses(scale, shares)
    padding = max(map(abs, shift))
    here, there = np.ones(1), np.ones(1)
    for by in shift:
        one = np.pad(masses, padding)
        here = np.multiply.outer(here, one).ravel()
        there = np.multiply.outer(there, np.roll(one, by)).ravel()
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize(("scale", "shares"), [(5.0, 1), (3.0, 3)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_shift_within_the_distance_has_a_larger_delta(scale: float, shares: int, epsilon: float) -> None:
    distance = 6.0
    event = BallSum(scale=scale, shares=shares, coordinates=2, distance=distance)
    shifts = [s for s in product(range(7), repeat=2) if 0 < math.hypot(*s) <= distance]
    worst = max(brute_force_delta(epsilon, scale, shares, shift) for shift in shifts)
    lower, upper = event.delta_bounds(epsilon)
    assert worst <= upper
    assert lower <= worst * (1 + 1e-9)
    # Only the part of this small variance that pays for rounding is lost.
    smoothed = math.sqrt(1 - 4 / (shares * scale**2))
    assert upper <= GaussianEvent(noise_ratio=smoothed * math.sqrt(shares) * scale / distance).delta(
        epsilon
    ) * (1 + 1e-9)


def test_a_shift_beyond_the_distance_is_not_covered() -> None:
    event = BallSum(scale=8.0, shares=1, coordinates=2, distance=6.0)
    assert brute_force_delta(1.0, 8.0, 1, (6, 6)) > event.delta(1.0)


def test_three_coordinates() -> None:
    event = BallSum(scale=3.0, shares=1, coordinates=3, distance=math.sqrt(14))
    assert brute_force_delta(1.0, 3.0, 1, (1, 2, 3)) <= event.delta(1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1, 1e-6), (10, 0.1)])
@pytest.mark.parametrize("shares", [1, 50, 10_000])
def test_the_least_scale_is_that_of_the_continuous_law(epsilon: float, delta: float, shares: int) -> None:
    distance = 5000.0
    scale = least_ball_scale(epsilon, delta, 40, distance, shares)
    event = BallSum(scale=scale, shares=shares, coordinates=40, distance=distance)
    assert event.delta(epsilon) <= delta
    assert event.epsilon(delta) <= epsilon
    exact = gaussian_noise_ratio(epsilon, delta) * distance
    assert 1 <= scale * math.sqrt(shares) / exact <= 1 + 1e-4


def test_composition_and_groups() -> None:
    event = BallSum(scale=900.0, shares=4, coordinates=5, distance=300.0)
    twice = event.repeated(2)
    assert twice.delta(1.0) == pytest.approx(
        GaussianEvent(noise_ratio=event.noise_ratio).repeated(2).delta(1.0)
    )
    assert event.group(3).noise_ratio == pytest.approx(event.noise_ratio / 3)
    assert event.repeated(1) == event
    assert event.epsilon(0) == math.inf
    assert event.delta(event.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-6)


def test_shares_too_small_for_the_lattice_are_refused() -> None:
    with pytest.raises(InvalidValue, match="scale"):
        BallSum(scale=0.5, shares=4, coordinates=1, distance=1.0)
    with pytest.raises(InvalidValue, match="finer grid"):
        least_ball_scale(1.0, 1e-6, 10, 100.0, shares=10**7)
    # A coarse grid that is accepted has its cost counted.
    assert BallSum(scale=0.8, shares=1000, coordinates=1, distance=1.0).delta(1.0) == 1.0


def test_at_epsilon_zero_the_bound_is_the_total_variation() -> None:
    event = BallSum(scale=30.0, shares=1, coordinates=1, distance=25.0, reachable=25)
    truth = brute_force_delta(0.0, 30.0, 1, (25,))
    lower, upper = event.delta_bounds(0.0)
    assert lower <= truth * (1 + 1e-9)
    assert truth <= upper <= 1.01 * truth
    # With narrow shares ε − 2h is far below zero, so the bound is weak.
    uneven = BallSum(scale=1.0, shares=40, coordinates=1, distance=25.0)
    assert uneven.slack > 1e-3
    assert brute_force_delta(0.0, 1.0, 40, (25,)) < uneven.delta(0.0) < 1


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_lower_bounds_are_reached_by_clients(epsilon: float) -> None:
    """Two releases, or two clients, that each differ along one axis, summed over the whole lattice."""
    levels, scale = 4, 5.0
    event = BallSum(scale=scale, shares=1, coordinates=1, distance=levels + 2.0, reachable=levels)
    for several, shift in (
        (event, (levels,)),
        (event.repeated(2), (levels, levels)),
        (event.group(2), (2 * levels,)),
        (event.group(2).repeated(2), (2 * levels, 2 * levels)),
    ):
        lower, upper = several.delta_bounds(epsilon)
        truth = brute_force_delta(epsilon, scale, 1, shift)
        assert lower <= truth * (1 + 1e-9)
        assert truth <= upper
        assert lower == pytest.approx(truth, rel=1e-3)


def test_what_is_reachable_by_default_is_never_too_much() -> None:
    event = BallSum(scale=5.0, shares=1, coordinates=4, distance=16 + 2 * math.sqrt(4))
    assert event.along_one_axis == 16
    assert event.repeated(4).along_one_axis == 16
    assert event.group(3).along_one_axis == 48
    assert event.repeated(2).group(3) == event.group(3).repeated(2)
    assert BallSum(scale=5.0, shares=1, coordinates=4, distance=2.0).delta_bounds(0.1)[0] == 0
    with pytest.raises(InvalidValue, match="reachable"):
        BallSum(scale=5.0, shares=1, coordinates=4, distance=2.0, reachable=3)
