"""The radius of the noise exp(−‖z‖∞/scale) on Z^s, as a sum of simple variables.

With q = exp(−1/scale), q^‖z‖ = (1 − q)·Σ_{m ≥ ‖z‖} q^m: a uniform point of the cube {−m..m}^s, which has
(2m+1)^s points, whose radius m is drawn with a pmf proportional to q^m·(2m+1)^s.

That radius needs no rejection. Write Σ_m (2m+1)^s q^m = B_s(q)/(1−q)^(s+1); B_0 = 1. One more factor 2m+1
under the sum is the operator 2q·d/dq + 1, which makes the numerator 2q(1−q)B' + 2(s+1)qB + (1−q)B: the
coefficients, so-called Eulerian numbers of type B, obey

    b(s+1, k) = (2k+1)·b(s, k) + (2s+3−2k)·b(s, k−1)

and none is negative. So B_s(q)/(1−q)^(s+1) is, up to a factor, the generating function of
m = offset + s+1 geometrics of ratio q, all independent, where P(offset = k) ∝ b(s, k)·q^k, 0 ≤ k ≤ s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache

DIGITS = 80


@lru_cache(maxsize=64)
def offset_distribution(scale: float, coordinates: int, digits: int) -> tuple[Decimal, ...]:
    """P(offset ≤ k) for k = 0..s, each to a relative error below 10^(10 − digits).

    Nothing is ever subtracted from anything near it, so each of the operations below adds no more than
    10^(1 − digits) to the relative error: 6 for each of up to 2¹¹ steps of the recurrence, 2 for each power
    of q and each sum. The rounding of 1/scale ≤ 2¹⁰ costs q another 2¹⁰ of these, to the power k ≤ 2¹¹.
    """
    context = Context(prec=digits)
    ratio = context.exp(context.divide(Decimal(-1), Decimal(scale)))
    counts = [Decimal(1)]
    for order in range(1, coordinates + 1):
        longer = [Decimal(0), *counts, Decimal(0)]
        counts = [
            context.fma(longer[k + 1], 2 * k + 1, context.multiply(longer[k], 2 * (order - k) + 1))
            for k in range(order + 1)
        ]
    cumulative, power, total = [], Decimal(1), Decimal(0)
    for count in counts:
        total = context.fma(count, power, total)
        power = context.multiply(power, ratio)
        cumulative.append(total)
    return tuple(context.divide(part, total) for part in cumulative)


@lru_cache(maxsize=64)
def _brackets(scale: float, coordinates: int, digits: int) -> tuple[list[int], list[int]]:
    """Multiples of 2^(−4·digits) below and above each P(offset ≤ k) but the last, which is 1."""
    context = Context(prec=4 * digits)
    slack, unit = Decimal(10) ** (11 - digits), Decimal(1 << 4 * digits)
    parts = offset_distribution(scale, coordinates, digits)[:-1]
    below = [int(context.multiply(max(Decimal(0), context.subtract(part, slack)), unit)) for part in parts]
    above = [int(context.multiply(context.add(part, slack), unit)) + 1 for part in parts]
    return below, above


def exact_offset(scale: float, coordinates: int, random_bits: Callable[[int], int]) -> int:
    """Draw the offset exactly: look at more and more digits until they leave no doubt.

    The offset is the number of k with P(offset ≤ k) ≤ U for a uniform real number U. Of U we know that it
    lies in [uniform, uniform + 1) in units of 2^−bits. As many k satisfy it surely as have their upper
    bracket at or below `uniform`, and possibly as have their lower one below `uniform + 1`.
    """
    digits = DIGITS
    uniform = random_bits(4 * digits)
    while True:
        below, above = _brackets(scale, coordinates, digits)
        surely = bisect_right(above, uniform)
        if surely == bisect_left(below, uniform + 1):
            return surely
        uniform = uniform << 4 * digits | random_bits(4 * digits)
        digits *= 2


def radius_exceeded(scale: float, coordinates: int, largest: int) -> float:
    """Return an upper bound on the probability that the radius is above `largest`.

    The radius is at most s plus a negative binomial variable of s + 1 successes, each of chance p = 1 − q.
    That is above `largest` if n = `largest` + 1 trials have at most s successes, which has the probability
    Σ C(n, i)·p^i·q^(n − i) over i ≤ s. All terms are positive, so at least thirty of the fifty digits below
    are right.
    """
    if largest < coordinates:
        return 1.0
    context, trials = Context(prec=50), largest + 1
    rate = context.divide(Decimal(1), Decimal(scale))
    odds = context.subtract(context.exp(rate), Decimal(1))  # p/q
    term = context.exp(context.multiply(Decimal(-trials), rate))
    total = term
    for i in range(coordinates):
        factor = context.divide(context.multiply(odds, Decimal(trials - i)), Decimal(i + 1))
        term = context.multiply(term, factor)
        total = context.add(total, term)
    return min(1.0, float(total))
