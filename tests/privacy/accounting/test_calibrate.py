"""The least noise: it meets δ, less noise does not, and its variance is close to that of the Gaussian."""

from __future__ import annotations

import math
from itertools import product
from time import process_time

import pytest

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import (
    Binomial,
    DiscreteGaussian,
    DiscreteLaplace,
    IntegerSum,
    Skellam,
    choose_encoding,
    discrete_laplace_scale,
    least_discrete_gaussian_sigma,
    least_skellam_variance,
)
from dpbandits.privacy.accounting._calibrate import gaussian_variance, least_binomial_bits
from dpbandits.privacy.accounting._encoding import BitEncoding

TARGETS = [(10.0, 0.25), (3.0, 1e-3), (1.0, 1e-6), (0.1, 1e-8)]
COORDINATES = [1, 20, 60, 104]
REPORTS = [8, 64, 512, 4096, 12_000]


def assert_tight(noise, coordinates, shift, epsilon, delta):
    lower, upper = IntegerSum(noise=noise, coordinates=coordinates, shift=shift).delta_bounds(epsilon)
    assert upper <= delta
    assert lower <= upper <= 1.001 * lower


def assert_violates(noise, coordinates, shift, epsilon, delta):
    assert IntegerSum(noise=noise, coordinates=coordinates, shift=shift).delta_bounds(epsilon)[0] > delta


def error_ratio(encoding, epsilon, delta):
    """The deviation of the sum, whose roundings and bits have variance 1/4 each, relative to the Gaussian."""
    deviation = math.sqrt(encoding.reports * (encoding.bits + 1) / 4)
    return deviation / math.sqrt(gaussian_variance(epsilon, delta, encoding.coordinates, encoding.levels))


@pytest.mark.parametrize(("target", "coordinates", "reports"), list(product(TARGETS, COORDINATES, REPORTS)))
def test_encoding_costs_what_the_gaussian_costs(target, coordinates, reports):
    epsilon, delta = target
    start = process_time()
    encoding = choose_encoding(epsilon, delta, coordinates, reports)
    assert process_time() - start < 1
    lower, upper = encoding.release.delta_bounds(epsilon)
    assert upper <= delta
    assert upper <= 1.001 * lower
    assert math.sqrt(1 + 1 / encoding.bits) <= 1.05  # rounding adds at most 5 % to the noise
    assert error_ratio(encoding, epsilon, delta) <= 1.05


@pytest.mark.parametrize(("target", "coordinates"), list(product(TARGETS, COORDINATES)))
@pytest.mark.parametrize("reports", [8, 12_000])
def test_least_noise_is_tight_and_five_percent_less_is_too_little(target, coordinates, reports):
    epsilon, delta = target
    shift = choose_encoding(epsilon, delta, coordinates, reports).levels
    start = process_time()
    bits = least_binomial_bits(epsilon, delta, coordinates, shift)
    variance = least_skellam_variance(epsilon, delta, coordinates, shift)
    sigma = least_discrete_gaussian_sigma(epsilon, delta, coordinates, shift)
    assert process_time() - start < 3
    where = (coordinates, shift, epsilon, delta)
    assert_tight(Binomial(bits=bits), *where)
    assert_tight(Skellam(variance=variance), *where)
    assert_tight(DiscreteGaussian(scale=sigma), *where)
    assert_violates(Binomial(bits=math.floor(0.95 * bits)), *where)
    assert_violates(Skellam(variance=0.95 * variance), *where)
    assert_violates(DiscreteGaussian(scale=math.sqrt(0.95) * sigma), *where)
    assert_violates(Binomial(bits=min(bits - 1, math.floor(0.995 * bits))), *where)


@pytest.mark.parametrize(
    ("epsilon", "delta", "coordinates", "shift"), [(10.0, 0.25, 60, 1), (3.0, 0.01, 8, 1)]
)
def test_few_bits_are_the_fewest(epsilon, delta, coordinates, shift):
    bits = least_binomial_bits(epsilon, delta, coordinates, shift)
    where = (coordinates, shift, epsilon, delta)
    assert_tight(Binomial(bits=bits), *where)
    assert_violates(Binomial(bits=bits - 1), *where)


@pytest.mark.parametrize(
    ("coordinates", "delta", "needed"),
    [
        (100, 0.25, 24.4),
        (100, 0.01, 49.0),
        (60, 0.25, 14.66),
        (60, 0.01, 29.4),
    ],
)
def test_bits_needed_in_units_of_the_squared_shift(coordinates, delta, needed):
    """At ε = 10 and with many levels: 24 and 49 are for s = 100; the number needed is proportional to s."""
    bits = least_binomial_bits(10.0, delta, coordinates, 100) / 100**2
    assert bits == pytest.approx(needed, rel=3e-3)
    assert bits == pytest.approx(4 * gaussian_variance(10.0, delta, coordinates, 1), rel=0.01)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-6), (0.01, 0.25), (50.0, 1e-6), (50.0, 0.25), (25.0, 1e-12)]
)
@pytest.mark.parametrize(("coordinates", "reports"), [(1, 1), (1, 12_000), (60, 8), (300, 100_000)])
def test_encoding_for_very_small_and_very_large_epsilon(epsilon, delta, coordinates, reports):
    encoding = choose_encoding(epsilon, delta, coordinates, reports)
    assert encoding.release.delta(epsilon) <= delta
    assert error_ratio(encoding, epsilon, delta) <= 1.05


def test_shared_discrete_gaussian():
    sigma = least_discrete_gaussian_sigma(1.0, 1e-6, 20, 4, shares=50)
    where = (20, 4, 1.0, 1e-6)
    assert_tight(DiscreteGaussian(scale=sigma, shares=50), *where)
    assert_violates(DiscreteGaussian(scale=0.98 * sigma, shares=50), *where)


@pytest.mark.parametrize(("epsilon", "coordinates", "shift"), [(1.0, 60, 3), (0.3, 7, 11), (10.0, 60, 1)])
def test_discrete_laplace_scale(epsilon, coordinates, shift):
    scale = discrete_laplace_scale(epsilon, coordinates, shift)
    assert scale == pytest.approx(coordinates * shift / epsilon, rel=1e-15)
    release = IntegerSum(noise=DiscreteLaplace(scale=scale), coordinates=coordinates, shift=shift)
    assert release.pure_epsilon <= epsilon
    assert release.delta(epsilon) == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, 2.0, 1, 1),
        (1.0, 0.0, 1, 1),
        (1.0, 1.0, 1, 1),
        (-1.0, 0.1, 1, 1),
        (1.0, 0.1, 0, 1),
        (1.0, 0.1, 1, 0),
        (math.inf, 0.1, 1, 1),
        (1.0, 0.1, 1.5, 1),
    ],
)
@pytest.mark.parametrize(
    "function",
    [least_binomial_bits, least_skellam_variance, least_discrete_gaussian_sigma, choose_encoding],
)
def test_refuses_what_has_no_meaning(function, arguments):
    with pytest.raises(InvalidValue):
        function(*arguments)


def test_refuses_no_shares_no_laplace_and_no_bits():
    with pytest.raises(InvalidValue):
        least_discrete_gaussian_sigma(1.0, 0.1, 1, 1, shares=0)
    with pytest.raises(InvalidValue):
        discrete_laplace_scale(0.0, 1, 1)
    with pytest.raises(InvalidValue):
        BitEncoding(levels=1, bits=0, reports=1, coordinates=1)
