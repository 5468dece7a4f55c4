"""Exact draws of noise with a spherical density: a point Y with density ∝ exp(−‖y‖₂/scale), rounded.

Y = R·G/‖G‖, where R is scale times a gamma variable of shape s, which is a sum of s exponential variables
−ln U, and G has s independent normal coordinates. Pairs of these are (V, W)·√(−2·ln(S)/S), where (V, W) is
uniform in the unit disc and S = V² + W² (Marsaglia's polar method). |Y_j| + U is rounded down, with a fresh
uniform U. So the rounded number is ⌊|Y_j|⌋ or the next one, and its mean is |Y_j|.

The rounded point is a function of uniform real numbers, and it is computed exactly. Every number is known to
lie between two decimal bounds, which are rounded outwards. If the bounds do not decide a comparison or a
rounded number, more digits of the same uniform numbers are drawn, and everything is computed again with more
precision. No digit of a uniform number is ever drawn twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import NamedTuple

DIGITS = 40
"""The number of decimal digits of the first try."""
_BITS_PER_DIGIT = 4


class _UndecidedError(Exception):
    """The bounds are too wide for a decision."""


class Uniforms:
    """Independent uniform real numbers in [0, 1), whose binary digits are drawn when they are needed.

    Args:
        random_bits: Returns a uniform integer with this many bits.
    """

    def __init__(self, random_bits: Callable[[int], int]) -> None:
        self._random_bits = random_bits
        self._known: dict[int, tuple[int, int]] = {}

    def first(self, place: int, bits: int) -> int:
        """Return the first binary digits of the number at a place, as an integer below 2^bits."""
        value, known = self._known.get(place, (0, 0))
        if known < bits:
            value = value << bits - known | self._random_bits(bits - known)
            known = bits
            self._known[place] = value, known
        return value >> known - bits


class _Bounds(NamedTuple):
    """A real number ≥ 0 is at least `low` and at most `high`."""

    low: Decimal
    high: Decimal


class _Arithmetic:
    """Operations on bounds. Results contain all values that the operation has within the bounds."""

    def __init__(self, digits: int) -> None:
        self.bits = _BITS_PER_DIGIT * digits
        self._down = Context(prec=digits, rounding=ROUND_FLOOR)
        self._up = Context(prec=digits, rounding=ROUND_CEILING)
        self._unit = Decimal(1 << self.bits)

    def uniform(self, value: int) -> _Bounds:
        """Return the bounds of a number in [0, 1) whose first `bits` binary digits are known."""
        low, high = Decimal(value), Decimal(value + 1)
        return _Bounds(self._down.divide(low, self._unit), self._up.divide(high, self._unit))

    def add(self, one: _Bounds, other: _Bounds) -> _Bounds:
        """Return the sum."""
        return _Bounds(self._down.add(one.low, other.low), self._up.add(one.high, other.high))

    def multiply(self, one: _Bounds, other: _Bounds) -> _Bounds:
        """Return the product."""
        return _Bounds(self._down.multiply(one.low, other.low), self._up.multiply(one.high, other.high))

    def divide(self, one: _Bounds, other: _Bounds) -> _Bounds:
        """Return the quotient."""
        if not other.low:
            raise _UndecidedError
        return _Bounds(self._down.divide(one.low, other.high), self._up.divide(one.high, other.low))

    def root(self, one: _Bounds) -> _Bounds:
        """Return the square root."""
        # Decimal rounds square roots and logarithms to the nearest number, so the next one is beyond them.
        low, high = self._down.sqrt(one.low), self._up.sqrt(one.high)
        return _Bounds(max(Decimal(0), self._down.next_minus(low)), self._up.next_plus(high))

    def minus_log(self, one: _Bounds) -> _Bounds:
        """Return −ln of a number that is at most 1."""
        if not one.low:
            raise _UndecidedError
        low, high = self._down.next_minus(self._down.ln(one.low)), self._up.next_plus(self._up.ln(one.high))
        return _Bounds(max(Decimal(0), high.copy_negate()), low.copy_negate())


def exact_ball_point(scale: float, coordinates: int, uniforms: Uniforms, digits: int = DIGITS) -> list[int]:
    """Draw a rounded point: use more digits until they determine it.

    Args:
        scale: The scale of the density.
        coordinates: The number of coordinates.
        uniforms: The uniform numbers that determine the point.
        digits: The number of decimal digits of the first try.
    """
    while True:
        try:
            return _point(_Arithmetic(digits), Decimal(scale), coordinates, uniforms)
        except _UndecidedError:
            digits *= 2


def _point(exact: _Arithmetic, scale: Decimal, coordinates: int, uniforms: Uniforms) -> list[int]:
    places = itertools.count()

    def uniform() -> _Bounds:
        return exact.uniform(uniforms.first(next(places), exact.bits))

    product = uniform()
    for _ in range(coordinates - 1):
        product = exact.multiply(product, uniform())
    radius = exact.multiply(_Bounds(scale, scale), exact.minus_log(product))
    normals = list(itertools.islice(_normals(exact, places, uniforms), coordinates))
    square = _Bounds(Decimal(0), Decimal(0))
    for _, size in normals:
        square = exact.add(square, exact.multiply(size, size))
    stretch = exact.divide(radius, exact.root(square))
    point = list[int]()
    for negative, size in normals:
        rounded = exact.add(exact.multiply(stretch, size), uniform())
        if int(rounded.low) != int(rounded.high):
            raise _UndecidedError
        point.append(-int(rounded.low) if negative else int(rounded.low))
    return point


def _normals(exact: _Arithmetic, places: Iterator[int], uniforms: Uniforms) -> Iterator[tuple[bool, _Bounds]]:
    """Yield the signs and absolute values of independent normal variables."""

    def side() -> tuple[bool, _Bounds]:
        # The first digit is the sign, and the others are the absolute value.
        value = uniforms.first(next(places), exact.bits + 1)
        return bool(value >> exact.bits), exact.uniform(value & (1 << exact.bits) - 1)

    while True:
        (left, one), (down, other) = side(), side()
        square = exact.add(exact.multiply(one, one), exact.multiply(other, other))
        if square.low >= 1:
            continue
        if square.high > 1:
            raise _UndecidedError
        double = _Bounds(Decimal(2), Decimal(2))
        factor = exact.root(exact.divide(exact.multiply(double, exact.minus_log(square)), square))
        yield left, exact.multiply(one, factor)
        yield down, exact.multiply(other, factor)
