"""Properties that every privacy event has: composition, groups, and inverses of δ(ε)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.errors import InvalidValue, NotAvailable, OutsideTheorem
from dpbandits.privacy.accounting import (
    Binomial,
    Composition,
    DiscreteLaplace,
    Ends,
    Event,
    GaussianEvent,
    IntegerSum,
    NothingHidden,
    PureEvent,
    compose,
)
from dpbandits.privacy.accounting._event import add_remove_from_replace_one, replace_one_from_add_remove
from dpbandits.privacy.accounting._gaussian import gaussian_epsilon

EVENTS: list[Event] = [
    GaussianEvent(noise_ratio=1.5),
    PureEvent(pure_epsilon=0.8),
    IntegerSum(noise=Binomial(bits=400), coordinates=3, shift=5),
    IntegerSum(noise=DiscreteLaplace(scale=9.0), coordinates=2, shift=3),
    IntegerSum(noise=Binomial(bits=300, chance=0.4), coordinates=2, ends=Ends.rounded(1.3, 2.8)),
]


@pytest.fixture(params=EVENTS, ids=["gaussian", "pure", "binomial", "laplace", "two-point ends"])
def event(request: pytest.FixtureRequest) -> Event:
    chosen: Event = request.param
    return chosen


@pytest.mark.parametrize("times", [2, 3])
def test_composing_n_times_equals_composing_with_itself(event: Event, times: int) -> None:
    composed, repeated = compose([event] * times), event.repeated(times)
    for epsilon in (0.3, 1.0, 2.5):
        assert composed.delta(epsilon) == pytest.approx(repeated.delta(epsilon), rel=1e-6, abs=1e-300)
    assert event.repeated(1).delta(0.5) == pytest.approx(event.delta(0.5))


def test_more_of_anything_costs_more(event: Event) -> None:
    for epsilon in (0.2, 1.0):
        assert event.delta(epsilon) <= event.repeated(2).delta(epsilon) <= event.repeated(3).delta(epsilon)
        assert event.delta(epsilon) <= event.group(2).delta(epsilon) * (1 + 1e-9)
        assert event.group(2).delta(epsilon) <= event.group(3).delta(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("event", EVENTS[:4])  # rounded ends are moved outwards, which costs more
def test_group_privacy_is_no_worse_than_the_general_theorem(event: Event) -> None:
    # Replacing k clients one after another: (ε, δ) gives (kε, δ·(e^{kε} − 1)/(e^ε − 1)).
    for size in (2, 3):
        for epsilon in (0.2, 0.5):
            general = event.delta(epsilon) * math.expm1(size * epsilon) / math.expm1(epsilon)
            assert event.group(size).delta(size * epsilon) <= general * (1 + 1e-6) + 1e-300


def test_epsilon_inverts_delta(event: Event) -> None:
    for delta in (0.2, 1e-3):
        epsilon = event.epsilon(delta)
        assert event.delta(epsilon) <= delta * (1 + 1e-9)
        if epsilon > 1e-3:
            assert event.delta(epsilon - 1e-3) >= delta * (1 - 1e-9)


@settings(max_examples=40)
@given(st.sampled_from(EVENTS), st.floats(0.01, 5), st.floats(1.01, 3))
def test_delta_decreases_in_epsilon(event: Event, epsilon: float, factor: float) -> None:
    assert event.delta(factor * epsilon) <= event.delta(epsilon) * (1 + 1e-9)


def test_pure_events() -> None:
    event = PureEvent.ratio(3, 10.0)
    assert event.epsilon(0) == event.pure_epsilon >= 0.3
    assert event.delta(event.pure_epsilon) == 0
    # Randomized response is the worst 1-DP mechanism: δ(0) is its total variation (e − 1)/(e + 1).
    assert PureEvent(pure_epsilon=1.0).delta(0) == pytest.approx((math.e - 1) / (math.e + 1))
    assert GaussianEvent(noise_ratio=1.0).epsilon(0) == math.inf
    laplace = IntegerSum(noise=DiscreteLaplace(scale=9.0), coordinates=2, shift=3)
    assert laplace.epsilon(0) == laplace.pure_epsilon >= 6 / 9
    assert compose([laplace, event]).pure_epsilon == pytest.approx(6 / 9 + 0.3)


def test_gaussians_compose_like_one() -> None:
    both = compose([GaussianEvent(noise_ratio=3.0), GaussianEvent(noise_ratio=4.0)])
    assert both.delta(1) == pytest.approx(GaussianEvent(noise_ratio=2.4).delta(1))
    assert gaussian_epsilon(1e-5, 2.4) == pytest.approx(both.epsilon(1e-5))


def test_different_sums_compose() -> None:
    first, second = EVENTS[2], EVENTS[3]
    assert isinstance(compose([first, second]), Composition)
    assert compose([first, second]).delta(1) >= max(first.delta(1), second.delta(1))


def test_what_has_no_theorem_is_refused() -> None:
    with pytest.raises(NotAvailable):
        compose([])
    with pytest.raises(OutsideTheorem, match="participation itself is not hidden"):
        add_remove_from_replace_one(1.0, 1e-6)
    for bad in (0, -1):
        with pytest.raises(InvalidValue):
            EVENTS[0].repeated(bad)
        with pytest.raises(InvalidValue):
            EVENTS[2].group(bad)
    with pytest.raises(InvalidValue):
        EVENTS[0].delta(-1)


def test_replacing_is_removing_and_adding() -> None:
    assert replace_one_from_add_remove(0.5, 1e-6) == (1.0, pytest.approx((1 + math.exp(0.5)) * 1e-6))


def test_nothing_hidden_hides_nothing() -> None:
    nothing = NothingHidden()
    assert nothing.delta(100) == 1
    assert nothing.epsilon(0.5) == math.inf
    assert nothing.repeated(2) == nothing.group(2) == nothing
