"""The joint tail against Chernoff's bound with the exact cumulants, minimised by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.privacy.noise import CumulantLaw
from dpbandits.privacy.noise._laplace_laws import LaplaceLaw, PolyaLaw
from dpbandits.privacy.noise._skellam_law import SkellamLaw
from dpbandits.privacy.tails import SummedErrors, joint_radius

LAWS: list[tuple[CumulantLaw, int]] = [
    (LaplaceLaw(scale=3.0), 1),
    (LaplaceLaw(scale=40.0), 25),
    (PolyaLaw(scale=9.0, shares=12), 15),
    (SkellamLaw(scale=2.5), 30),
]

ERRORS = [SummedErrors(law=law, count=count, unit=1.0) for law, count in LAWS]


def _brute_force(row: np.ndarray, variance: float, confidence: float) -> float:
    poles = np.array([law.pole for law, _ in LAWS])
    highest = 1 / np.max(np.abs(row) / poles)
    best = np.inf
    for rate in np.concatenate([np.geomspace(1e-6, 1, 1500), 1 - np.geomspace(0.5, 1e-4, 200)]) * highest:
        total = sum(
            n * float(law.cumulant(np.array(rate * b))) for (law, n), b in zip(LAWS, row, strict=True)
        )
        best = min(best, (np.log(1 / confidence) + total + rate**2 * variance / 2) / rate)
    return float(best)


@pytest.mark.parametrize("variance", [1e-4, 1.0, 1e4, 1e9])
@pytest.mark.parametrize("confidence", [0.01, 1e-10])
def test_mixed_laws_have_nearly_the_best_bound(variance: float, confidence: float) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4)) * np.array([5.0, 0.3, 1.0, 1.0])
    found = joint_radius(rows, np.full(3, variance), confidence, errors=ERRORS)
    for row, radius in zip(rows, found, strict=True):
        exact = _brute_force(row, variance, confidence)
        # One u for all distributions costs most if there is only noise and one coordinate is near its pole.
        assert exact * (1 - 1e-4) <= radius <= (1.05 if variance >= 1e4 else 1.2) * exact


def test_a_direction_without_error_has_no_radius() -> None:
    found = joint_radius(np.zeros((1, 4)), np.zeros(1), 1e-9, errors=ERRORS)
    assert 0 <= found[0] < 1e-90
    normal = joint_radius(np.zeros((1, 4)), np.ones(1), 1e-9, errors=ERRORS)
    assert normal[0] == pytest.approx(np.sqrt(2 * np.log(1e9)), rel=1e-6)


def test_many_rows_are_as_each_is_alone() -> None:
    rng = np.random.default_rng(1)
    rows, variances = rng.normal(size=(700, 4)), rng.uniform(0, 100, size=700)
    together = joint_radius(rows, variances, 1e-6, errors=ERRORS)
    for place in (0, 255, 256, 511, 512, 699):
        alone = slice(place, place + 1)
        radius = joint_radius(rows[alone], variances[alone], 1e-6, errors=ERRORS)
        assert together[place] == pytest.approx(radius[0], rel=1e-12)


def test_units_and_other_variances_are_those_of_scaled_rows() -> None:
    rows, nothing = np.random.default_rng(2).normal(size=(5, 4)), np.zeros(5)
    scaled = [SummedErrors(law=one.law, count=one.count, unit=0.25, other_variance=3.0) for one in ERRORS]
    found = joint_radius(rows, nothing, 1e-6, errors=scaled)
    expected = joint_radius(rows / 4, 3.0 * (rows**2).sum(axis=1), 1e-6, errors=ERRORS)
    np.testing.assert_allclose(found, expected)
