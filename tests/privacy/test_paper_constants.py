"""Reference values of the paper's formulas, computed by hand (with `bc -l`) from its equations."""

from __future__ import annotations

import pytest

from dpbandits.privacy import PrivacyRequest, calibrate
from dpbandits.privacy.trust import CentralGaussian, CentralLattice, LocalGaussian, ShuffledBits

PAPER = {"epsilon": 10.0, "delta": 0.25, "preset": "paper"}


def test_sigma_nc_of_theorem_4_2() -> None:
    # 2·√(2·60·ln 5)/(10·100)
    mechanism = calibrate(PrivacyRequest(trust="central", **PAPER), coordinates=60, cohort=100, bound=1)
    assert isinstance(mechanism, CentralGaussian)
    assert mechanism.error_deviation(100) == pytest.approx(0.0277944274625035, rel=1e-12)
    assert mechanism.event.delta(10) == pytest.approx(0.789, abs=5e-4)


def test_sigma_nl_of_theorem_4_4() -> None:
    # 2·3·√(2·60·ln 5)/10 at B = 3
    mechanism = calibrate(PrivacyRequest(trust="local", **PAPER), coordinates=60, cohort=100, bound=3)
    assert isinstance(mechanism, LocalGaussian)
    assert mechanism.scale == pytest.approx(3 * 2.77944274625035, rel=1e-12)
    assert mechanism.error_deviation(100) == pytest.approx(0.3 * 2.77944274625035, rel=1e-12)


def test_the_laplace_scale_of_the_appendix() -> None:
    # b = 2Bs/(ε·|U|) = 2·60/(10·100) on the mean
    request = PrivacyRequest(trust="central", epsilon=10.0, delta=0.0, preset="paper")
    mechanism = calibrate(request, coordinates=60, cohort=100, bound=1)
    assert isinstance(mechanism, CentralLattice)
    assert mechanism.noise == "laplace"
    assert mechanism.scale * mechanism.lattice.step / 100 == pytest.approx(0.12, rel=1e-12)
    assert mechanism.event.pure_epsilon == pytest.approx(10, rel=1e-12)


@pytest.mark.parametrize(
    ("coordinates", "cohort", "levels", "noise_bits", "probability"),
    [
        # ε̂ = 10/(18·√ln 8) = 0.385260192; g = max(0.110, 7.75, 10) = 10; b = ⌈8327.74⌉
        (60, 100, 10, 8328, 0.499984276594225),
        # √104 = 10.2 and g is a whole number, so g = 11; b = ⌈132.86⌉
        (104, 8192, 11, 133, 0.499465053408022),
        # ε̂·√10⁸/(6·√(5·ln 960)) = 109.58, so g = 110; b = ⌈1.0077⌉
        (60, 10**8, 110, 2, 0.251914077856341),
    ],
)
def test_algorithm_2(coordinates: int, cohort: int, levels: int, noise_bits: int, probability: float) -> None:
    request = PrivacyRequest(trust="shuffle", **PAPER)
    mechanism = calibrate(request, coordinates=coordinates, cohort=cohort, bound=2)
    assert isinstance(mechanism, ShuffledBits)
    assert (mechanism.levels, mechanism.noise_bits) == (levels, noise_bits)
    assert mechanism.noise_probability == pytest.approx(probability, rel=1e-12)
    assert mechanism.reach == pytest.approx(2 * coordinates**0.5)
    # Hoeffding, as in the proof: Var ≤ (2Δ₂/(g·n))²·(n/4 + b·n/4)
    variance = (2 * mechanism.reach / (levels * cohort)) ** 2 * (cohort + noise_bits * cohort) / 4
    assert mechanism.error_deviation(cohort) ** 2 == pytest.approx(variance)


@pytest.mark.parametrize("cohort", [8, 1000])
def test_algorithm_2_is_far_more_private_than_it_claims(cohort: int) -> None:
    mechanism = calibrate(PrivacyRequest(trust="shuffle", **PAPER), coordinates=60, cohort=cohort, bound=1)
    lower, upper = mechanism.event.delta_bounds(0.12)
    assert lower <= upper <= 1e-9
    assert mechanism.event.delta(10) <= 1e-50
