"""Exact biased coins; uniform bytes are the only source of randomness.

No probability is rounded. The time of a draw depends on the drawn value, so anyone who can measure it on the
client's machine learns something about the noise.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import BoolArray, FloatArray, IntArray

Words = NDArray[np.uint64]
Bytes = Callable[[int], bytes]
"""A source of uniform bytes: `source(count)` returns the next `count` bytes."""

BLOCK = 1 << 18  # the number of coins that are held in memory at a time


@final
class Coins:
    """Coins from a source of uniform bytes, by default the operating system's generator."""

    __slots__ = ("_bytes",)

    def __init__(self, source: Bytes = secrets.token_bytes) -> None:
        self._bytes = source

    def random_bytes(self, count: int) -> NDArray[np.uint8]:
        """Return uniform bytes."""
        return np.frombuffer(self._bytes(count), dtype=np.uint8)

    def words(self, count: int) -> Words:
        """Return uniform 64-bit words."""
        return np.frombuffer(bytearray(self._bytes(8 * count)), dtype="<u8").astype(np.uint64, copy=False)

    def random_bits(self, count: int) -> int:
        """Return a uniform integer with this many bits."""
        return int.from_bytes(self._bytes((count + 7) // 8)) >> (-count % 8)

    def integer(self, bound: int) -> int:
        """Return a uniform integer in {0..bound−1}, for a bound ≥ 1 of any size."""
        bits = (bound - 1).bit_length()
        while (drawn := self.random_bits(bits)) >= bound:
            pass
        return drawn

    def fair(self, count: int) -> BoolArray:
        """Return fair coins, at one bit each."""
        return np.unpackbits(self.random_bytes((count + 7) // 8), count=count).view(np.bool_)

    def below(self, bounds: Words) -> Words:
        """Return a uniform integer in {0..bound−1} for each bound ≥ 1.

        The lowest 2⁶⁴ mod bound words are rejected, so that every remainder has the same number of words.
        """
        drawn = self.words(bounds.size)
        excess = (~bounds + np.uint64(1)) % bounds  # (2⁶⁴ − bound) mod bound
        again = np.flatnonzero(drawn < excess)
        while again.size:
            drawn[again] = self.words(again.size)
            again = again[drawn[again] < excess[again]]
        return drawn % bounds

    def rational(self, numerators: Words, denominators: Words) -> BoolArray:
        """Return coins with probability numerator/denominator."""
        return self.below(denominators) < numerators

    def flip(self, probabilities: FloatArray) -> BoolArray:
        """Return coins with exactly these probabilities, each a float in [0, 1].

        Multiplication by 2⁶⁴, floor and subtraction are exact in floats. Let U be a uniform real number whose
        first 64 bits are `drawn`. U is below p if drawn < ⌊2⁶⁴p⌋, and not below p if drawn > ⌊2⁶⁴p⌋. If they
        are equal, the remaining bits of U are compared with the rest of p in the same way.
        """
        sure = probabilities >= 1
        scaled = np.ldexp(np.where(sure, 0.0, probabilities), 64)
        floor = np.floor(scaled)
        drawn, threshold = self.words(probabilities.size), floor.astype(np.uint64)
        heads: BoolArray = (drawn < threshold) | sure
        ties = np.flatnonzero((drawn == threshold) & ~sure)
        if ties.size:
            heads[ties] = self.flip(scaled[ties] - floor[ties])
        return heads

    def exponential(self, exponent: Fraction, count: int) -> BoolArray:
        """Return coins with probability exp(−exponent), for a fraction ≥ 0 with terms below 2⁶³.

        For example, exp(−3.2) is the probability that three coins of exp(−1) and one coin of exp(−0.2) all
        show heads.
        """
        # Only coins that are still heads are flipped again.
        heads = self._scalar_below_one(exponent % 1, count)
        for _ in range(int(exponent)):
            left = np.flatnonzero(heads)
            if not left.size:
                break
            heads[left] = self._scalar_below_one(Fraction(1), left.size)
        return heads

    def exponentials(self, numerators: Words, denominator: int) -> BoolArray:
        """Return coins with probability exp(−numerator/denominator).

        Numerators are at most the denominator, and the denominator is at most 2⁶³.
        """
        below = np.full(numerators.size, denominator, dtype=np.uint64)
        return self._exponential_below_one(
            numerators.size, lambda live: self.rational(numerators[live], below[live])
        )

    def exponential_once(self, numerator: int, denominator: int) -> bool:
        """Return one coin with probability exp(−numerator/denominator), for integers of any size."""
        whole, rest = divmod(numerator, denominator)
        all_heads = all(self._once_below_one(1, 1) for _ in range(whole))
        return all_heads and self._once_below_one(rest, denominator)

    def _once_below_one(self, numerator: int, denominator: int) -> bool:
        """Return one coin of `_exponential_below_one`; a coin of γ/k is one draw below k·denominator."""
        flips = 1
        while self.integer(flips * denominator) < numerator:
            flips += 1
        return flips % 2 == 1

    def _scalar_below_one(self, exponent: Fraction, count: int) -> BoolArray:
        """Return coins with probability exp(−exponent), for an exponent up to 1."""
        return self._exponential_below_one(count, lambda live: self._scalar(exponent, live.size))

    def _exponential_below_one(self, count: int, gamma: Callable[[IntArray], BoolArray]) -> BoolArray:
        """Flip coins of probability γ/1, γ/2, γ/3 … until one shows tails; heads if that took an odd number.

        More than k flips happen with probability γ^k/k!. The alternating sum Σ_k (−γ)^k/k! = exp(−γ) is the
        probability of an odd number of flips. A coin of γ/k is a coin of γ and one of 1/k that both show
        heads. `gamma` flips one coin of γ for each of the indices that it is given.
        """
        odd = np.ones(count, dtype=np.bool_)
        live = np.flatnonzero(gamma(np.arange(count)))
        flips = 1
        while live.size:
            flips += 1
            odd[live] = flips % 2 == 1
            live = live[self._scalar(Fraction(1, flips), live.size)]
            live = live[gamma(live)]
        return odd

    def _scalar(self, probability: Fraction, count: int) -> BoolArray:
        """Return coins with one rational probability."""
        if probability == 1:
            return np.ones(count, dtype=np.bool_)
        bounds = np.full(count, probability.denominator, dtype=np.uint64)
        return self.below(bounds) < np.uint64(probability.numerator)


def first_accepted(count: int, acceptance: float, attempt: Callable[[int], IntArray]) -> IntArray:
    """Return the results of the first `count` successful attempts.

    `attempt(tries)` makes independent attempts and returns one result per attempt, −1 for a failure. It
    finishes all of them, so that taking the first successes favours no result. `acceptance` is a guess of the
    success rate; it affects the running time only.
    """
    found = [np.empty(0, dtype=np.int64)]
    while (missing := count - sum(part.size for part in found)) > 0:
        tried = attempt(min(BLOCK, int(1.1 * missing / acceptance) + 16))
        found.append(tried[tried >= 0][:missing])
    return np.concatenate(found)
