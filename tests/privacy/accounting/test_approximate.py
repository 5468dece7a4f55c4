"""A mechanism that approximates another one: its δ(ε) covers the difference."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.privacy.accounting import Approximated, GaussianEvent, PureEvent


@pytest.mark.parametrize("distance", [1e-30, 1e-12, 1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("event", [GaussianEvent(noise_ratio=2.0), PureEvent(pure_epsilon=1.0)])
def test_the_bound_is_a_probability_and_never_below_the_exact_event(
    event: GaussianEvent | PureEvent, distance: float
) -> None:
    near = Approximated(event=event, distance=distance)
    for epsilon in np.geomspace(0.01, 1000, 60).tolist():
        assert event.delta(epsilon) <= near.delta(epsilon) <= 1


def test_the_bound_covers_a_mechanism_that_is_replaced_now_and_then() -> None:
    """Randomized response that reveals the truth with probability η: δ(ε) from its two outcomes."""
    epsilon0, eta = 1.0, 0.01
    truth = np.exp(epsilon0) / (1 + np.exp(epsilon0))
    honest = {0: np.array([truth, 1 - truth]), 1: np.array([1 - truth, truth])}
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        laws = {bit: (1 - eta) * honest[bit] + eta * np.eye(2)[bit] for bit in (0, 1)}
        exact = np.clip(laws[0] - np.exp(epsilon) * laws[1], 0, None).sum()
        stated = Approximated(event=PureEvent(pure_epsilon=epsilon0), distance=eta).delta(epsilon)
        assert exact <= stated
    assert exact <= 1e-12 < stated
