"""Lists of directions: probabilities, constants, errors, audit (docs/accounting-proofs.md, section 15)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp, norm

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import InvalidValue
from dpbandits.privacy import (
    Mechanism,
    NoiseSource,
    Payload,
    PrivacyRequest,
    SecureNoise,
    SimulatedNoise,
    audit,
    calibrate,
)
from dpbandits.privacy.auditing._game import reveal
from dpbandits.privacy.noise._directions import _mixed, directions
from dpbandits.privacy.trust import LocalList
from dpbandits.privacy.trust._direction_list import _unit_vectors
from dpbandits.privacy.trust._list_shape import alignment, best_list, infinite_list_variance

ALARM = 1e-6  # the false-alarm rate of every statistical test here


def _list(dimension: int, epsilon: float, bound: float = 1.0, shape: str = "ball") -> LocalList:
    request = PrivacyRequest(trust="local", epsilon=epsilon, delta=0, noise="list")
    found = calibrate(request, coordinates=dimension, cohort=10**6, bound=bound, shape=shape)
    assert isinstance(found, LocalList)
    return found


def _noise(seed: int) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def test_the_words_are_those_of_splitmix64() -> None:
    """The first outputs for the state 1234567, as published with the generator's reference code."""
    step = np.uint64(0x9E3779B97F4A7C15)
    states = np.uint64(1234567) + np.arange(1, 4, dtype=np.uint64) * step
    assert _mixed(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("dimension", [2, 3, 20])
def test_directions_are_unit_vectors_without_a_preferred_one(dimension: int) -> None:
    seeds = np.arange(40_000, dtype=np.uint64)
    found = directions(seeds, np.array([3], dtype=np.uint64), dimension)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-12)
    second = found.T @ found / len(found)
    limit = norm.isf(ALARM / dimension**2) / math.sqrt(len(found)) * 2
    assert np.abs(second - np.eye(dimension) / dimension).max() < limit
    assert np.abs(found.mean(axis=0)).max() < limit
    # Neighbouring directions of a list, and equal places of neighbouring lists, are independent.
    after = directions(seeds, np.array([4], dtype=np.uint64), dimension)
    assert abs(np.einsum("nd,nd->n", found, after).mean()) < limit
    assert abs(np.einsum("nd,nd->n", found[1:], found[:-1]).mean()) < limit


def test_a_direction_depends_on_its_own_seed_and_index_only() -> None:
    whole = directions(np.array([[5], [9]], dtype=np.uint64), np.arange(8, dtype=np.uint64)[None], 7)
    np.testing.assert_array_equal(
        whole[1, 3], directions(np.array([9], dtype=np.uint64), np.array([3], dtype=np.uint64), 7)[0]
    )


def _places(mechanism: LocalList, noise: SimulatedNoise, draws: int) -> IntArray:
    unit = np.eye(1, mechanism.coordinates)
    reports = mechanism.randomize(np.tile(unit * mechanism.bound, (draws, 1)), noise)
    return mechanism.places(reports, unit[0])


def test_each_place_of_the_list_has_its_weight() -> None:
    mechanism = replace(_list(4, 1.0), size=8, near=3)
    draws = 20_000
    chosen = np.bincount(_places(mechanism, _noise(1), draws), minlength=8)
    weights = np.where(np.arange(8) < 3, mechanism.top_weight, mechanism.other_weight).astype(float)

    def statistic(expected: FloatArray) -> float:
        shares = expected / expected.sum() * draws
        return float(((chosen - shares) ** 2 / shares).sum())

    assert statistic(weights) < chi2.isf(ALARM, 7)
    weights[:3] *= 1.1  # weights that are off by 10 % are rejected
    assert statistic(weights) > chi2.isf(ALARM, 7)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 10.0, 20.0, 40.0])
@pytest.mark.parametrize("dimension", [2, 20, 2000])
def test_the_weights_keep_what_was_asked_for(dimension: int, epsilon: float) -> None:
    mechanism = _list(dimension, epsilon)
    assert mechanism.event.delta(epsilon) == 0
    if epsilon <= 20:
        assert mechanism.event.pure_epsilon == pytest.approx(epsilon, rel=1e-6)
    assert mechanism.total_weight < 2**62


def test_the_constants_agree_with_closed_forms() -> None:
    """In three dimensions one coordinate is uniform, and its order statistics are known."""
    for size, near, ratio in ((64, 22, math.e), (4096, 4, 2e4), (256, 255, 1.5)):
        total = near * ratio + size - near
        means = 1 - 2 * np.arange(1, size + 1) / (size + 1)
        squares = means**2 + 4 * np.arange(1, size + 1) * np.arange(size, 0, -1) / (
            (size + 1) ** 2 * (size + 2)
        )
        weights = np.where(np.arange(size) < near, ratio, 1.0) / total
        found = alignment(3, size, near, ratio)
        assert found.mean == pytest.approx(means @ weights, rel=1e-10)
        assert found.square == pytest.approx(squares @ weights, rel=1e-10)


@pytest.mark.parametrize("dimension", [2, 8, 20, 50])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 10.0])
def test_the_variance_is_near_the_optimum(dimension: int, epsilon: float) -> None:
    mechanism = _list(dimension, epsilon)
    assert mechanism.alignment.mean**-2 - 1 <= 1.05 * infinite_list_variance(dimension, epsilon)
    assert mechanism.error_deviation(1) == pytest.approx(
        1 / (mechanism.alignment.mean * math.sqrt(dimension)), rel=1e-9
    )
    short = alignment(dimension, 8, 1, math.exp(epsilon))  # and a list that is too short is not
    assert short.mean**-2 - 1 > 1.05 * infinite_list_variance(dimension, epsilon)


def test_a_list_is_never_larger_than_a_small_device_can_hold() -> None:
    wide = _list(2000, 10.0)
    assert wide.size * wide.coordinates <= 2**21 < 2 * wide.size * wide.coordinates
    with pytest.raises(InvalidValue, match="size_times_coordinates"):
        replace(wide, size=4096)


def test_a_larger_epsilon_never_needs_a_shorter_list() -> None:
    sizes = [best_list(20, math.exp(epsilon))[0] for epsilon in (0.5, 1, 3, 5, 10)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 4096


@pytest.mark.parametrize("length", [0.0, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("dimension", [2, 5])
def test_unit_vectors_have_the_right_mean_and_spread(dimension: int, length: float) -> None:
    draws = 40_000
    inside = np.zeros((draws, dimension))
    inside[:, 1] = length
    found = _unit_vectors(inside, _noise(2))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-12)
    limit = norm.isf(ALARM / dimension**2) / math.sqrt(draws)
    assert np.abs(found.mean(axis=0) - inside[0]).max() < limit
    along = max(length**2, 1 / dimension)
    expected = np.full(dimension, (1 - along) / (dimension - 1))
    expected[1] = along
    assert np.abs(found.T @ found / draws - np.diag(expected)).max() < 2 * limit


@pytest.mark.parametrize(("dimension", "epsilon", "length"), [(2, 1.0, 0.3), (6, 1.0, 1.0), (20, 3.0, 0.5)])
def test_estimates_are_unbiased_and_no_direction_exceeds_the_variance(
    dimension: int, epsilon: float, length: float
) -> None:
    mechanism, draws = _list(dimension, epsilon, bound=2.0), 3000
    rows = np.zeros((draws, dimension))
    rows[:, 0] = 2.0 * length
    found = mechanism.decoded(mechanism.randomize(rows, _noise(3))) * (2.0 / mechanism.alignment.mean)
    error, deviation = found - rows, mechanism.error_deviation(1)
    assert np.abs(error.mean(axis=0)).max() < norm.isf(ALARM / dimension) * deviation / math.sqrt(draws) * 1.1
    largest = np.linalg.eigvalsh(error.T @ error / draws)[-1] / deviation**2
    assert largest < (1 + math.sqrt(dimension / draws) + norm.isf(ALARM) / math.sqrt(draws)) ** 2 * 1.05
    # The estimate for a list without the larger weight is far off.
    wrong = replace(mechanism, top_weight=mechanism.other_weight + 1)
    blind = mechanism.decoded(wrong.randomize(rows, _noise(3))) * (2.0 / mechanism.alignment.mean)
    assert np.abs((blind - rows).mean(axis=0)).max() > norm.isf(ALARM / dimension) * deviation / math.sqrt(
        draws
    )


def test_the_simulated_sum_has_the_distribution_of_the_real_one() -> None:
    mechanism = _list(3, 2.0)
    rows = np.random.default_rng(4).normal(size=(12, 3)) * 0.4
    real = np.array(
        [mechanism.analyze(mechanism.randomize(rows, _noise(n)), 12, _noise(0)) for n in range(1500)]
    )
    drawn = np.array([mechanism.simulate(rows, _noise(10**6 + n)) for n in range(1500)])
    for direction in (*np.eye(3), np.ones(3)):
        assert ks_2samp(real @ direction, drawn @ direction).pvalue > ALARM
    assert ks_2samp(np.abs(real[:, 0]), np.abs(1.4 * drawn[:, 0])).pvalue < ALARM


def test_a_report_has_eight_bytes_and_every_value_names_a_direction() -> None:
    mechanism = _list(20, 10.0)
    assert mechanism.message.size == 8
    report = mechanism.randomize(np.ones((1, 20)), SecureNoise())[0]
    assert mechanism.message.admitted(report[None])[0]
    ends = np.array([[0], [int(mechanism.message.high)]])
    np.testing.assert_allclose(np.linalg.norm(mechanism.decoded(ends), axis=1), 1)
    packed = int(mechanism.message.high + 1).to_bytes(8, "little")
    with pytest.raises(InvalidValue, match="payload"):
        mechanism.message.unpack([packed])


def test_one_liar_moves_the_mean_by_at_most_the_stated_reach() -> None:
    mechanism, reports = _list(5, 1.0, bound=3.0), 100
    honest = mechanism.randomize(np.zeros((reports, 5)), _noise(5))
    reach = mechanism.reach_of_one(reports)
    before = mechanism.analyze(honest, reports, _noise(0))
    furthest = 0.0
    for forged in (np.arange(300) * 7919 * 10**9) % int(mechanism.message.high):
        honest[0, 0] = forged
        furthest = max(
            furthest, float(np.linalg.norm(mechanism.analyze(honest, reports, _noise(0)) - before))
        )
    assert reach.length is not None
    assert 0.7 * reach.length < furthest <= reach.length * (1 + 1e-9)


def test_the_audit_stands_and_catches_planted_errors() -> None:
    mechanism, plays = replace(_list(3, 1.0), size=16, near=6), 60_000
    assert not audit(mechanism, _noise(6), epsilon=1.0, samples=plays).violated

    def weights_off(_: Mechanism, averages: FloatArray, noise: NoiseSource) -> Payload:
        return reveal(replace(mechanism, top_weight=int(mechanism.top_weight * 1.1)), averages, noise)

    assert audit(mechanism, _noise(7), epsilon=1.0, samples=plays, reveals=weights_off).violated

    def list_depends_on_data(_: Mechanism, averages: FloatArray, noise: NoiseSource) -> Payload:
        """Draw two reports and send the one that fits the data better."""
        one, other = (reveal(mechanism, averages, noise) for _ in range(2))
        better = np.einsum("nd,nd->n", mechanism.decoded(one) - mechanism.decoded(other), averages[:, 0]) > 0
        return np.where(better[:, None], one, other)

    assert audit(mechanism, _noise(8), epsilon=1.0, samples=8000, reveals=list_depends_on_data).violated


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("size", 3, "size"),
        ("size", 8192, "size"),
        ("near", 0, "heavy"),
        ("near", 10**6, "heavy"),
        ("top_weight", 1, "top_weight"),
        ("top_weight", 2**70, "top_weight"),
        ("other_weight", 0, "other_weight"),
        ("coordinates", 1, "coordinates"),
    ],
)
def test_wrong_fields_are_refused(field: str, value: int, named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        replace(_list(4, 1.0), **{field: value})  # type: ignore[arg-type]
