"""The accountant as a whole: other accountants, closed forms, the paper's constants, properties, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings, strategies as st

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import (
    Binomial,
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    Ends,
    IntegerSum,
    Skellam,
)
from dpbandits.privacy.accounting._gaussian import gaussian_delta

NOISES = st.one_of(
    st.builds(Binomial, bits=st.integers(1, 3000)),
    st.builds(Skellam, variance=st.floats(0.05, 500)),
    st.builds(DiscreteGaussian, scale=st.floats(0.2, 25)),
    st.builds(DiscreteGaussian, scale=st.floats(0.2, 5), shares=st.integers(2, 30)),
    st.builds(DiscreteLaplace, scale=st.floats(0.2, 25)),
)
RELEASES = st.builds(IntegerSum, noise=NOISES, shift=st.integers(1, 9), coordinates=st.integers(1, 120))


def log_masses(law, low, high):
    values = law.log_weights(low, high).values
    values = values - np.logaddexp.reduce(values)
    return {low + i: float(value) for i, value in enumerate(values) if np.isfinite(value)}


@pytest.mark.parametrize(
    "noise", [Binomial(bits=400), Skellam(variance=100.0), DiscreteLaplace(scale=6.0)], ids=str
)
@pytest.mark.parametrize(("coordinates", "epsilon"), [(1, 0.45), (20, 3.0)])
def test_dp_accounting_agrees(noise, coordinates, epsilon):
    reach = math.ceil(noise.reach(40.0))
    low, high = math.floor(noise.centre) - reach, math.ceil(noise.centre) + reach
    masses = log_masses(noise, low, high)
    moved = {value + 3: mass for value, mass in masses.items()}
    release = IntegerSum(noise=noise, shift=3, coordinates=coordinates)
    lower, upper = release.delta_bounds(epsilon)
    theirs = {
        pessimistic: privacy_loss_distribution.from_two_probability_mass_functions(
            masses, moved, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4
        )
        .self_compose(coordinates)
        .get_delta_for_epsilon(epsilon)
        for pessimistic in (True, False)
    }
    assert theirs[False] <= upper * (1 + 1e-9)
    assert lower <= theirs[True] * (1 + 1e-9)
    assert upper == pytest.approx(theirs[True], rel=0.01)


@pytest.mark.parametrize(
    ("scale", "shift", "coordinates", "epsilon"),
    [
        (6.0, 2, 20, 1.0),
        (30.0, 1, 24, 1.0),
        (30.0, 1, 24, 2.0),
        (5.0, 5, 3, 10.0),
        (300.0, 3, 9, 0.25),
    ],
)
def test_discrete_gaussian_through_its_sufficient_statistic(scale, shift, coordinates, epsilon):
    """Here log P/Q of all coordinates depends only on their sum, whose distribution is a convolution.

    Its terms are positive, so it is exact up to rounding, without grid or transform. δ goes down to 10⁻³⁰.
    """
    points = np.arange(-math.ceil(14 * scale), math.ceil(14 * scale) + 1)
    one = np.exp(-((points / scale) ** 2) / 2)
    one /= one.sum()
    law = np.ones(1)
    for _ in range(coordinates):
        law = np.convolve(law, one)
    sums = np.arange(len(law)) - len(law) // 2
    losses = (coordinates * shift**2 - 2 * shift * sums) / (2 * scale**2)
    kept = losses > epsilon
    truth = math.fsum(law[kept] * -np.expm1(epsilon - losses[kept]))
    lower, upper = IntegerSum(
        noise=DiscreteGaussian(scale=scale), shift=shift, coordinates=coordinates
    ).delta_bounds(epsilon)
    assert lower * (1 - 1e-9) <= truth <= upper * (1 + 1e-9)
    assert upper <= lower * 1.001


def test_wide_discrete_gaussian_is_the_gaussian():
    for epsilon, coordinates in ((0.1, 60), (1.0, 20), (10.0, 104)):
        release = IntegerSum(noise=DiscreteGaussian(scale=80.0), shift=20, coordinates=coordinates)
        gaussian = gaussian_delta(epsilon, 80 / (20 * math.sqrt(coordinates)))
        assert release.delta(epsilon) == pytest.approx(gaussian, rel=1e-4)


def test_shares_of_a_discrete_gaussian_are_nearly_one():
    whole = IntegerSum(noise=DiscreteGaussian(scale=12.0), shift=2, coordinates=10)
    shared = IntegerSum(noise=DiscreteGaussian(scale=12 / math.sqrt(64), shares=64), shift=2, coordinates=10)
    assert shared.delta(1.0) == pytest.approx(whole.delta(1.0), rel=1e-3)
    lower, upper = shared.delta_bounds(1.0)
    assert lower <= upper <= 1.001 * lower


def test_tiny_deltas_keep_their_relative_accuracy():
    release = IntegerSum(noise=Binomial(bits=40_000), shift=1, coordinates=60)
    for epsilon in (0.5, 0.8, 1.2, 1.6):
        lower, upper = release.delta_bounds(epsilon)
        assert 0 < lower <= upper <= 1.001 * lower
    assert upper < 1e-80


def paper_release(epsilon, delta, coordinates, clients):
    """Algorithm 2 of the paper: range ±B√s though every coordinate lies in ±B, and p a little below ½."""
    shrunk = epsilon / (18 * math.sqrt(math.log(2 / delta)))
    logarithm = math.log(4 * coordinates / delta)
    levels = math.ceil(
        max(shrunk * math.sqrt(clients) / (6 * math.sqrt(5 * logarithm)), math.sqrt(coordinates), 10)
    )
    bits = math.ceil(180 * levels**2 * logarithm / (shrunk**2 * clients))
    chance = 90 * levels**2 * logarithm / (bits * shrunk**2 * clients)
    half = levels / (2 * math.sqrt(coordinates))
    return IntegerSum(
        noise=Binomial(bits=clients * bits, chance=chance),
        coordinates=coordinates,
        ends=Ends.rounded(levels / 2 - half, levels / 2 + half),
    )


@pytest.mark.parametrize("clients", [8, 12_000])
def test_the_papers_constants_are_far_stronger_than_claimed(clients):
    release = paper_release(10.0, 0.25, 60, clients)
    lower, upper = release.delta_bounds(0.12)
    assert lower <= upper <= 1.001 * lower
    assert upper <= 1e-9
    assert release.delta_bounds(0.109)[0] > 1e-9


def test_epsilon_is_the_inverse_of_delta_on_the_safe_side():
    release = IntegerSum(noise=Binomial(bits=3000), shift=5, coordinates=20)
    for delta in (0.2, 1e-3, 1e-9):
        epsilon = release.epsilon(delta)
        assert release.delta(epsilon) <= delta < release.delta_bounds(epsilon - 1e-5)[1]
    assert release.epsilon(0.999) == 0.0


def test_no_epsilon_where_an_outcome_gives_the_client_away():
    assert IntegerSum(noise=Binomial(bits=4), shift=1, coordinates=2).epsilon(1e-3) == math.inf
    assert IntegerSum(noise=Binomial(bits=4), shift=9, coordinates=2).delta_bounds(1.0) == pytest.approx(
        (1, 1)
    )


def test_discrete_laplace_is_purely_private():
    release = IntegerSum(noise=DiscreteLaplace(scale=12.0), shift=4, coordinates=6)
    assert release.pure_epsilon == 2.0
    assert release.delta_bounds(2.0) == (0.0, 0.0)
    lower, upper = release.delta_bounds(1.999)
    assert 0 < lower <= upper < 1e-4
    assert release.epsilon(1e-100) <= 2.0
    assert IntegerSum(noise=Skellam(variance=1.0), shift=1, coordinates=1).pure_epsilon == math.inf


@settings(max_examples=60, deadline=None)
@given(release=RELEASES, epsilon=st.floats(0, 12), more=st.floats(0, 3))
def test_delta_falls_with_epsilon(release, epsilon, more):
    lower, upper = release.delta_bounds(epsilon)
    assert 0 <= lower <= upper <= 1
    if upper > 1e-25:
        assert upper <= 1.01 * lower
    later = release.delta_bounds(epsilon + more)
    assert later[0] <= upper
    assert later[1] <= upper * (1 + 1e-3) + 1e-120


@settings(max_examples=25, deadline=None)
@given(
    bits=st.integers(1, 500),
    extra=st.integers(1, 200),
    shift=st.integers(1, 5),
    coordinates=st.integers(1, 60),
    epsilon=st.floats(0, 5),
)
def test_more_shares_of_noise_never_hurt(bits, extra, shift, coordinates, epsilon):
    fewer = IntegerSum(noise=Binomial(bits=bits), shift=shift, coordinates=coordinates)
    more = IntegerSum(noise=Binomial(bits=bits + extra), shift=shift, coordinates=coordinates)
    assert more.delta_bounds(epsilon)[0] <= fewer.delta(epsilon)


@settings(max_examples=20, deadline=None)
@given(release=RELEASES, times=st.integers(1, 5), epsilon=st.floats(0, 5))
def test_repeating_is_composing_with_itself(release, times, epsilon):
    repeated = release.repeated(times)
    composed = Composition(sums=(release,) * times)
    assert repeated.delta(epsilon) == pytest.approx(composed.delta(epsilon), rel=1e-3, abs=1e-120)
    assert repeated.repeated(3) == release.repeated(3 * times)


@pytest.mark.parametrize(
    "build",
    [
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=0, shift=1),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=0),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1.5),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1, ends=Ends.whole(1)),
        lambda: IntegerSum(noise="fair bits", coordinates=1, shift=1),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1).delta(-0.1),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1).delta(math.nan),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1).epsilon(-0.1),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1).epsilon(1.0),
        lambda: IntegerSum(noise=Binomial(bits=9), coordinates=1, shift=1).repeated(0),
        lambda: Composition(sums=()),
        lambda: Ends(low=((0, 0.5),), high=((1, 1.0),)),
        lambda: Ends(low=((0, 1.5), (1, -0.5)), high=((1, 1.0),)),
        lambda: Ends(low=((0, 0.5), (0, 0.5)), high=((1, 1.0),)),
        lambda: Ends(low=((1, 1.0),), high=((0, 1.0),)),
        lambda: Ends(low=((0, 0.5), (2, 0.5)), high=((1, 1.0),)),
        lambda: Ends.rounded(1.0, 1.0),
        lambda: Ends.rounded(0.0, math.inf),
    ],
)
def test_refuses_what_it_cannot_account_for(build):
    with pytest.raises(InvalidValue):
        build()
