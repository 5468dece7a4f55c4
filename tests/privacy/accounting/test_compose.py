"""Events of different kinds together: against sums over all outcomes, and against dp-accounting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from dpbandits.privacy import PrivacyRequest, calibrate
from dpbandits.privacy.accounting import (
    Approximated,
    BallSum,
    Binomial,
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    Ends,
    Event,
    GaussianComposition,
    GaussianEvent,
    IntegerSum,
    Mixed,
    NothingHidden,
    PureEvent,
    Skellam,
    _integer_sum as integer_sum,
    compose,
)
from dpbandits.privacy.accounting._dominating_pair import dominating_pair

Laws = tuple[NDArray[np.float64], NDArray[np.float64]]


def laws(event: IntegerSum) -> Laws:
    """P and Q of one coordinate that is shifted by `shift`, on outcomes that cover nearly all noise."""
    reach = math.ceil(event.noise.reach(40.0))
    low = math.floor(event.noise.centre) - reach
    weights = event.noise.log_weights(low, low + 2 * reach)
    masses = np.exp(weights.values - np.logaddexp.reduce(weights.values))
    return np.pad(masses, (0, event.span)), np.pad(masses, (event.span, 0))


def response(epsilon: float) -> Laws:
    true = 1 / (1 + math.exp(-epsilon))
    return np.array([true, 1 - true]), np.array([1 - true, true])


def together(parts: Sequence[Laws]) -> Laws:
    first, second = np.ones(1), np.ones(1)
    for p, q in parts:
        first, second = np.outer(first, p).ravel(), np.outer(second, q).ravel()
    return first, second


def divergence(parts: Sequence[Laws], epsilon: float) -> float:
    first, second = together(parts)
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


BITS = IntegerSum(noise=Binomial(bits=200), coordinates=1, shift=3)
UNFAIR = IntegerSum(noise=Binomial(bits=200, chance=0.4), coordinates=1, shift=2)
LAPLACE = IntegerSum(noise=DiscreteLaplace(scale=6.0), coordinates=1, shift=3)
GAUSSIAN = IntegerSum(noise=DiscreteGaussian(scale=9.0), coordinates=1, shift=5)
SKELLAM = IntegerSum(noise=Skellam(variance=60.0), coordinates=1, shift=4)


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 2.0])
@pytest.mark.parametrize("one", [BITS, UNFAIR, LAPLACE, GAUSSIAN, SKELLAM], ids=lambda e: str(e.noise))
def test_a_pure_event_and_a_sum_are_exactly_as_computed(one: IntegerSum, epsilon: float) -> None:
    composed = compose([PureEvent(pure_epsilon=0.7), one])
    p, q = laws(one)
    truth = max(divergence([response(0.7), pair], epsilon) for pair in ((p, q), (q, p)))
    lower, upper = composed.delta_bounds(epsilon)
    assert lower <= truth * (1 + 1e-9)
    # With asymmetric noise, the curve below ε = 0 is the worse of both directions.
    assert upper == pytest.approx(truth, rel=1e-3, abs=1e-15)
    assert upper >= truth * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_events_that_only_have_a_curve_are_never_less_than_the_truth(epsilon: float) -> None:
    """Two sums that are not composed exactly, so that only the curve of one is known."""
    mixed = Mixed(parts=(BITS, SKELLAM))
    truth = divergence([laws(BITS), laws(SKELLAM)], epsilon)
    assert truth * (1 - 1e-9) <= mixed.delta(epsilon) <= 1.05 * truth
    three = Mixed(parts=(LAPLACE, BITS, GAUSSIAN))
    truth = divergence([laws(LAPLACE), laws(BITS), laws(GAUSSIAN)], epsilon)
    assert truth * (1 - 1e-9) <= three.delta(epsilon) <= 1.1 * truth


@pytest.mark.parametrize("event", [BITS, UNFAIR, LAPLACE, GaussianEvent(noise_ratio=1.3)], ids=str)
@given(epsilon=st.floats(-3, 3))
@settings(max_examples=30, deadline=None)
def test_the_pair_dominates_the_curve_it_was_built_from(event: Event, epsilon: float) -> None:
    """It dominates at every real ε, and its P- and Q-masses are at most one."""
    pair = dominating_pair(event)
    curve = event.delta(epsilon) if epsilon >= 0 else 1 - math.exp(epsilon) * (1 - event.delta(-epsilon))
    found = pair.infinite + math.fsum(
        mass * max(0.0, -math.expm1(epsilon - loss))
        for loss, mass in zip(pair.losses, pair.masses, strict=True)
    )
    if epsilon >= 0:  # below zero the curve is the worse of both directions
        assert found >= curve * (1 - 1e-9)
    assert pair.infinite + math.fsum(pair.masses) <= 1 + 1e-9
    under_q = (m * math.exp(-loss) for loss, m in zip(pair.losses, pair.masses, strict=True))
    assert math.fsum(under_q) <= 1 + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_dp_accounting_agrees(epsilon: float) -> None:
    low = math.floor(BITS.noise.centre) - 100
    masses = dict(enumerate(BITS.noise.log_weights(low, low + 200).values.tolist(), low))
    total = float(np.logaddexp.reduce(list(masses.values())))
    here = {value: mass - total for value, mass in masses.items()}
    moved = {value + 3: mass for value, mass in here.items()}
    theirs = {}
    for pessimistic in (True, False):
        options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": 1e-4}
        bits = privacy_loss_distribution.from_two_probability_mass_functions(here, moved, **options)
        normal = privacy_loss_distribution.from_gaussian_mechanism(2.0, **options)
        laplace = privacy_loss_distribution.from_laplace_mechanism(5.0, **options)
        theirs[pessimistic] = bits.compose(normal).compose(laplace).get_delta_for_epsilon(epsilon)
    ours = compose([BITS, GaussianEvent(noise_ratio=2.0), PureEvent(pure_epsilon=0.2)])
    # Laplace noise of scale 5 is 0.2-private; randomized response is the worst such mechanism.
    assert theirs[False] <= ours.delta(epsilon) <= 1.3 * theirs[True]
    two = compose([BITS, GaussianEvent(noise_ratio=2.0)])
    assert two.delta(epsilon) <= ours.delta(epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_balls_compose_and_never_to_less_than_the_truth(epsilon: float) -> None:
    first = BallSum(scale=9.0, shares=1, coordinates=1, distance=5.0, reachable=5)
    second = BallSum(scale=12.0, shares=1, coordinates=1, distance=4.0, reachable=4)
    composed = compose([first, second])
    assert isinstance(composed, GaussianComposition)
    wider = IntegerSum(noise=DiscreteGaussian(scale=12.0), coordinates=1, shift=4)
    truth = divergence([laws(GAUSSIAN), laws(wider)], epsilon)
    lower, upper = composed.delta_bounds(epsilon)
    assert lower <= truth * (1 + 1e-9)
    assert lower == pytest.approx(truth, rel=1e-3)
    assert truth <= upper <= 1.4 * truth
    for event in (first, second):
        assert compose([event, event]).delta(epsilon) == pytest.approx(event.repeated(2).delta(epsilon))
    assert composed.repeated(2).delta(1) == pytest.approx(compose([first, second, first, second]).delta(1))
    assert composed.group(2).delta(1) == pytest.approx(compose([first.group(2), second.group(2)]).delta(1))


def test_what_a_ball_costs_twice() -> None:
    request = PrivacyRequest(trust="central", epsilon=1, delta=1e-6, noise="discrete-gaussian")
    event = calibrate(request, coordinates=5, cohort=100, bound=1, shape="ball").event
    twice = compose([event, event])
    assert twice.epsilon(1e-6) == pytest.approx(1.455, abs=1e-3)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        event.noise_ratio,
        value_discretization_interval=1e-4,  # type: ignore[attr-defined]
    ).self_compose(2)
    assert twice.epsilon(1e-6) == pytest.approx(theirs.get_epsilon_for_delta(1e-6), rel=1e-3)


def test_a_wide_box_and_a_ball_are_one_gaussian() -> None:
    box = IntegerSum(noise=DiscreteGaussian(scale=300.0), coordinates=4, shift=60)
    ball = BallSum(scale=200.0, shares=1, coordinates=4, distance=90.0, reachable=90)
    composed = compose([ball, box])
    ratio = 1 / math.hypot(90 / 200, 120 / 300)
    assert composed.delta(1.0) == pytest.approx(GaussianEvent(noise_ratio=ratio).delta(1.0), rel=1e-3)
    lower, upper = composed.delta_bounds(1.0)
    assert lower <= upper <= 1.01 * lower


def test_releases_with_too_many_sign_patterns_are_accounted_for_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def releases(coordinates: int) -> list[IntegerSum]:
        return [
            IntegerSum(
                noise=Binomial(bits=900, chance=chance), coordinates=coordinates, ends=Ends.rounded(1.2, 2.6)
            )
            for chance in (0.3, 0.4)
        ]

    assert isinstance(compose(releases(60)), Mixed)
    exact = compose(releases(3))
    assert isinstance(exact, Composition)
    monkeypatch.setattr(integer_sum, "MOST_POINTS", 1 << 14)
    one_by_one = compose(releases(3))
    assert isinstance(one_by_one, Mixed)
    monkeypatch.undo()
    for epsilon in (0.1, 0.5):
        lower, upper = exact.delta_bounds(epsilon)
        assert lower <= one_by_one.delta(epsilon) <= 1.1 * upper


def test_distances_add_up_and_nothing_hidden_stays_so() -> None:
    near = Approximated(event=BITS, distance=1e-9)
    composed = compose([near, Approximated(event=GaussianEvent(noise_ratio=2.0), distance=2e-9)])
    exact = compose([BITS, GaussianEvent(noise_ratio=2.0)])
    assert isinstance(composed, Approximated)
    added = composed.delta(1.0) - exact.delta(1.0)
    assert added == pytest.approx(3e-9 * (1 + math.e), rel=1e-6)
    assert compose([near, NothingHidden()]).delta(5.0) == 1
    halves = [Approximated(event=BITS, distance=0.5)] * 2
    assert compose(halves).delta(5.0) == 1


def test_a_mixture_is_an_event() -> None:
    mixed = compose([BITS, GaussianEvent(noise_ratio=2.0), PureEvent(pure_epsilon=0.2)])
    assert mixed.pure_epsilon == mixed.epsilon(0) == math.inf
    assert mixed.delta(mixed.epsilon(1e-4)) <= 1e-4
    assert mixed.delta(mixed.epsilon(1e-4) - 1e-3) > 1e-4
    assert mixed.delta(1.0) < mixed.repeated(2).delta(1.0) < mixed.repeated(3).delta(1.0)
    assert mixed.delta(1.0) < mixed.group(2).delta(1.0)
    assert compose([mixed, BITS]).delta(1.0) == pytest.approx(
        compose([BITS, BITS, GaussianEvent(noise_ratio=2.0), PureEvent(pure_epsilon=0.2)]).delta(1.0)
    )
    pure = compose([LAPLACE, PureEvent(pure_epsilon=0.2)])
    assert pure.epsilon(0) == pure.pure_epsilon == pytest.approx(0.7)
    assert pure.delta(0.7001) == 0
