"""Noise of the servers: either one protects alone, and clients add none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, SimulatedNoise, calibrate, guarantee
from dpbandits.privacy.trust import CentralLattice, ServerNoise


def made(shape: str = "ball", cohort: int = 1000, **changes: float) -> ServerNoise:
    request = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6, noise="server-gaussian", **changes)  # type: ignore[arg-type]
    mechanism = calibrate(request, coordinates=20, cohort=cohort, bound=1.0, shape=shape)
    assert isinstance(mechanism, ServerNoise)
    return mechanism


@pytest.mark.parametrize("shape", ["box", "ball"])
def test_the_error_is_that_of_two_trusted_servers(shape: str) -> None:
    request = PrivacyRequest(trust="central", epsilon=1, delta=1e-6, noise="discrete-gaussian")
    central = calibrate(request, coordinates=20, cohort=1000, bound=1.0, shape=shape)
    assert isinstance(central, CentralLattice)
    ratio = made(shape).error_deviation(1000) / central.error_deviation(1000)
    assert math.sqrt(2) * 0.99 < ratio < math.sqrt(2) * 1.02
    assert made(shape).event.delta(1.0) <= 1e-6


def test_no_other_client_has_to_be_honest() -> None:
    request = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6, noise="server-gaussian")
    found = guarantee(request, [made()])
    assert found is not None
    assert "clients may lie and collude" in found.needs
    assert "add their noise" not in found.needs
    shared = calibrate(
        PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6), coordinates=20, cohort=1000, bound=1.0
    )
    assert "add their noise" in shared.needs
    assert made(minimum_share=0.01).scale == made().scale  # nor do fewer reports need more noise


def test_a_report_has_no_noise_and_reaches_no_further_than_an_honest_one() -> None:
    mechanism, averages = made("box"), np.full((1, 20), 1.0)
    for seed in range(3):
        report = mechanism.randomize(averages, SimulatedNoise(np.random.default_rng(seed)))
        assert (report == mechanism.levels).all()
    assert mechanism.reach_of_one(1000).factor == 1


def test_sums_may_be_negative() -> None:
    mechanism = made("box", cohort=10)
    noise = SimulatedNoise(np.random.default_rng(1))
    low = np.full((10, 20), -1.0)
    sums = [mechanism.unwrapped(mechanism.shuffle(mechanism.randomize(low, noise), noise)) for _ in range(50)]
    assert min(map(np.min, sums)) < 0
    assert abs(np.mean(sums)) < 6 * mechanism.scale / math.sqrt(50 * 20)


def test_a_cohort_needs_a_report() -> None:
    with pytest.raises(InvalidValue, match="minimum_reports"):
        ServerNoise(
            coordinates=1, cohort=3, bound=1.0, levels=8, noise="server-gaussian", scale=3.0, least_reports=4
        )
