"""The analytic Gaussian against multiple precision, against dp-accounting, and the known failures."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import pytest
from dp_accounting import gaussian_mechanism

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import classical_noise_ratio, gaussian_noise_ratio
from dpbandits.privacy.accounting._gaussian import gaussian_delta

EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e3]
DELTAS = [0.9, 0.5, 0.25, 1e-2, 1e-6, 1e-12, 1e-50, 1e-300]


def precise_delta(epsilon: float, ratio: float) -> mpmath.mpf:
    with mpmath.workdps(700):
        e, r = mpmath.mpf(epsilon), mpmath.mpf(ratio)
        second = mpmath.exp(e) * mpmath.ncdf(-1 / (2 * r) - e * r)
        return mpmath.ncdf(1 / (2 * r) - e * r) - second


@pytest.mark.parametrize(("epsilon", "delta"), list(product(EPSILONS, DELTAS)))
def test_least_ratio_meets_delta_and_no_more(epsilon, delta):
    ratio = gaussian_noise_ratio(epsilon, delta)
    truth = precise_delta(epsilon, ratio)
    assert delta * (1 - 1e-8) <= truth <= delta
    assert gaussian_delta(epsilon, ratio) == pytest.approx(float(truth), rel=1e-11)


@pytest.mark.parametrize("ratio", [1e-3, 0.02, 0.3, 1.9, 2.1, 50.0, 1e4])
def test_zero_epsilon_is_total_variation(ratio):
    assert gaussian_delta(0.0, ratio) == pytest.approx(math.erf(1 / (2 * ratio) / math.sqrt(2)), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), list(product([0.1, 1.0, 10.0], [0.25, 1e-3, 1e-10])))
def test_agrees_with_dp_accounting(epsilon, delta):
    theirs = gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    assert gaussian_noise_ratio(epsilon, delta) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("delta", "truth"), [(0.25, 0.789), (0.1, 0.406), (0.01, 0.041)])
def test_classical_formula_is_not_private_at_epsilon_ten(delta, truth):
    assert gaussian_delta(10.0, classical_noise_ratio(10.0, delta)) == pytest.approx(truth, abs=5e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0.1), (math.nan, 0.1), (1, 0), (1, 1), (1, -0.1)])
def test_refuses_what_has_no_meaning(epsilon, delta):
    with pytest.raises(InvalidValue):
        gaussian_noise_ratio(epsilon, delta)
    with pytest.raises(InvalidValue):
        classical_noise_ratio(epsilon, delta)


def test_refuses_a_ratio_that_is_not_positive():
    with pytest.raises(InvalidValue):
        gaussian_delta(1.0, 0.0)
