"""Samplers of every noise source, tested against their distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbandits.privacy.noise import NoiseSource, _exact as exact, _max_norm_radius as max_norm_radius
from dpbandits.privacy.noise._coins import Coins
from dpbandits.privacy.noise._laplace_laws import PolyaLaw
from dpbandits.privacy.noise._secure import SecureNoise

from . import laws
from .laws import FALSE_ALARM, SOURCES, Law, agree, fits, has_no_holes, matches, noise_source


@dataclass(frozen=True)
class Case:
    """A sampler, its distribution at the same and at nearby parameters, and a sample size."""

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
    Case("polya_sums", (2, 5), 4.0, 300_000, laws.polya_sum),
    Case("polya_sums", (9, 4), 12.0, 60_000, laws.polya_sum),
    Case("box_norm", (), 1e7, 4_000, laws.box_norm, (60,), _farthest),
]


@cache
def _sample(source: str, case: Case) -> Any:
    return case.draw(noise_source(source), case.count)


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
    _assert_follows(case.draw(noise_source("simulated"), case.count), case)


@pytest.mark.parametrize("rows", [2, 4, 9])
def test_shares_that_are_drawn_at_once_are_as_many_as_asked_for(rows: int) -> None:
    """Fewer shares than sum to a discrete Laplace variable, the exact number, and more."""
    law, coordinates = PolyaLaw(scale=3.0, shares=4), 60_000
    at_once = law.draw_total(rows, coordinates, noise_source("simulated"))
    one_by_one = law.draw(rows, coordinates, noise_source("simulated", 1)).sum(axis=0)
    for sample in (at_once, one_by_one):
        assert fits(sample, laws.polya_difference(rows, 4, 3.0))
        assert not fits(sample, laws.polya_difference(rows + 1, 4, 3.0))
    exactly = law.draw_total(rows, 300, noise_source("secure"))
    assert agree(exactly, at_once, laws.polya_difference(rows, 4, 3.0))
    assert fits(at_once, laws.laplace(3.0)) == (rows == 4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_sources_agree(case: Case) -> None:
    many = 10 * case.count
    exact = _sample("secure", case)
    assert agree(exact, case.draw(noise_source("simulated", 1), many), case.exact())
    assert not agree(exact, case.draw(noise_source("simulated", 2), many, 1.05), case.exact())


@pytest.mark.parametrize("source", SOURCES)
def test_coins_have_the_probabilities_asked_for(source: str) -> None:
    wanted, repeats = np.array([[0.0, 0.1, 1 / 3], [0.5, 0.9, 1.0]]), 500_000
    heads = noise_source(source).bernoulli(np.broadcast_to(wanted, (repeats, 2, 3))).sum(axis=0)
    assert heads[0, 0] == 0
    assert heads[1, 2] == repeats
    for count, p in zip(heads.ravel()[1:-1], wanted.ravel()[1:-1], strict=True):
        for factor in (0.95, 1.0, 1.05):
            due = factor * p * repeats
            assert matches([repeats - count, count], [repeats - due, due]) == (factor == 1)


@pytest.mark.parametrize("source", SOURCES)
def test_the_orders_of_a_row_are_equally_likely(source: str) -> None:
    repeats, orders = 24_000, list(permutations(range(4)))
    rows = noise_source(source).permute_rows(np.tile(np.arange(4, dtype=np.uint8), (repeats, 1)))
    assert rows.dtype == np.uint8
    expected = np.full(24, repeats / 24)
    assert matches([(rows == order).all(axis=1).sum() for order in orders], expected)
    rows[: repeats // 20] = orders[0]  # a shuffler that skips one row in twenty is detected
    assert not matches([(rows == order).all(axis=1).sum() for order in orders], expected)


@pytest.mark.parametrize("source", SOURCES)
def test_box_norm_has_its_joint_law(source: str) -> None:
    scale, reach, repeats = 0.8, 4, 50_000
    rows = noise_source(source).box_norm(scale, (repeats, 2))
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
    offsets = np.diff(
        np.array(max_norm_radius.offset_distribution(scale, coordinates, 80), dtype=float), prepend=0.0
    )
    sums = stats.nbinom(coordinates + 1, -np.expm1(-1 / scale)).pmf(np.arange(most))
    radii = np.arange(most)
    logarithms = coordinates * np.log(2 * radii + 1) - radii / scale
    direct = np.exp(logarithms - logarithms.max())
    np.testing.assert_allclose(np.convolve(offsets, sums)[:most], direct / direct.sum(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("source", SOURCES)
def test_shares_sum_to_a_discrete_laplace(source: str) -> None:
    parts, scale, repeats = 6, 6.0, 100_000
    shares = noise_source(source).polya(parts, scale, (2, parts, repeats)).sum(axis=1)
    assert fits(shares[0] - shares[1], laws.laplace(scale))
    assert not fits(shares[0] - shares[1], laws.laplace(1.05 * scale))
    assert not fits(shares[0] - shares[1], laws.laplace(0.95 * scale))


def test_a_client_draws_its_shares_quickly() -> None:
    shares = SecureNoise().polya(8192, 768.0, (2, 60))
    assert shares.shape == (2, 60)
    assert (shares >= 0).all()


def test_fair_coins_are_counted_the_same_by_bits_and_by_comparison() -> None:
    trials, repeats, law = 37, 60_000, laws.binomial(37, 0.5)
    bits = exact._fair_heads(Coins(), trials, 0.5, repeats)
    bytes_ = exact._biased_heads(Coins(), trials, 0.5, repeats)
    assert agree(bits, bytes_, law)
    assert not agree(bits, exact._biased_heads(Coins(), trials, 0.525, repeats), law)


@pytest.mark.parametrize("exponent", [Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(16, 5)])
def test_exponential_coins(exponent: Fraction) -> None:
    repeats = 1_300_000 if exponent < Fraction(1, 4) else 300_000
    heads = int(Coins().exponential(exponent, repeats).sum())
    for factor in (0.95, 1.0, 1.05):
        due = repeats * np.exp(-factor * float(exponent))
        assert matches([repeats - heads, heads], [repeats - due, due]) == (factor == 1)


# Noise without some low-order bits reveals a difference of one in the input. At these scales each remainder
# modulo 16 is equally likely, except for the geometric distribution, for which it is known.
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
    sample = getattr(noise_source(source), sampler)(*parameters, (count,))
    assert _low_bits_match(sample, scale)
    assert not _low_bits_match(np.where(np.arange(count) % 4 == 0, sample & ~1, sample), scale)


@pytest.mark.parametrize("source", SOURCES)
def test_low_order_bits_of_box_norm_are_not_missing(source: str) -> None:
    sample = noise_source(source).box_norm(1e5, (5_000, 3))
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
    ("ball_norm", (100.0, (4, 50))),
    ("permute_rows", (np.tile(np.arange(50, dtype=np.uint8), (4, 1)),)),
]


@pytest.mark.parametrize(("sampler", "arguments"), DRAWS)
def test_a_seed_or_a_key_repeats_draws_and_nothing_repeats_secure_noise(
    sampler: str, arguments: tuple[Any, ...]
) -> None:
    drawn = {
        name: [getattr(noise_source(name, 7), sampler)(*arguments) for _ in range(2)] for name in SOURCES
    }
    np.testing.assert_array_equal(*drawn["simulated"])
    np.testing.assert_array_equal(*drawn["keyed"])
    assert (drawn["secure"][0] != drawn["secure"][1]).any()
    for sample in (*drawn["secure"], *drawn["simulated"], *drawn["keyed"]):
        assert sample.shape == (4, 50)
        assert sample.dtype == (np.uint8 if sampler == "permute_rows" else np.int64)
