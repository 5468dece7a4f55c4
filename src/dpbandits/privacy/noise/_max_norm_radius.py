"""The radius of the noise P(z) ∝ exp(−‖z‖∞/scale) on Z^s, as a sum of simple variables.

With q = exp(−1/scale), q^‖z‖ = (1 − q)·Σ_{m ≥ ‖z‖} q^m. So z is a uniform point of the cube {−m..m}^s, which
has (2m+1)^s points, and its radius m has a probability proportional to q^m·(2m+1)^s.

This radius can be drawn without rejection. Write Σ_m (2m+1)^s q^m = B_s(q)/(1−q)^(s+1), with B_0 = 1. One
more factor 2m+1 in the sum is the operator 2q·d/dq + 1, which turns the numerator into 2q(1−q)B' + 2(s+1)qB +
(1−q)B. So the coefficients, which are called Eulerian numbers of type B, satisfy

    b(s+1, k) = (2k+1)·b(s, k) + (2s+3−2k)·b(s, k−1)

and none is negative. So B_s(q)/(1−q)^(s+1) is, up to a factor, the generating function of

    m = offset + the sum of s+1 independent geometric variables of ratio q,

where the offset is independent of them and P(offset = k) ∝ b(s, k)·q^k, 0 ≤ k ≤ s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache

# The number of decimal digits of the first try.
DIGITS = 80


@lru_cache(maxsize=64)
def offset_distribution(scale: float, coordinates: int, digits: int) -> tuple[Decimal, ...]:
    """Return P(offset ≤ k) for k = 0..s, each with a relative error below 10^(10 − digits).

    No two nearly equal numbers are subtracted, so each operation adds at most 10^(1 − digits) to the relative
    error: 6 operations in each of up to 2¹¹ steps of the recurrence, and 2 for each power of q and each sum.
    The rounding of 1/scale ≤ 2¹⁰ adds 2¹⁰ such errors to q, and the power k ≤ 2¹¹ multiplies their number.
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
    """Return integers below and above 2^(4·digits)·P(offset ≤ k), for every k except the last.

    The last probability is 1.
    """
    context = Context(prec=4 * digits)
    # Ten times the error bound of `offset_distribution`, relative to probabilities of at most 1.
    slack, unit = Decimal(10) ** (11 - digits), Decimal(1 << 4 * digits)
    parts = offset_distribution(scale, coordinates, digits)[:-1]
    below = [int(context.multiply(max(Decimal(0), context.subtract(part, slack)), unit)) for part in parts]
    above = [int(context.multiply(context.add(part, slack), unit)) + 1 for part in parts]
    return below, above


def exact_offset(scale: float, coordinates: int, random_bits: Callable[[int], int]) -> int:
    """Draw the offset exactly: use more digits until they determine it.

    The offset is the number of k with P(offset ≤ k) ≤ U for a uniform real number U. U is known to lie in
    [uniform, uniform + 1) in units of 2^−bits. A k surely counts if its upper bracket is at or below
    `uniform`, and possibly counts if its lower bracket is below `uniform + 1`. The draw is finished when both
    numbers are equal.
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
