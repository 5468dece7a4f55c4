"""Bounds on δ(ε) contain the exact value, in rational arithmetic, and opposite ends are the worst inputs."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import product
from math import comb, floor, log

import pytest

from dpbandits.privacy.accounting import Binomial, Composition, Ends, IntegerSum

Law = dict[int, Fraction]


def binomial(bits: int, chance: Fraction = Fraction(1, 2)) -> Law:
    return {k: comb(bits, k) * chance**k * (1 - chance) ** (bits - k) for k in range(bits + 1)}


def rounding(position: Fraction) -> Law:
    low = floor(position)
    law = {low: low + 1 - position, low + 1: position - low}
    return {value: chance for value, chance in law.items() if chance}


def plus(one: Law, other: Law) -> Law:
    total: Law = {}
    for a, p in one.items():
        for b, q in other.items():
            total[a + b] = total.get(a + b, Fraction(0)) + p * q
    return total


Pair = list[tuple[Fraction, Fraction]]


def views(first: Law, second: Law) -> Pair:
    """(P, Q) of every outcome, equal likelihood ratios merged."""
    merged: dict[Fraction | None, tuple[Fraction, Fraction]] = {}
    for outcome in first.keys() | second.keys():
        p, q = first.get(outcome, Fraction(0)), second.get(outcome, Fraction(0))
        key = p / q if q else None
        old = merged.get(key, (Fraction(0), Fraction(0)))
        merged[key] = (old[0] + p, old[1] + q)
    return list(merged.values())


def _times(one: Pair, other: Pair) -> Pair:
    merged: dict[Fraction | None, tuple[Fraction, Fraction]] = {}
    for a, b in one:
        for c, d in other:
            p, q = a * c, b * d
            key = p / q if q else None
            old = merged.get(key, (Fraction(0), Fraction(0)))
            merged[key] = (old[0] + p, old[1] + q)
    return list(merged.values())


def exact_delta(pairs: list[Pair], alpha: Fraction) -> Fraction:
    """Σ (P − αQ)₊ over the outcomes of the product, α = e^ε."""
    rest, last = reduce(_times, pairs[:-1], [(Fraction(1), Fraction(1))]), pairs[-1]
    terms = (a * c - alpha * b * d for a, b in rest for c, d in last)
    return sum((term for term in terms if term > 0), Fraction(0))


ALPHAS = [Fraction(1), Fraction(9, 8), Fraction(3), Fraction(25), Fraction(1000)]


def assert_brackets(bounds, truth, gap=1e-4):
    lower, upper = bounds
    truth = float(truth)
    # log(α) is rounded once, and δ changes by at most δ·u per unit roundoff of ε.
    assert lower <= truth * (1 + 1e-12) + 1e-18
    assert upper >= truth * (1 - 1e-12) - 1e-18
    assert upper - lower <= gap * truth + 1e-30


@pytest.mark.parametrize(
    ("bits", "shift", "coordinates"),
    [
        (1, 1, 1),
        (1, 1, 3),
        (1, 2, 2),
        (4, 1, 1),
        (5, 3, 2),
        (12, 1, 5),
        (24, 1, 4),
        (40, 3, 2),
        (64, 5, 2),
        (120, 10, 1),
    ],
)
def test_fair_bits(bits, shift, coordinates):
    noise = binomial(bits)
    pair = views(noise, plus(noise, {shift: Fraction(1)}))
    release = IntegerSum(noise=Binomial(bits=bits), shift=shift, coordinates=coordinates)
    for alpha in ALPHAS:
        truth = exact_delta([pair] * coordinates, alpha)
        assert_brackets(release.delta_bounds(log(alpha)), truth)


@pytest.mark.parametrize("chance", [Fraction(1, 4), Fraction(7, 16), Fraction(5, 8)])
def test_unfair_bits_take_the_worst_sign_pattern(chance):
    noise, coordinates, shift = binomial(11, chance), 3, 2
    ahead = views(noise, plus(noise, {shift: Fraction(1)}))
    back = views(plus(noise, {shift: Fraction(1)}), noise)
    release = IntegerSum(noise=Binomial(bits=11, chance=float(chance)), shift=shift, coordinates=coordinates)
    for alpha in ALPHAS:
        patterns = [
            exact_delta([ahead] * n + [back] * (coordinates - n), alpha) for n in range(coordinates + 1)
        ]
        assert_brackets(release.delta_bounds(log(alpha)), max(patterns))


@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(3, 8)])
def test_rounded_ends(chance):
    low, high = Fraction(5, 8), Fraction(11, 4)
    noise = binomial(16, chance)
    first, second = (plus(noise, rounding(end)) for end in (low, high))
    release = IntegerSum(
        noise=Binomial(bits=16, chance=float(chance)),
        coordinates=3,
        ends=Ends.rounded(float(low), float(high)),
    )
    for alpha in ALPHAS:
        ahead, back = views(first, second), views(second, first)
        patterns = [exact_delta([ahead] * n + [back] * (3 - n), alpha) for n in range(4)]
        assert_brackets(release.delta_bounds(log(alpha)), max(patterns))


def test_different_releases_compose():
    one, other = binomial(9), binomial(12)
    pairs = [views(one, plus(one, {1: Fraction(1)}))] * 3
    pairs += [views(other, plus(other, {2: Fraction(1)}))] * 2
    both = Composition(
        sums=(
            IntegerSum(noise=Binomial(bits=9), shift=1, coordinates=3),
            IntegerSum(noise=Binomial(bits=12), shift=2, coordinates=2),
        )
    )
    for alpha in ALPHAS:
        assert_brackets(both.delta_bounds(log(alpha)), exact_delta(pairs, alpha))


@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 3)])
def test_no_inputs_inside_the_box_are_worse_than_its_ends(chance):
    """Every pair of inputs of two coordinates on a grid of steps ⅓ in [0, 2], with randomised rounding."""
    noise = binomial(5, chance)
    positions = [Fraction(k, 3) for k in range(7)]
    laws = {x: plus(noise, rounding(x)) for x in positions}
    pairs = {(x, y): views(laws[x], laws[y]) for x, y in product(positions, positions)}
    ends = [pairs[a] for a in product((Fraction(0), Fraction(2)), repeat=2) if a[0] != a[1]]
    for alpha in (Fraction(1), Fraction(3, 2), Fraction(6)):
        worst = max(exact_delta([a, b], alpha) for a, b in product(ends, ends))
        for one, other in product(pairs.values(), repeat=2):
            assert exact_delta([one, other], alpha) <= worst


def test_a_one_coordinate_pair_is_dominated_for_every_alpha():
    """The same for one coordinate and all α > 0, also below one, which is what composition needs."""
    noise = binomial(6, Fraction(2, 5))
    laws = [plus(noise, rounding(Fraction(k, 5))) for k in range(11)]
    for i, j in product(range(11), repeat=2):
        first, second = (laws[0], laws[-1]) if i <= j else (laws[-1], laws[0])
        for alpha in (Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(17)):
            inside = exact_delta([views(laws[i], laws[j])], alpha)
            assert inside <= exact_delta([views(first, second)], alpha)
