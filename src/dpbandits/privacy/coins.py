"""Exact coins from the operating system's generator: the only randomness is uniform bits.

No probability is rounded. The time that a draw takes depends on what is drawn; whoever can measure it on the
client's own machine learns something about the noise.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpbandits.privacy.noise import FloatArray, IntArray

Words = NDArray[np.uint64]
Coins = NDArray[np.bool_]

BLOCK = 1 << 18  # so many coins are held in memory at a time

random_bits: Callable[[int], int] = secrets.randbits


def random_bytes(count: int) -> NDArray[np.uint8]:
    """Uniform bytes."""
    return np.frombuffer(secrets.token_bytes(count), dtype=np.uint8)


def words(count: int) -> Words:
    """Uniform 64-bit words."""
    return np.frombuffer(bytearray(secrets.token_bytes(8 * count)), dtype=np.uint64)


def fair(count: int) -> Coins:
    """Fair coins, a bit each."""
    return np.unpackbits(random_bytes((count + 7) // 8), count=count).view(np.bool_)


def below(bounds: Words) -> Words:
    """A uniform integer in {0..bound−1} for each bound ≥ 1.

    Without the 2⁶⁴ mod bound lowest words, as many words are left for each remainder.
    """
    drawn = words(bounds.size)
    excess = (~bounds + np.uint64(1)) % bounds  # (2⁶⁴ − bound) mod bound
    again = np.flatnonzero(drawn < excess)
    while again.size:
        drawn[again] = words(again.size)
        again = again[drawn[again] < excess[again]]
    return drawn % bounds


def rational(numerators: Words, denominators: Words) -> Coins:
    """Coins of probability numerator/denominator."""
    return below(denominators) < numerators


def flip(probabilities: FloatArray) -> Coins:
    """Coins of exactly these probabilities, every one a float in [0, 1].

    Multiplying by 2⁶⁴, flooring and subtracting are exact in floats. A uniform real number whose first 64
    bits are `drawn` is below p when drawn < ⌊2⁶⁴p⌋, and not when drawn > ⌊2⁶⁴p⌋. When they are equal, its
    other bits decide, compared with the rest of p in the same way.
    """
    sure = probabilities >= 1
    scaled = np.ldexp(np.where(sure, 0.0, probabilities), 64)
    floor = np.floor(scaled)
    drawn, threshold = words(probabilities.size), floor.astype(np.uint64)
    heads: Coins = (drawn < threshold) | sure
    ties = np.flatnonzero((drawn == threshold) & ~sure)
    if ties.size:
        heads[ties] = flip(scaled[ties] - floor[ties])
    return heads


def exponential(exponent: Fraction, count: int) -> Coins:
    """Coins of probability exp(−exponent), for an exponent ≥ 0 whose terms are below 2⁶³.

    exp(−3.2) is the chance that three coins of exp(−1) and one of exp(−0.2) all show heads.
    """
    heads = _exponential_below_one(exponent % 1, count)
    for _ in range(int(exponent)):
        left = np.flatnonzero(heads)
        if not left.size:
            break
        heads[left] = _exponential_below_one(Fraction(1), left.size)
    return heads


def _exponential_below_one(exponent: Fraction, count: int) -> Coins:
    """Flip coins of probability γ/1, γ/2, γ/3.. until one shows tails; heads if that took an odd number.

    More than k flips happen with probability γ^k/k!, and Σ_k (−γ)^k/k! = exp(−γ) sums, with signs, the
    chances of stopping at an odd k. A coin of γ/k is a coin of γ and one of 1/k.
    """
    odd = np.ones(count, dtype=np.bool_)
    live = np.flatnonzero(_scalar(exponent, count))
    flips = 1
    while live.size:
        flips += 1
        odd[live] = flips % 2 == 1
        live = live[_scalar(Fraction(1, flips), live.size)]
        live = live[_scalar(exponent, live.size)]
    return odd


def _scalar(probability: Fraction, count: int) -> Coins:
    if probability == 1:
        return np.ones(count, dtype=np.bool_)
    bounds = np.full(count, probability.denominator, dtype=np.uint64)
    return below(bounds) < np.uint64(probability.numerator)


def first_accepted(count: int, acceptance: float, attempt: Callable[[int], IntArray]) -> IntArray:
    """The results of the first `count` attempts that succeed; −1 stands for one that does not.

    `attempt(tries)` makes independent attempts and finishes all of them, so that to take the first ones
    favours no result. `acceptance` is a guess of how many succeed and changes nothing but the time.
    """
    found = [np.empty(0, dtype=np.int64)]
    while (missing := count - sum(part.size for part in found)) > 0:
        tried = attempt(min(BLOCK, int(1.1 * missing / acceptance) + 16))
        found.append(tried[tried >= 0][:missing])
    return np.concatenate(found)
