"""Exact samplers of the discrete Laplace and Gaussian distributions (Canonne, Kamath, Steinke 2020).

They implement algorithms 2 and 3 of that paper. A scale is treated as the exact fraction that its float
represents. All decisions are made on integers, so no probability is rounded. `SecureNoise` draws from these
distributions by OpenDP instead. Keyed noise cannot, because OpenDP does not accept a source of bits.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpbandits._arrays import BoolArray, IntArray
from dpbandits.privacy.noise._coins import Coins, first_accepted

# Guesses of success rates. They are constants, so that keyed noise makes the same draws on every machine.
_LAPLACE_ACCEPTANCE = 0.5  # the true rate is between 0.32 and 0.63
_GAUSSIAN_ACCEPTANCE = 0.6


def laplace(coins: Coins, scale: float, count: int) -> IntArray:
    """Draw P(x) ∝ exp(−|x|/scale)."""
    fraction = Fraction(scale)
    codes = first_accepted(count, _LAPLACE_ACCEPTANCE, lambda tries: _laplace_codes(coins, fraction, tries))
    # A code is 2·|x|, plus 1 if x is negative.
    sizes = codes >> 1
    return np.where(codes & 1, -sizes, sizes)


def _laplace_codes(coins: Coins, scale: Fraction, count: int) -> IntArray:
    """Make attempts at a discrete Laplace variable of scale n/d; −1 for rejected ones.

    Let u in {0..n−1} have P(u) ∝ exp(−u/n), and let v count the heads of exp(−1) before the first tails. Then
    x = u + n·v has P(x) ∝ exp(−x/n), and ⌊x/d⌋ is geometric of ratio exp(−d/n). A random sign makes it a
    discrete Laplace variable, if −0, which would count 0 twice, is rejected. For the scales that _ranges.py
    accepts, n is at most 2⁵³, and x exceeds 2⁶³ with a probability below exp(−1000).
    """
    steps, width = scale.numerator, scale.denominator
    starts = coins.below(np.full(count, steps, dtype=np.uint64))
    kept = coins.exponentials(starts, steps)
    rounds = _heads_of_one(coins, count).astype(np.uint64)
    sizes = ((starts + np.uint64(steps) * rounds) // np.uint64(width)).astype(np.int64)
    negative = coins.fair(count)
    refused: BoolArray = ~kept | (negative & (sizes == 0))
    return np.where(refused, -1, 2 * sizes + negative)


def _heads_of_one(coins: Coins, count: int) -> IntArray:
    """Count how many coins of exp(−1) show heads before the first tails."""
    heads, live = np.zeros(count, dtype=np.int64), np.arange(count)
    while live.size:
        live = live[coins.exponential(Fraction(1), live.size)]
        heads[live] += 1
    return heads


def gaussian(coins: Coins, scale: float, count: int) -> IntArray:
    """Draw P(x) ∝ exp(−x²/(2·scale²)).

    A discrete Laplace proposal of scale t = ⌊scale⌋ + 1 is accepted with probability exp(−(|x| −
    scale²/t)²/(2·scale²)). The product of both is P(x) times a constant.
    """
    fraction, wide = Fraction(scale), int(scale) + 1
    accepted = list[int]()
    while (missing := count - len(accepted)) > 0:
        proposals = laplace(coins, wide, int(missing / _GAUSSIAN_ACCEPTANCE) + 16)
        kept = [x for x in proposals.tolist() if _accepts(coins, abs(x), fraction, wide)]
        accepted += kept[:missing]
    return np.array(accepted, dtype=np.int64)


def _accepts(coins: Coins, size: int, scale: Fraction, wide: int) -> bool:
    """Return whether the proposal is accepted.

    With scale = n/d the exponent is (size·t·d² − n²)² / (2·n²·d²·t²).
    """
    n, d = scale.numerator, scale.denominator
    return coins.exponential_once((size * wide * d * d - n * n) ** 2, 2 * (n * d * wide) ** 2)
