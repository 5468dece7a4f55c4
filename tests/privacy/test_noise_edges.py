"""Noise sources at the edges of their ranges, and what they refuse."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbandits.errors import InvalidValue
from dpbandits.privacy.noise import _max_norm_radius as max_norm_radius, _secure as secure
from dpbandits.privacy.noise._coins import Coins
from dpbandits.privacy.noise._keyed import KeyedNoise
from dpbandits.privacy.noise._secure import SecureNoise, require_secure
from dpbandits.privacy.noise._sources import SimulatedNoise

from .laws import FALSE_ALARM, SOURCES, noise_source


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_drawn_for_an_empty_shape(source: str) -> None:
    noise = noise_source(source)
    assert noise.bernoulli(np.empty((0, 3))).shape == (0, 3)
    assert noise.binomial(5, 0.5, (0,)).shape == (0,)
    assert noise.binomial(0, 0.3, (2,)).tolist() == [0, 0]
    assert noise.poisson(0.0, (2,)).tolist() == [0, 0]
    assert noise.poisson(3.0, (0,)).shape == (0,)
    assert noise.discrete_gaussian(1.0, (0, 2)).shape == (0, 2)
    assert noise.discrete_laplace(1.0, ()).shape == ()
    assert noise.polya(2, 1.0, (0,)).shape == (0,)
    assert noise.box_norm(1.0, (0, 4)).shape == (0, 4)
    assert noise.ball_norm(1.0, (0, 4)).shape == (0, 4)
    assert noise.permute_rows(np.empty((0, 4), dtype=np.uint8)).shape == (0, 4)
    assert noise.permute_rows(np.empty((4, 0), dtype=np.uint8)).shape == (4, 0)


NAN, INFINITY = float("nan"), float("inf")
BAD: list[tuple[str, tuple[Any, ...], str]] = [
    *[
        (sampler, (*fixed, scale, (2, 2)), r"scale: got .*, expected a number >= 0\.000976562 and <= ")
        for sampler in ("discrete_gaussian", "discrete_laplace", "polya", "box_norm", "ball_norm")
        for fixed in [(3,) if sampler == "polya" else ()]
        for scale in (0.0, -1.0, NAN, INFINITY, 2.0**41, 2.0**-11, "1", True)
    ],
    *[("poisson", (mean, (2,)), "mean: got .* a number >= 0") for mean in (-1.0, NAN, INFINITY, 2.0**41)],
    *[("binomial", (9, p, (2,)), "probability: got .* >= 0 and <= 1") for p in (-0.1, 1.1, NAN, None)],
    *[("binomial", (n, 0.5, (2,)), "trials: got .* whole number") for n in (-1, 2.5, NAN, 2**41)],
    *[("polya", (n, 1.0, (2,)), "parts: got .* whole number") for n in (0, 2.5, 2**23)],
    *[("bernoulli", (np.array([0.5, p]),), "probabilities: .*>= 0 and <= 1") for p in (-0.1, 1.1, NAN)],
    *[("box_norm", (1.0, shape), "shape: .*coordinates") for shape in ((3,), (1, 2, 3))],
    ("polya", (2**20, 2.0**25, (2,)), r"scale: got 33554432\.0, .* <= 1\.67772e\+07"),
    ("box_norm", (1.0, (3, 0)), "coordinates: got 0"),
    ("box_norm", (1.0, (3, 4096)), "coordinates: got 4096"),
    ("ball_norm", (1.0, (3, 4096)), "coordinates: got 4096"),
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
        getattr(noise_source(source), sampler)(*arguments)


@pytest.mark.parametrize("count", [0, -1, 2.5, 3 * 2**22 + 1])
def test_a_sum_of_too_few_or_too_many_parts_is_refused(count: Any) -> None:
    with pytest.raises(InvalidValue, match=r"count: got .* a whole number >= 1 and <= 12,582,912"):
        SimulatedNoise(np.random.default_rng(0)).polya_sums(count, 3, 1.0, (2,))


def test_a_bad_probability_is_not_repeated_for_it_may_tell_a_reward() -> None:
    with pytest.raises(InvalidValue) as caught:
        SecureNoise().bernoulli(np.array([7.25]))
    assert "7.25" not in str(caught.value)


def test_a_probability_pushed_past_one_by_rounding_is_a_sure_coin() -> None:
    for source in SOURCES:
        assert noise_source(source).bernoulli(np.array([1 + 1e-15, -1e-15])).tolist() == [1, 0]


@pytest.mark.parametrize("source", SOURCES)
def test_the_largest_parameters_stay_inside_64_bits(source: str) -> None:
    noise, most = noise_source(source), 2.0**40
    for sample in (noise.discrete_gaussian(most, (100,)), noise.discrete_laplace(most, (100,))):
        assert 2**37 < np.abs(sample).mean() < 2**43
    if isinstance(noise, SimulatedNoise):
        assert np.all(noise.polya_sums(2**22, 1, most, (100,)) > 2**61)
    rows = noise.box_norm(most, (3, 2000))
    assert 2**48 < np.abs(rows).max() < 2**53
    assert 2**40 < np.abs(noise.ball_norm(most, (1, 2000))).max() < 2**53


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


def test_simulated_noise_is_refused_where_secure_noise_is_required() -> None:
    simulated = SimulatedNoise(np.random.default_rng(0))
    assert simulated.simulated is True
    with pytest.raises(AttributeError):
        simulated.simulated = False  # type: ignore[misc,assignment]
    with pytest.raises(InvalidValue, match="noise: got SimulatedNoise, expected SecureNoise or KeyedNoise"):
        require_secure(simulated)
    assert isinstance(require_secure(SecureNoise()), SecureNoise)
    keyed = KeyedNoise(bytes(32), [])
    assert require_secure(keyed) is keyed
    assert keyed.simulated is False


class _Posing:
    """A source that claims that its draws may leave the machine."""

    simulated = False


def test_another_source_cannot_claim_to_be_secure() -> None:
    with pytest.raises(InvalidValue, match="noise: got _Posing"):
        require_secure(_Posing())  # type: ignore[arg-type]


def test_the_simulation_keeps_its_floats() -> None:
    sample = SimulatedNoise(np.random.default_rng(0)).gaussian(2.0, (100_000,))
    assert stats.kstest(sample / 2, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(sample / 2.1, "norm").pvalue < FALSE_ALARM


def test_without_opendp_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    secure._measurement.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    for draw in (SecureNoise().discrete_gaussian, SecureNoise().discrete_laplace):
        with pytest.raises(InvalidValue, match=r"pip install '\.\[secure\]'"):
            draw(1.0, (2,))
    assert SecureNoise().binomial(3, 0.5, (2,)).shape == (2,)


# Events of probability 2⁻⁶⁴ are tested with chosen words.


def _feed(monkeypatch: pytest.MonkeyPatch, *batches: list[int]) -> None:
    queue = iter(batches)

    def words(_coins: Coins, count: int) -> Any:
        batch = np.array(next(queue), dtype=np.uint64)
        assert batch.size == count
        return batch

    monkeypatch.setattr(Coins, "words", words)


def test_a_coin_that_64_bits_leave_open_is_decided_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2⁻⁷⁰ is 64 zeros, and then 2⁻⁶ = 2⁵⁸/2⁶⁴.
    _feed(monkeypatch, [0, 0, 1], [2**58 - 1, 2**58], [1])
    assert Coins().flip(np.full(3, 2.0**-70)).tolist() == [True, False, False]


def test_words_that_would_favour_a_remainder_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2⁶⁴ mod 3 = 1 and 2⁶⁴ mod (2⁶³ + 1) = 2⁶³ − 1.
    _feed(monkeypatch, [0, 5, 2**63 - 2], [0, 2**63 - 1], [4])
    assert Coins().below(np.array([3, 3, 2**63 + 1], dtype=np.uint64)).tolist() == [1, 2, 2**63 - 1]


def test_equal_keys_of_a_row_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _feed(monkeypatch, [5, 5, 9, 3, 2, 1], [7, 8, 7], [3, 1, 2])
    bits = np.array([[10, 20, 30], [40, 50, 60]], dtype=np.uint8)
    assert SecureNoise().permute_rows(bits).tolist() == [[20, 30, 10], [60, 50, 40]]


@pytest.mark.parametrize(("later_bits", "offset"), [(0, 3), (-1, 4)])
def test_an_offset_that_80_digits_leave_open_is_decided_by_more(later_bits: int, offset: int) -> None:
    bits = 4 * max_norm_radius.DIGITS
    edge = int(Fraction(max_norm_radius.offset_distribution(1.5, 9, 4 * max_norm_radius.DIGITS)[3]) * 2**bits)
    asked = []

    def random_bits(count: int) -> int:
        asked.append(count)
        return edge if len(asked) == 1 else later_bits % 2**count

    assert max_norm_radius.exact_offset(1.5, 9, random_bits) == offset
    assert asked == [bits, bits]
