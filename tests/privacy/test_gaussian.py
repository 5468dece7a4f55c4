from __future__ import annotations

import math

import pytest
from dp_accounting.gaussian_mechanism import get_sigma_gaussian
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting.gaussian import (
    classical_noise_ratio,
    gaussian_delta,
    gaussian_noise_ratio,
)

EPSILONS = st.floats(1e-3, 40)
DELTAS = st.floats(1e-12, 0.9)


@pytest.mark.parametrize(("delta", "true"), [(0.25, 0.789), (0.1, 0.406), (0.01, 0.041), (1e-5, 2.3e-5)])
def test_what_the_papers_formula_really_gives_at_epsilon_10(delta: float, true: float) -> None:
    assert gaussian_delta(10, classical_noise_ratio(10, delta)) == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0])
def test_delta_is_the_hockey_stick_divergence_by_integration(epsilon: float, ratio: float) -> None:
    def excess(x: float) -> float:
        return max(norm.pdf(x, 1, ratio) - math.exp(epsilon) * norm.pdf(x, 0, ratio), 0.0)

    # The densities cross at εr² + ½; beyond, the first is larger.
    crossing = epsilon * ratio**2 + 0.5
    integral, _ = quad(excess, crossing, 1 + 40 * ratio, points=[1.0] if crossing < 1 else None, epsabs=1e-14)
    assert gaussian_delta(epsilon, ratio) == pytest.approx(integral, rel=1e-6, abs=1e-13)


@given(EPSILONS, DELTAS)
def test_calibration_agrees_with_an_independent_library(epsilon: float, delta: float) -> None:
    ratio = gaussian_noise_ratio(epsilon, delta)
    assert ratio == pytest.approx(get_sigma_gaussian(epsilon, delta), rel=1e-6)
    assert gaussian_delta(epsilon, ratio) <= delta
    assert gaussian_delta(epsilon, 0.99 * ratio) > delta  # the least noise, not merely enough


@given(EPSILONS, st.floats(0.1, 30), st.floats(1.01, 3))
def test_delta_decreases_in_epsilon_and_in_noise(epsilon: float, ratio: float, factor: float) -> None:
    delta = gaussian_delta(epsilon, ratio)
    assert gaussian_delta(epsilon * factor, ratio) <= delta
    assert gaussian_delta(epsilon, ratio * factor) <= delta


def test_tiny_deltas_neither_vanish_nor_turn_negative() -> None:
    assert 0 < gaussian_delta(1, 20) < 1e-80
    assert gaussian_noise_ratio(1, 1e-200) > gaussian_noise_ratio(1, 1e-100)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0.1), (1, 0), (1, 1), (float("nan"), 0.1)])
def test_nothing_outside_the_theorem_is_accepted(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidValue):
        gaussian_noise_ratio(epsilon, delta)
