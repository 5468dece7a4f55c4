"""Log-weights compared with multiple precision, within their stated error, and the stated reach."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import Binomial, DiscreteGaussian, DiscreteLaplace, Skellam
from dpbandits.privacy.accounting._noise_pmf import LARGEST_SUPPORT, running_sum


def _binomial(law: Binomial, low: int, high: int) -> list[mpmath.mpf]:
    p, n = mpmath.mpf(law.chance), law.bits
    return [mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(low, high + 1)]


def _skellam(law: Skellam, low: int, high: int) -> list[mpmath.mpf]:
    """Ratios of Bessel functions by the backward recurrence, from far above, with many digits."""
    last, v = max(-low, high), mpmath.mpf(law.variance)
    ratio, ratios = mpmath.mpf(0), {}
    for k in range(last + 200 + math.ceil(60 / math.asinh((last + 1) / law.variance)), 0, -1):
        ratio = 1 / (2 * k / v + ratio)
        ratios[k] = ratio
    masses = [mpmath.mpf(1)]
    for k in range(1, last + 1):
        masses.append(masses[-1] * ratios[k])
    return [masses[abs(k)] for k in range(low, high + 1)]


def _gaussian(law: DiscreteGaussian, low: int, high: int) -> list[mpmath.mpf]:
    radius = math.ceil(30 * law.scale)
    one = [
        mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(law.scale) ** 2))
        for k in range(-radius, radius + 1)
    ]
    total = one
    for _ in range(law.shares - 1):
        longer = [mpmath.mpf(0)] * (len(total) + len(one) - 1)
        for i, a in enumerate(total):
            for j, b in enumerate(one):
                longer[i + j] += a * b
        total = longer
    middle = len(total) // 2
    return [total[middle + k] for k in range(low, high + 1)]


def _laplace(law: DiscreteLaplace, low: int, high: int) -> list[mpmath.mpf]:
    return [mpmath.exp(-abs(mpmath.mpf(k)) / mpmath.mpf(law.scale)) for k in range(low, high + 1)]


CASES = [
    (Binomial(bits=1), _binomial),
    (Binomial(bits=25), _binomial),
    (Binomial(bits=2000), _binomial),
    (Binomial(bits=30, chance=0.1), _binomial),
    (Binomial(bits=2000, chance=0.4957), _binomial),
    (Skellam(variance=0.01), _skellam),
    (Skellam(variance=7.0), _skellam),
    (Skellam(variance=3000.0), _skellam),
    (DiscreteGaussian(scale=0.4), _gaussian),
    (DiscreteGaussian(scale=13.0), _gaussian),
    (DiscreteGaussian(scale=0.7, shares=5), _gaussian),
    (DiscreteLaplace(scale=3.3), _laplace),
]


@pytest.mark.parametrize(("law", "precise"), CASES, ids=[str(law) for law, _ in CASES])
def test_log_weights_are_within_the_stated_error(law, precise):
    reach = math.ceil(law.reach(60.0))
    low, high = math.floor(law.centre) - reach, math.ceil(law.centre) + reach
    if isinstance(law, Binomial):
        low, high = max(low, 0), min(high, law.bits)
    weights = law.log_weights(low, high)
    with mpmath.workdps(60):
        masses = precise(law, low, high)
        peak = int(np.argmax(weights.values))
        for value, mass in zip(weights.values, masses, strict=True):
            truth = mpmath.log(mass / masses[peak])
            computed = mpmath.mpf(float(value)) - mpmath.mpf(float(weights.values[peak]))
            assert abs(computed - truth) <= 2 * weights.error + 1e-300
    assert weights.error < 1e-10
    assert weights.swapped < 1e-35


@pytest.mark.parametrize(("law", "precise"), CASES, ids=[str(law) for law, _ in CASES])
@pytest.mark.parametrize("log_tail", [1.0, 8.0, 25.0])
def test_no_more_mass_than_stated_lies_beyond_the_reach(law, precise, log_tail):
    reach, wide = law.reach(log_tail), math.ceil(law.reach(90.0))
    low, high = math.floor(law.centre) - wide, math.ceil(law.centre) + wide
    mass = np.exp(law.log_weights(low, high).values)
    outside = np.abs(np.arange(low, high + 1) - law.centre) >= reach
    assert mass[outside].sum() / mass.sum() <= 2 * math.exp(-log_tail)


@pytest.mark.parametrize(("law", "precise"), CASES, ids=[str(law) for law, _ in CASES])
def test_every_law_is_log_concave(law, precise):
    wide = math.ceil(law.reach(40.0))
    low, high = math.floor(law.centre) - wide, math.ceil(law.centre) + wide
    values = law.log_weights(low, high).values
    finite = values[np.isfinite(values)]
    assert (np.diff(finite, 2) <= 1e-11).all()


def test_impossible_outcomes_have_no_weight():
    values = Binomial(bits=3).log_weights(-2, 5).values
    assert np.isneginf(values).tolist() == [True, True, False, False, False, False, True, True]
    assert np.isneginf(Binomial(bits=3).log_weights(10, 12).values).all()


def test_running_sum_is_a_running_sum():
    for size in (0, 1, 2, 3, 4, 5, 99, 100, 101):
        steps = np.arange(1.0, size + 1)
        assert running_sum(steps)[0].tolist() == [k * (k + 1) / 2 for k in range(size + 1)]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Binomial(bits=0),
        lambda: Binomial(bits=2.5),
        lambda: Binomial(bits=5, chance=0.0),
        lambda: Binomial(bits=5, chance=1.0),
        lambda: Skellam(variance=0.0),
        lambda: Skellam(variance=math.inf),
        lambda: DiscreteGaussian(scale=-1.0),
        lambda: DiscreteGaussian(scale=1.0, shares=0),
        lambda: DiscreteLaplace(scale=math.nan),
    ],
)
def test_refuses_parameters_that_are_no_law(build):
    with pytest.raises(InvalidValue):
        build()


@pytest.mark.parametrize(
    "law",
    [
        Binomial(bits=1 << 49),
        Skellam(variance=1e14),
        DiscreteGaussian(scale=1e7),
        DiscreteLaplace(scale=1e7),
    ],
    ids=str,
)
def test_refuses_more_outcomes_than_can_be_listed(law):
    middle = round(law.centre)
    with pytest.raises(InvalidValue, match="fewer levels"):
        law.log_weights(middle, middle + LARGEST_SUPPORT)
