"""Calibration of noise in a box and in a ball."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, calibrate, may_use_ball, typical_deviation


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize(("delta", "shape"), [(0.0, "box"), (1e-6, "box"), (1e-6, "ball")])
def test_the_typical_error_is_near_the_calibrated_one(trust: str, delta: float, shape: str) -> None:
    request = PrivacyRequest(trust=trust, epsilon=1, delta=delta)
    typical = typical_deviation(request, coordinates=20, clients=500, bound=1.5, shape=shape)
    exact = calibrate(request, coordinates=20, cohort=500, bound=1.5, shape=shape).error_deviation(500)
    assert typical == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize("coordinates", [1, 7, 60])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1, 1e-6), (10, 0.25)])
def test_a_ball_keeps_what_was_asked_for(trust: str, coordinates: int, epsilon: float, delta: float) -> None:
    request = PrivacyRequest(trust=trust, epsilon=epsilon, delta=delta, noise="discrete-gaussian")
    mechanism = calibrate(request, coordinates=coordinates, cohort=300, bound=2.0, shape="ball")
    assert mechanism.event.delta(epsilon) <= delta
    assert mechanism.noise_name == "discrete-gaussian"
    # In units of rewards, without the grid: the noise is little more than the continuous Gaussian needs.
    assert mechanism.event.delta(epsilon) >= 0.9 * delta


@pytest.mark.parametrize(
    "request_",
    [
        PrivacyRequest(trust="none"),
        PrivacyRequest(trust="central", delta=0, noise="k-norm"),
        PrivacyRequest(trust="shuffle", noise="binomial"),
        PrivacyRequest(trust="central", preset="paper", delta=0.1),
    ],
)
def test_other_noise_is_not_accounted_for_in_a_ball(request_: PrivacyRequest) -> None:
    assert not may_use_ball(request_)
    with pytest.raises(InvalidValue, match="shape: got ball"):
        calibrate(request_, coordinates=3, cohort=10, bound=1.0, shape="ball")


def test_a_ball_shortens_and_keeps_directions() -> None:
    mechanism = calibrate(PrivacyRequest(trust="central"), coordinates=3, cohort=10, bound=2.0, shape="ball")
    rows = np.array([[3.0, 0.0, 4.0], [0.5, 0.5, 0.5], [1e300, 1e300, 0.0]])
    clipped = mechanism.clip(rows)
    np.testing.assert_allclose(clipped[0], [1.2, 0.0, 1.6])
    np.testing.assert_array_equal(clipped[1], rows[1])
    assert np.linalg.norm(clipped, axis=1).max() <= 2.0 * (1 + 1e-12)
