"""Bands of levels: probabilities, moments, privacy by enumeration (docs/accounting-proofs.md, section 16)."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, SimulatedNoise, audit, calibrate
from dpbandits.privacy.trust import LocalBand

ALARM = 1e-6


def _band(epsilon: float, **fields: int) -> LocalBand:
    request = PrivacyRequest(trust="local", epsilon=epsilon, delta=0, noise="list")
    found = calibrate(request, coordinates=1, cohort=10**6, bound=1.0)
    assert isinstance(found, LocalBand)
    return replace(found, **fields)  # type: ignore[arg-type]


def _probabilities(band: LocalBand, start: int) -> list[Fraction]:
    total = band.width * band.top_weight + band.levels * band.other_weight
    inside = range(start, start + band.width)
    return [
        Fraction(band.top_weight if report in inside else band.other_weight, total)
        for report in range(band.size)
    ]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0, 3.0, 6.0])
def test_moments_privacy_and_decoding_by_enumeration(epsilon: float) -> None:
    band = _band(epsilon)
    slope, constant, largest = band._moments
    worst = Fraction(1)
    variances = []
    for start in range(band.levels + 1):
        chances = _probabilities(band, start)
        assert sum(chances) == 1
        mean = float(sum(chance * report for report, chance in enumerate(chances)))
        assert mean == pytest.approx(constant + slope * start, rel=1e-12)
        variances.append(float(sum(c * r * r for r, c in enumerate(chances))) - mean**2)
        for other in range(band.levels + 1):
            worst = max(worst, *(a / b for a, b in zip(chances, _probabilities(band, other), strict=True)))
    assert worst == Fraction(band.top_weight, band.other_weight)
    assert math.log(worst) <= epsilon
    assert max(variances) <= largest + 1e-12
    # Between levels the largest variance is at most what one more random rounding can add.
    assert largest <= max(variances) + slope**2 / 4 + slope**2 / 64**2 + 1e-12


@pytest.mark.parametrize("start", [0, 2, 4])
def test_reports_have_these_probabilities(start: int) -> None:
    band, draws = _band(1.0, levels=4, width=3), 30_000
    averages = np.full((draws, 1), -1 + start * 0.5)
    sent = band.randomize(averages, SimulatedNoise(np.random.default_rng(start)))[:, 0]
    counts = np.bincount(sent, minlength=band.size)

    def statistic(chances: list[Fraction]) -> float:
        expected = np.array([float(chance) * draws for chance in chances])
        return float(((counts - expected) ** 2 / expected).sum())

    assert statistic(_probabilities(band, start)) < chi2.isf(ALARM, band.size - 1)
    planted = replace(band, top_weight=int(band.top_weight * 1.1))
    assert statistic(_probabilities(planted, start)) > chi2.isf(ALARM, band.size - 1)


def test_the_band_is_better_than_the_mechanisms_it_contains() -> None:
    for epsilon in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0):
        half = math.exp(epsilon / 2)
        response, piecewise = math.tanh(epsilon / 2) ** -2, 4 * half / (3 * (half - 1) ** 2)
        assert _band(epsilon).error_deviation(1) ** 2 <= 1.001 * min(response, piecewise, 8 / epsilon**2)


def test_the_audit_stands_and_catches_a_planted_error() -> None:
    band, noise = _band(1.0), SimulatedNoise(np.random.default_rng(1))
    assert not audit(band, noise, epsilon=1.0, samples=20_000).violated
    planted = replace(band, top_weight=int(band.top_weight * 1.1))
    assert audit(planted, noise, epsilon=1.0, delta=0.0, samples=200_000).violated


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("coordinates", 2),
        ("levels", 0),
        ("levels", 257),
        ("width", 0),
        ("top_weight", 5),
        ("other_weight", -1),
    ],
)
def test_wrong_fields_are_refused(field: str, value: int) -> None:
    with pytest.raises(InvalidValue):
        _band(1.0, **{field: value})
