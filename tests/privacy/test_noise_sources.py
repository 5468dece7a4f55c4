from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbandits.errors import InvalidValue
from dpbandits.privacy import coins, cube, secure
from dpbandits.privacy.noise import NoiseSource, SimulatedNoise
from dpbandits.privacy.secure import SecureNoise, require_secure

from . import laws
from .laws import FALSE_ALARM, Law, agree, fits, has_no_holes, matches

SOURCES = ["secure", "simulated"]


def _source(name: str, seed: int = 0) -> NoiseSource:
    return SecureNoise() if name == "secure" else SimulatedNoise(np.random.default_rng(seed))


@dataclass(frozen=True)
class Case:
    """A sampler at some parameters, its law at those and at nearby ones, and a sample size."""

    sampler: str
    fixed: tuple[Any, ...]
    scale: float
    count: int
    law: Callable[..., Law]
    tail: tuple[int, ...] = ()
    look: Callable[[Any], Any] = np.ravel

    def __str__(self) -> str:
        return "-".join(map(str, (self.sampler, *self.fixed, self.scale, *self.tail, self.law.__name__)))

    def exact(self, factor: float = 1.0) -> Law:
        return self.law(*self.fixed, factor * self.scale, *self.tail)

    def draw(self, noise: NoiseSource, count: int, factor: float = 1.0) -> Any:
        sampler = getattr(noise, self.sampler)
        return self.look(sampler(*self.fixed, factor * self.scale, (count, *self.tail)))


def _farthest(rows: Any) -> Any:
    return np.abs(rows).max(axis=1)


def _last(rows: Any) -> Any:
    return rows[:, -1]


CASES = [
    Case("binomial", (31,), 0.5, 30_000, laws.binomial),
    Case("binomial", (2_003,), 0.5, 10_000, laws.binomial),
    Case("binomial", (31,), 0.3, 30_000, laws.binomial),
    Case("binomial", (7,), 1 / 3, 120_000, laws.binomial),
    Case("binomial", (40,), 0.004, 400_000, laws.binomial),
    Case("binomial", (900,), 0.9, 10_000, laws.binomial),
    Case("poisson", (), 0.37, 200_000, laws.poisson),
    Case("poisson", (), 1.0, 100_000, laws.poisson),
    Case("poisson", (), 20.5, 40_000, laws.poisson),
    Case("poisson", (), 400.0, 3_000, laws.poisson),
    Case("discrete_gaussian", (), 0.3, 66_000, laws.gaussian),
    Case("discrete_gaussian", (), 3.7, 50_000, laws.gaussian),
    Case("discrete_gaussian", (), 1e6, 50_000, laws.gaussian),
    Case("discrete_laplace", (), 0.3, 80_000, laws.laplace),
    Case("discrete_laplace", (), 12.8, 100_000, laws.laplace),
    Case("discrete_laplace", (), 1e6, 90_000, laws.laplace),
    Case("polya", (1,), 5.0, 100_000, laws.polya),
    Case("polya", (2,), 0.7, 170_000, laws.polya),
    Case("polya", (3,), 20.0, 280_000, laws.polya),
    Case("polya", (8,), 2.5, 640_000, laws.polya),
    Case("box_norm", (), 3.0, 45_000, laws.box_norm, (2,), _farthest),
    Case("box_norm", (), 0.4, 1_400, laws.box_norm, (60,), _farthest),
    Case("box_norm", (), 12.8, 1_400, laws.box_norm, (60,), _farthest),
    Case("box_norm", (), 200.0, 8_500, laws.box_norm, (10,), _farthest),
    Case("box_norm", (), 1.6, 60_000, laws.box_coordinate, (3,), _last),
]
SIMULATED_CASES = [
    Case("discrete_gaussian", (), 0.9, 200_000, laws.gaussian),
    Case("discrete_gaussian", (), 1e7, 200_000, laws.gaussian),
    Case("discrete_laplace", (), 1e7, 200_000, laws.laplace),
    Case("polya", (20,), 768.0, 1_800_000, laws.polya),
    Case("polya", (5,), 1e7, 450_000, laws.polya),
    Case("box_norm", (), 1e7, 4_000, laws.box_norm, (60,), _farthest),
]


@cache
def _sample(source: str, case: Case) -> Any:
    return case.draw(_source(source), case.count)


def _assert_follows(sample: Any, case: Case) -> None:
    assert sample.dtype == np.int64
    assert fits(sample, case.exact())
    assert not fits(sample, case.exact(1.05))
    assert not fits(sample, case.exact(0.95))
    assert has_no_holes(sample, case.exact())


@pytest.mark.parametrize("case", CASES + SIMULATED_CASES, ids=str)
def test_the_samples_are_large_enough_to_see_five_percent(case: Case) -> None:
    for factor in (0.95, 1.05):
        assert laws.miss_rate(case.count, case.exact(), case.exact(factor)) < FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_sampler_follows_its_law_and_no_other(case: Case, source: str) -> None:
    _assert_follows(_sample(source, case), case)


@pytest.mark.parametrize("case", SIMULATED_CASES, ids=str)
def test_the_simulation_is_right_where_exact_draws_are_slow(case: Case) -> None:
    _assert_follows(case.draw(_source("simulated"), case.count), case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_sources_agree(case: Case) -> None:
    many = 10 * case.count
    exact = _sample("secure", case)
    assert agree(exact, case.draw(_source("simulated", 1), many), case.exact())
    assert not agree(exact, case.draw(_source("simulated", 2), many, 1.05), case.exact())


@pytest.mark.parametrize("source", SOURCES)
def test_coins_have_the_probabilities_asked_for(source: str) -> None:
    wanted, repeats = np.array([[0.0, 0.1, 1 / 3], [0.5, 0.9, 1.0]]), 500_000
    heads = _source(source).bernoulli(np.broadcast_to(wanted, (repeats, 2, 3))).sum(axis=0)
    assert heads[0, 0] == 0
    assert heads[1, 2] == repeats
    for count, p in zip(heads.ravel()[1:-1], wanted.ravel()[1:-1], strict=True):
        for factor in (0.95, 1.0, 1.05):
            due = factor * p * repeats
            assert matches([repeats - count, count], [repeats - due, due]) == (factor == 1)


@pytest.mark.parametrize("source", SOURCES)
def test_the_orders_of_a_row_are_equally_likely(source: str) -> None:
    repeats, orders = 24_000, list(permutations(range(4)))
    rows = _source(source).permute_rows(np.tile(np.arange(4, dtype=np.uint8), (repeats, 1)))
    assert rows.dtype == np.uint8
    expected = np.full(24, repeats / 24)
    assert matches([(rows == order).all(axis=1).sum() for order in orders], expected)
    rows[: repeats // 20] = orders[0]  # a shuffler that forgets one row in twenty is caught
    assert not matches([(rows == order).all(axis=1).sum() for order in orders], expected)


@pytest.mark.parametrize("source", SOURCES)
def test_box_norm_has_its_joint_law(source: str) -> None:
    scale, reach, repeats = 0.8, 4, 50_000
    rows = _source(source).box_norm(scale, (repeats, 2))
    near = rows[np.abs(rows).max(axis=1) <= reach] + reach
    cells = np.bincount(near @ np.array([2 * reach + 1, 1]), minlength=(2 * reach + 1) ** 2)
    distance = np.abs(np.arange(-60, 61))
    for factor in (0.95, 1.0, 1.05):
        weights = np.exp(-np.maximum.outer(distance, distance) / (factor * scale))
        due = repeats * weights[60 - reach : 61 + reach, 60 - reach : 61 + reach].ravel() / weights.sum()
        counts, expected = np.append(cells, repeats - cells.sum()), np.append(due, repeats - due.sum())
        assert matches(counts, expected) == (factor == 1)


@pytest.mark.parametrize("coordinates", [1, 2, 7, 60])
@pytest.mark.parametrize("scale", [0.3, 1.7, 40.0])
def test_the_radius_is_an_offset_plus_geometrics(scale: float, coordinates: int) -> None:
    most = int((3 * coordinates + 40) * scale) + 40
    offsets = np.diff(np.array(cube.offset_distribution(scale, coordinates, 80), dtype=float), prepend=0.0)
    sums = stats.nbinom(coordinates + 1, -np.expm1(-1 / scale)).pmf(np.arange(most))
    radii = np.arange(most)
    logarithms = coordinates * np.log(2 * radii + 1) - radii / scale
    direct = np.exp(logarithms - logarithms.max())
    np.testing.assert_allclose(np.convolve(offsets, sums)[:most], direct / direct.sum(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("source", SOURCES)
def test_shares_sum_to_a_discrete_laplace(source: str) -> None:
    parts, scale, repeats = 6, 6.0, 100_000
    shares = _source(source).polya(parts, scale, (2, parts, repeats)).sum(axis=1)
    assert fits(shares[0] - shares[1], laws.laplace(scale))
    assert not fits(shares[0] - shares[1], laws.laplace(1.05 * scale))
    assert not fits(shares[0] - shares[1], laws.laplace(0.95 * scale))


def test_a_client_draws_its_shares_in_a_blink() -> None:
    shares = SecureNoise().polya(8192, 768.0, (2, 60))
    assert shares.shape == (2, 60)
    assert (shares >= 0).all()


def test_fair_coins_are_counted_the_same_by_bits_and_by_comparison() -> None:
    trials, repeats, law = 37, 60_000, laws.binomial(37, 0.5)
    bits = secure._fair_heads(trials, 0.5, repeats)
    bytes_ = secure._biased_heads(trials, 0.5, repeats)
    assert agree(bits, bytes_, law)
    assert not agree(bits, secure._biased_heads(trials, 0.525, repeats), law)


@pytest.mark.parametrize("exponent", [Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(16, 5)])
def test_exponential_coins(exponent: Fraction) -> None:
    repeats = 1_300_000 if exponent < Fraction(1, 4) else 300_000
    heads = int(coins.exponential(exponent, repeats).sum())
    for factor in (0.95, 1.0, 1.05):
        due = repeats * np.exp(-factor * float(exponent))
        assert matches([repeats - heads, heads], [repeats - due, due]) == (factor == 1)


# Noise that misses some low-order bits lets a difference of one in the input be seen. At these scales each
# remainder modulo 16 is equally likely, but for the geometric, of which it is known.
LOW_BITS: list[tuple[str, tuple[Any, ...], int, float]] = [
    ("binomial", (10_007, 0.5), 40_000, np.inf),
    ("binomial", (10_007, 0.3), 4_000, np.inf),
    ("poisson", (400.0,), 4_000, np.inf),
    ("discrete_gaussian", (1e5,), 40_000, np.inf),
    ("discrete_laplace", (1e5,), 40_000, np.inf),
    ("polya", (1, 2e3), 4_000, 2e3),
]


def _low_bits_match(sample: Any, scale: float) -> bool:
    weights = np.exp(-np.arange(16) / scale)
    return matches(np.bincount(sample.ravel() % 16, minlength=16), sample.size * weights / weights.sum())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("sampler", "parameters", "count", "scale"), LOW_BITS)
def test_low_order_bits_are_not_missing(
    source: str, sampler: str, parameters: tuple[Any, ...], count: int, scale: float
) -> None:
    sample = getattr(_source(source), sampler)(*parameters, (count,))
    assert _low_bits_match(sample, scale)
    assert not _low_bits_match(np.where(np.arange(count) % 4 == 0, sample & ~1, sample), scale)


@pytest.mark.parametrize("source", SOURCES)
def test_low_order_bits_of_box_norm_are_not_missing(source: str) -> None:
    sample = _source(source).box_norm(1e5, (5_000, 3))
    for coordinate in sample.T:
        assert _low_bits_match(coordinate, np.inf)


def test_floating_point_noise_is_seen_by_these_tests() -> None:
    # A Laplace variable in single precision, rounded: above 2²⁴ it has no odd values.
    rng = np.random.default_rng(0)
    sample = rng.laplace(scale=1e8, size=40_000).astype(np.float32).astype(np.int64)
    assert not _low_bits_match(sample, np.inf)
    case = CASES[11]
    assert not has_no_holes(_sample("secure", case) & ~1, case.exact())


DRAWS: list[tuple[str, tuple[Any, ...]]] = [
    ("bernoulli", (np.full((4, 50), 0.5),)),
    ("binomial", (1000, 0.5, (4, 50))),
    ("binomial", (1000, 0.3, (4, 50))),
    ("poisson", (10.0, (4, 50))),
    ("discrete_gaussian", (1e6, (4, 50))),
    ("discrete_laplace", (1e6, (4, 50))),
    ("polya", (2, 30.0, (4, 50))),
    ("box_norm", (100.0, (4, 50))),
    ("permute_rows", (np.tile(np.arange(50, dtype=np.uint8), (4, 1)),)),
]


@pytest.mark.parametrize(("sampler", "arguments"), DRAWS)
def test_a_seed_repeats_the_simulation_and_nothing_repeats_secure_noise(
    sampler: str, arguments: tuple[Any, ...]
) -> None:
    drawn = {name: [getattr(_source(name, 7), sampler)(*arguments) for _ in range(2)] for name in SOURCES}
    np.testing.assert_array_equal(*drawn["simulated"])
    assert (drawn["secure"][0] != drawn["secure"][1]).any()
    for sample in (*drawn["secure"], *drawn["simulated"]):
        assert sample.shape == (4, 50)
        assert sample.dtype == (np.uint8 if sampler == "permute_rows" else np.int64)


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_drawn_for_an_empty_shape(source: str) -> None:
    noise = _source(source)
    assert noise.bernoulli(np.empty((0, 3))).shape == (0, 3)
    assert noise.binomial(5, 0.5, (0,)).shape == (0,)
    assert noise.binomial(0, 0.3, (2,)).tolist() == [0, 0]
    assert noise.poisson(0.0, (2,)).tolist() == [0, 0]
    assert noise.poisson(3.0, (0,)).shape == (0,)
    assert noise.discrete_gaussian(1.0, (0, 2)).shape == (0, 2)
    assert noise.discrete_laplace(1.0, ()).shape == ()
    assert noise.polya(2, 1.0, (0,)).shape == (0,)
    assert noise.box_norm(1.0, (0, 4)).shape == (0, 4)
    assert noise.permute_rows(np.empty((0, 4), dtype=np.uint8)).shape == (0, 4)
    assert noise.permute_rows(np.empty((4, 0), dtype=np.uint8)).shape == (4, 0)


NAN, INFINITY = float("nan"), float("inf")
BAD: list[tuple[str, tuple[Any, ...], str]] = [
    *[
        (sampler, (*fixed, scale, (2, 2)), r"scale: got .*, expected a number >= 0\.000976562 and <= ")
        for sampler in ("discrete_gaussian", "discrete_laplace", "polya", "box_norm")
        for fixed in [(3,) if sampler == "polya" else ()]
        for scale in (0.0, -1.0, NAN, INFINITY, 2.0**41, 2.0**-11, "1", True)
    ],
    *[("poisson", (mean, (2,)), "mean: got .* a number >= 0") for mean in (-1.0, NAN, INFINITY, 2.0**41)],
    *[("binomial", (9, p, (2,)), "probability: got .* >= 0 and <= 1") for p in (-0.1, 1.1, NAN, None)],
    *[("binomial", (n, 0.5, (2,)), "trials: got .* whole number") for n in (-1, 2.5, NAN, 2**41)],
    *[("polya", (n, 1.0, (2,)), "parts: got .* whole number") for n in (0, 2.5, 2**23)],
    *[("bernoulli", (np.array([0.5, p]),), "probabilities: .*>= 0 and <= 1") for p in (-0.1, 1.1, NAN)],
    *[("box_norm", (1.0, shape), "shape: .*coordinates") for shape in ((3,), (1, 2, 3))],
    ("box_norm", (1.0, (3, 0)), "coordinates: got 0"),
    ("box_norm", (1.0, (3, 4096)), "coordinates: got 4096"),
    ("discrete_laplace", (1.0, 3), "shape: got 3, expected a tuple"),
    ("discrete_laplace", (1.0, (-3,)), "shape: got -3"),
    ("permute_rows", (np.zeros(3, dtype=np.uint8),), "bits: got 1 dimensions of uint8"),
    ("permute_rows", (np.zeros((3, 3)),), "bits: got 2 dimensions of float64"),
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("sampler", "arguments", "message"), BAD)
def test_a_bad_parameter_is_named(
    source: str, sampler: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        getattr(_source(source), sampler)(*arguments)


def test_a_bad_probability_is_not_repeated_for_it_may_tell_a_reward() -> None:
    with pytest.raises(InvalidValue) as caught:
        SecureNoise().bernoulli(np.array([7.25]))
    assert "7.25" not in str(caught.value)


def test_a_probability_pushed_past_one_by_rounding_is_a_sure_coin() -> None:
    for source in SOURCES:
        assert _source(source).bernoulli(np.array([1 + 1e-15, -1e-15])).tolist() == [1, 0]


@pytest.mark.parametrize("source", SOURCES)
def test_the_largest_parameters_stay_inside_64_bits(source: str) -> None:
    noise, most = _source(source), 2.0**40
    for sample in (noise.discrete_gaussian(most, (100,)), noise.discrete_laplace(most, (100,))):
        assert 2**37 < np.abs(sample).mean() < 2**43
    rows = noise.box_norm(most, (3, 2000))
    assert 2**48 < np.abs(rows).max() < 2**53


def test_secure_noise_has_no_seed_no_floats_and_says_so() -> None:
    noise = SecureNoise()
    assert noise.simulated is False
    assert not hasattr(noise, "gaussian")
    with pytest.raises(AttributeError):
        noise.simulated = True  # type: ignore[misc,assignment]
    with pytest.raises(AttributeError):
        noise.seed = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        SecureNoise(np.random.default_rng(0))  # type: ignore[call-arg]


def test_simulated_noise_gets_through_no_secure_door() -> None:
    simulated = SimulatedNoise(np.random.default_rng(0))
    assert simulated.simulated is True
    with pytest.raises(AttributeError):
        simulated.simulated = False  # type: ignore[misc,assignment]
    with pytest.raises(InvalidValue, match="noise: got SimulatedNoise, expected SecureNoise"):
        require_secure(simulated)
    assert isinstance(require_secure(SecureNoise()), SecureNoise)


def test_the_simulation_keeps_its_floats() -> None:
    sample = SimulatedNoise(np.random.default_rng(0)).gaussian(2.0, (100_000,))
    assert stats.kstest(sample / 2, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(sample / 2.1, "norm").pvalue < FALSE_ALARM


def test_without_opendp_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    secure._measurement.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    for draw in (SecureNoise().discrete_gaussian, SecureNoise().discrete_laplace):
        with pytest.raises(InvalidValue, match=r"pip install 'dpbandits\[secure\]'"):
            draw(1.0, (2,))
    assert SecureNoise().binomial(3, 0.5, (2,)).shape == (2,)


# What happens once in 2⁶⁴ draws is tested with words of our own choice.


def _feed(monkeypatch: pytest.MonkeyPatch, *batches: list[int]) -> None:
    queue = iter(batches)

    def words(count: int) -> Any:
        batch = np.array(next(queue), dtype=np.uint64)
        assert batch.size == count
        return batch

    monkeypatch.setattr(coins, "words", words)


def test_a_coin_that_64_bits_leave_open_is_decided_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2⁻⁷⁰ is 64 zeros, and then 2⁻⁶ = 2⁵⁸/2⁶⁴.
    _feed(monkeypatch, [0, 0, 1], [2**58 - 1, 2**58], [1])
    assert coins.flip(np.full(3, 2.0**-70)).tolist() == [True, False, False]


def test_words_that_would_favour_a_remainder_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2⁶⁴ mod 3 = 1 and 2⁶⁴ mod (2⁶³ + 1) = 2⁶³ − 1.
    _feed(monkeypatch, [0, 5, 2**63 - 2], [0, 2**63 - 1], [4])
    assert coins.below(np.array([3, 3, 2**63 + 1], dtype=np.uint64)).tolist() == [1, 2, 2**63 - 1]


def test_equal_keys_of_a_row_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _feed(monkeypatch, [5, 5, 9, 3, 2, 1], [7, 8, 7], [3, 1, 2])
    bits = np.array([[10, 20, 30], [40, 50, 60]], dtype=np.uint8)
    assert SecureNoise().permute_rows(bits).tolist() == [[20, 30, 10], [60, 50, 40]]


@pytest.mark.parametrize(("later_bits", "offset"), [(0, 3), (-1, 4)])
def test_an_offset_that_80_digits_leave_open_is_decided_by_more(later_bits: int, offset: int) -> None:
    bits = 4 * cube.DIGITS
    edge = int(Fraction(cube.offset_distribution(1.5, 9, 4 * cube.DIGITS)[3]) * 2**bits)
    asked = []

    def random_bits(count: int) -> int:
        asked.append(count)
        return edge if len(asked) == 1 else later_bits % 2**count

    assert cube.exact_offset(1.5, 9, random_bits) == offset
    assert asked == [bits, bits]
