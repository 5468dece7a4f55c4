"""Every event that can be built has a δ in [0, 1] at every finite ε, and the work for it is bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import (
    Approximated,
    BallSum,
    Binomial,
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    Ends,
    Event,
    GaussianEvent,
    IntegerSum,
    NothingHidden,
    PureEvent,
    Skellam,
    _integer_sum as integer_sum,
    _work_limit as work_limit,
)
from dpbandits.privacy.accounting._gaussian import gaussian_delta
from dpbandits.privacy.accounting._wide_gaussian import wide_bounds
from dpbandits.privacy.accounting._worst_pair import worst_pair
from dpbandits.privacy.trust import ShuffledBits

POSITIVE = st.one_of(
    st.floats(0, 1.7e308, exclude_min=True), st.floats(-320, 308).map(lambda power: 10.0**power)
).filter(lambda value: value > 0)
CHANCES = st.floats(0, 1, exclude_min=True, exclude_max=True)
COUNTS = st.one_of(st.integers(1, 40), st.integers(1, 10**9))
NOISES = st.one_of(
    st.builds(Binomial, bits=st.one_of(st.integers(1, 400), st.integers(1, 1 << 50)), chance=CHANCES),
    st.builds(Skellam, variance=POSITIVE),
    st.builds(DiscreteGaussian, scale=POSITIVE, shares=st.one_of(st.just(1), st.integers(1, 10**8))),
    st.builds(DiscreteLaplace, scale=POSITIVE),
)
SHIFTED = st.builds(IntegerSum, noise=NOISES, coordinates=COUNTS, shift=st.integers(1, 1 << 62))
ROUNDED = st.builds(
    lambda noise, coordinates, low, width: IntegerSum(
        noise=noise, coordinates=coordinates, ends=Ends.rounded(low, low + width)
    ),
    NOISES,
    COUNTS,
    st.floats(0, 1e3),
    st.floats(1e-9, 1e6),
)


def balls(scale: float, shares: int, coordinates: int, distance: float) -> Event:
    try:
        return BallSum(scale=scale, shares=shares, coordinates=coordinates, distance=distance)
    except InvalidValue:
        return NothingHidden()


PLAIN = st.one_of(
    SHIFTED,
    ROUNDED,
    st.lists(st.one_of(SHIFTED, ROUNDED), min_size=1, max_size=3).map(lambda s: Composition(sums=tuple(s))),
    st.builds(balls, POSITIVE, st.integers(1, 10**8), COUNTS, POSITIVE),
    st.builds(GaussianEvent, noise_ratio=POSITIVE),
    st.builds(PureEvent, pure_epsilon=POSITIVE),
    st.builds(PureEvent.ratio, st.integers(1, 1 << 62), POSITIVE),
)
EVENTS = st.one_of(PLAIN, st.builds(Approximated, event=PLAIN, distance=st.floats(0, 1, exclude_max=True)))
EPSILONS = st.one_of(st.floats(0, 50), st.floats(0, 1.7e308), st.just(0.0))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lower limits, which are reached sooner, so that the test is fast."""
    monkeypatch.setattr(integer_sum, "MOST_OUTCOMES", 1 << 15)
    monkeypatch.setattr(work_limit, "MOST_OUTCOMES", 1 << 15)
    monkeypatch.setattr(work_limit, "_MOST_CONVOLVED", 1000)
    integer_sum._bounds.cache_clear()
    yield
    integer_sum._bounds.cache_clear()


def test_bits_that_are_never_one_hide_nothing() -> None:
    mechanism = ShuffledBits(
        coordinates=2,
        cohort=10,
        bound=1.0,
        reach=1.0,
        levels=15,
        noise_bits=18,
        noise_probability=1e-10,
        least_reports=10,
    )
    assert mechanism.event.delta(1.0) == 1.0


@pytest.mark.usefixtures("small_limits")
def test_delta_is_a_probability_for_every_event() -> None:
    @settings(max_examples=400, deadline=None, derandomize=True)
    @given(event=EVENTS, epsilon=EPSILONS)
    def check(event: Event, epsilon: float) -> None:
        lower, upper = event.delta_bounds(epsilon)
        assert 0 <= lower <= upper <= 1
        assert 0 <= event.delta(epsilon) <= 1

    check()


@pytest.mark.usefixtures("small_limits")
def test_epsilon_is_a_number_for_every_event() -> None:
    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(event=EVENTS, delta=st.one_of(CHANCES, st.just(0.0)))
    def check(event: Event, delta: float) -> None:
        assert event.epsilon(delta) >= 0

    check()


@pytest.mark.parametrize(
    "event",
    [
        IntegerSum(noise=Binomial(bits=9, chance=0.4), coordinates=10**6, shift=1),
        IntegerSum(noise=DiscreteGaussian(scale=1.0), coordinates=1, shift=1 << 40),
        BallSum(scale=0.8, shares=10**8, coordinates=10**6, distance=1.0),
        GaussianEvent(noise_ratio=1e-310),
        PureEvent.ratio(1, 5e-324),
    ],
    ids=["sign patterns", "span", "uneven shares", "no noise", "no scale"],
)
def test_where_nothing_is_proved_delta_is_one(event: Event) -> None:
    assert event.delta(1.0) == 1.0
    assert event.delta_bounds(1.0)[0] in (0.0, 1.0)


@pytest.mark.parametrize(
    "noise",
    [
        Binomial(bits=10**7),
        Binomial(bits=10**7, chance=0.3),
        Skellam(variance=3e6),
        DiscreteGaussian(scale=0.8, shares=4 * 10**5),
        DiscreteGaussian(scale=40.0, shares=4 * 10**3),
    ],
    ids=str,
)
def test_beyond_the_limits_less_noise_is_accounted_for(
    noise: work_limit.Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound holds, and it is that of noise within the limits."""
    release = IntegerSum(noise=noise, coordinates=3, shift=70)
    lower, exact = release.delta_bounds(0.2)
    assert exact <= 1.001 * lower
    monkeypatch.setattr(integer_sum, "MOST_OUTCOMES", 1 << 14)
    monkeypatch.setattr(work_limit, "_MOST_CONVOLVED", 2000)
    integer_sum._bounds.cache_clear()
    below, above = release.delta_bounds(0.2)
    integer_sum._bounds.cache_clear()
    assert below == 0
    assert lower < above < 1


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
@pytest.mark.parametrize(("coordinates", "shift"), [(1, 300), (20, 100)])
@pytest.mark.parametrize("noise", [DiscreteGaussian(scale=400.0), DiscreteGaussian(scale=5.0, shares=10**4)])
def test_the_closed_form_of_wide_noise_brackets_the_exact_one(
    noise: DiscreteGaussian, coordinates: int, shift: int, epsilon: float
) -> None:
    lower, upper = IntegerSum(noise=noise, coordinates=coordinates, shift=shift).delta_bounds(epsilon)
    closed = wide_bounds(noise, coordinates, shift * math.sqrt(coordinates), epsilon)
    assert closed[0] <= lower <= upper * (1 + 1e-9) <= closed[1] * (1 + 2e-9)
    assert closed[1] <= 1.01 * closed[0]


def test_very_wide_noise_is_accounted_for_in_closed_form() -> None:
    release = IntegerSum(noise=DiscreteGaussian(scale=1e7), coordinates=4, shift=10**7)
    lower, upper = release.delta_bounds(1.0)
    assert lower == pytest.approx(gaussian_delta(1.0, 0.5), rel=1e-6)
    assert lower <= gaussian_delta(1.0, 0.5) <= upper <= lower * (1 + 1e-6)


@pytest.mark.parametrize(("scale", "shares"), [(2.5, 40), (4.0, 9)])
def test_wide_shares_are_nearly_one_law(scale: float, shares: int) -> None:
    law = DiscreteGaussian(scale=scale, shares=shares)
    assert law.nearly_one
    assert not DiscreteGaussian(scale=1.0, shares=shares).nearly_one
    reach = math.ceil(5 * math.sqrt(law.variance))
    quick, exact = law.log_weights(-reach, reach), law._sum_of_shares(-reach, reach)
    off = (quick.values - quick.values[reach]) - (exact.values - exact.values[reach])
    assert float(np.abs(off).max()) <= 2 * (quick.error + exact.error)


@pytest.mark.parametrize("ends", [Ends.whole(4), Ends.rounded(1.25, 3.5)])
def test_the_tails_of_laplace_noise_are_one_outcome_each(ends: Ends) -> None:
    """The same δ from every single outcome."""
    noise, reach, epsilon = DiscreteLaplace(scale=3.0), 200, 0.4
    masses = np.exp(-np.abs(np.arange(-reach, reach + 1)) / noise.scale)
    masses /= masses.sum()
    first, second = (
        sum(chance * np.pad(masses, (value, 10 - value)) for value, chance in law)
        for law in (ends.low, ends.high)
    )
    truth = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    pair = worst_pair(noise, ends.low, ends.high, 50.0)
    assert math.fsum(np.exp(pair.log_p)) == pytest.approx(1, abs=1e-12)
    found = np.maximum(np.exp(pair.log_p) - math.exp(epsilon) * np.exp(pair.log_q), 0).sum()
    assert found == pytest.approx(truth, rel=1e-9)


@given(ratio=st.floats(0.05, 20), epsilon=st.floats(0, 8))
def test_gaussians_at_negative_epsilon(ratio: float, epsilon: float) -> None:
    """Against the sum of (P − αQ)₊ over a fine grid, α = e^−ε."""
    assume(epsilon * ratio < 8)
    step = ratio / 400
    points = np.arange(-10 * ratio - 2, 10 * ratio + 3, step)
    first = np.exp(-((points / ratio) ** 2) / 2) * step / (ratio * math.sqrt(2 * math.pi))
    second = np.exp(-(((points - 1) / ratio) ** 2) / 2) * step / (ratio * math.sqrt(2 * math.pi))
    truth = float(np.maximum(first - math.exp(-epsilon) * second, 0).sum())
    assert gaussian_delta(-epsilon, ratio) == pytest.approx(truth, abs=1e-4)
