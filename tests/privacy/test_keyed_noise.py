"""Keyed noise: equal keys and contexts repeat it, and otherwise it looks random."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.privacy.noise._coins import Coins
from dpbandits.privacy.noise._keyed import KeyedNoise, KeyedStream

from .laws import matches

KEY = bytes(range(32))
CONTEXT = [b"study", b"plan", (1).to_bytes(8), (2).to_bytes(8)]


def test_the_stream_is_shake256_of_key_context_and_counter() -> None:
    """An independent implementation of the documented encoding."""
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in CONTEXT)
    prefix = b"dpbandits noise v1" + KEY + len(CONTEXT).to_bytes(8, "big") + parts
    blocks = [hashlib.shake_256(prefix + i.to_bytes(8, "big")).digest(1024) for i in range(3)]
    stream = KeyedStream(KEY, CONTEXT)
    taken = [stream.random_bytes(count) for count in (0, 1, 1022, 3, 2046)]
    assert b"".join(taken) == b"".join(blocks)


GOLDEN: list[tuple[str, tuple[Any, ...], list[Any]]] = [
    ("discrete_gaussian", (1000.5, (6,)), [-70, -1332, 84, -364, -1103, -561]),
    ("discrete_laplace", (1000.5, (6,)), [199, 827, 206, 749, -2152, -935]),
    ("box_norm", (12.8, (2, 4)), [[31, 19, -19, 44], [-15, 74, -72, 20]]),
    ("ball_norm", (12.8, (2, 4)), [[1, 24, 3, -15], [28, 34, -13, -17]]),
    ("bernoulli", (np.full(12, 0.3),), [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("binomial", (1000, 0.5, (5,)), [491, 501, 515, 485, 525]),
    ("binomial", (1000, 0.3, (5,)), [314, 311, 295, 284, 296]),
    ("permute_rows", (np.arange(10, dtype=np.uint8).reshape(1, 10),), [[1, 5, 9, 3, 0, 4, 7, 6, 2, 8]]),
]


@pytest.mark.parametrize(("sampler", "arguments", "expected"), GOLDEN)
def test_draws_are_the_same_on_every_machine(
    sampler: str, arguments: tuple[Any, ...], expected: list[Any]
) -> None:
    assert getattr(KeyedNoise(KEY, CONTEXT), sampler)(*arguments).tolist() == expected


OTHERS = [
    (KEY[:-1] + b"\x00", CONTEXT),
    (KEY, CONTEXT[:-1]),
    (KEY, [*CONTEXT, b""]),
    (KEY, [b"studyplan", *CONTEXT[2:]]),
    (KEY, [b"studyp", b"lan", *CONTEXT[2:]]),
    (KEY, [b"", *CONTEXT]),
    (KEY, CONTEXT[::-1]),
    (KEY, []),
]


def test_another_key_or_context_gives_other_noise() -> None:
    drawn = [
        tuple(KeyedNoise(key, context).discrete_gaussian(1e6, (8,)).tolist())
        for key, context in [(KEY, CONTEXT), *OTHERS]
    ]
    assert len(set(drawn)) == len(drawn)


def test_a_source_goes_on_and_does_not_repeat_itself() -> None:
    noise = KeyedNoise(KEY, CONTEXT)
    first, second = (noise.discrete_laplace(1e6, (8,)).tolist() for _ in range(2))
    assert first != second


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_a_key_has_32_bytes(key: bytes) -> None:
    with pytest.raises(InvalidValue, match="key: got .* bytes, expected 32 secret bytes"):
        KeyedNoise(key, CONTEXT)


@pytest.mark.parametrize("bound", [1, 3, 256, 257, 3 * 2**70])
def test_integers_below_a_bound_are_uniform(bound: int) -> None:
    coins, repeats = Coins(KeyedStream(KEY, [b"below"]).random_bytes), 30_000
    drawn = [coins.integer(bound) for _ in range(repeats)]
    assert 0 <= min(drawn) <= max(drawn) < bound
    cells = min(bound, 12)
    if cells > 1:
        counts = np.bincount([cells * value // bound for value in drawn], minlength=cells)
        due = np.array([-(-(k + 1) * bound // cells) + (k * bound // -cells) for k in range(cells)])
        assert matches(counts, repeats * due / bound)


@pytest.mark.parametrize("exponent", [Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(16, 5)])
def test_single_exponential_coins(exponent: Fraction) -> None:
    """A numerator and a denominator of 100 bits; the false-alarm rate is 10⁻⁶; a 5 % error is rejected."""
    coins = Coins(KeyedStream(KEY, [b"exponential"]).random_bytes)
    repeats, unit = 1_300_000 if exponent < Fraction(1, 4) else 300_000, 2**100 - 3
    terms = exponent.numerator * unit, exponent.denominator * unit
    heads = sum(coins.exponential_once(*terms) for _ in range(repeats))
    for factor in (0.95, 1.0, 1.05):
        due = repeats * np.exp(-factor * float(exponent))
        assert matches([repeats - heads, heads], [repeats - due, due]) == (factor == 1)


@pytest.mark.parametrize("denominator", [1, 7, 2**53])
def test_exponential_coins_of_many_exponents(denominator: int) -> None:
    coins, repeats = Coins(KeyedStream(KEY, [b"many"]).random_bytes), 300_000
    numerators = np.unique(np.array([0, denominator // 2, denominator], dtype=np.uint64))
    heads = coins.exponentials(np.tile(numerators, repeats), denominator).reshape(repeats, -1).sum(axis=0)
    for numerator, count in zip(numerators.tolist(), heads, strict=True):
        due = repeats * np.exp(-numerator / denominator)
        assert count == repeats if numerator == 0 else matches([repeats - count, count], [repeats - due, due])
