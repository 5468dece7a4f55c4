"""Field64: arithmetic modulo 2⁶⁴ - 2³² + 1 on NumPy arrays of 64-bit integers.

A product of two elements has 128 bits, which NumPy does not have. `multiply` computes its upper and lower 64
bits from products of 32-bit halves and reduces them by 2⁶⁴ = 2³² - 1 and 2⁹⁶ = -1 (modulo the prime).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits.vdaf._field import Elements, Field

Words = NDArray[np.uint64]

_MODULUS = 2**64 - 2**32 + 1
_PRIME = np.uint64(_MODULUS)
_LOW = np.uint64(2**32 - 1)  # a mask of the lower half of a word, and also 2⁶⁴ modulo the prime
_HALF = np.uint64(32)
_BLOCK = 8192  # elements multiplied at once: 64 kB per temporary array, so that all stay in the cache


class Field64(Field):
    """The integers modulo 2⁶⁴ - 2³² + 1."""

    modulus = _MODULUS
    size = 8
    root = pow(7, 4294967295, _MODULUS)
    root_order = 2**32

    def array(self, integers: Any) -> Elements:
        """An array of elements from integers of any size or sign, reduced modulo the prime."""
        given = integers if isinstance(integers, np.ndarray) else np.array(integers, dtype=object)
        if given.dtype.kind not in "iu":
            return np.asarray(given % _MODULUS, dtype=np.uint64)
        words = given.astype(np.uint64)  # adds 2⁶⁴, which is 2³² - 1 modulo the prime, to negative integers
        return (words - (given < 0) * _LOW) % _PRIME

    def zeros(self, *shape: int) -> Elements:
        """An array of zeros."""
        return np.zeros(shape, dtype=np.uint64)

    def add(self, left: Elements, right: Elements) -> Elements:
        """`left + right`."""
        return self.subtract(left, _PRIME - right)

    def subtract(self, left: Elements, right: Elements) -> Elements:
        """`left - right`, where `right` may also be the modulus itself."""
        difference: Words = left - right
        difference += (left < right) * _PRIME
        return difference

    def multiply(self, left: Elements, right: Elements) -> Elements:
        """`left * right`."""
        shape = np.broadcast_shapes(left.shape, right.shape)
        count = int(np.prod(shape))
        if count <= _BLOCK:
            return _product(left, right)
        left, right = np.broadcast_to(left, shape), np.broadcast_to(right, shape)
        product = np.empty(shape, dtype=np.uint64)
        rows = max(1, _BLOCK * shape[0] // count)
        for start in range(0, shape[0], rows):
            block = slice(start, start + rows)
            product[block] = _product(left[block], right[block])
        return product

    def sum(self, values: Elements, axis: int = -1) -> Elements:
        """The sums along one axis, of at most 2³² elements each."""
        low: Words = (values & _LOW).sum(axis=axis, dtype=np.uint64, keepdims=True)
        high: Words = (values >> _HALF).sum(axis=axis, dtype=np.uint64, keepdims=True)
        return self.add(low % _PRIME, _product(high, np.uint64(2**32))).squeeze(axis)

    def to_bytes(self, values: Elements) -> bytes:
        """The encodings of all elements, one after another."""
        return values.astype("<u8", copy=False).tobytes()

    def from_bytes(self, encoded: bytes) -> Elements:
        """Little-endian integers of 8 bytes, which may be as large as the modulus or larger."""
        return np.frombuffer(encoded, dtype="<u8").astype(np.uint64)


def _product(left: Words, right: Words | np.uint64) -> Words:
    high = _upper_half(left, right)
    low: Words = left * right  # wraps modulo 2⁶⁴: the lower 64 bits
    top = high >> _HALF
    borrows = low < top
    low -= top
    low -= borrows * _LOW
    high &= _LOW
    high *= _LOW
    low += high
    low += (low < high) * _LOW
    low -= (low >= _PRIME) * _PRIME
    return low


def _upper_half(left: Words, right: Words | np.uint64) -> Words:
    """The upper 64 bits of the 128 bits of each product."""
    left_low, left_high = left & _LOW, left >> _HALF
    right_low, right_high = right & _LOW, right >> _HALF
    middle: Words = left_low * right_low
    middle >>= _HALF
    middle += left_low * right_high
    other: Words = left_high * right_low
    other += middle & _LOW
    middle >>= _HALF
    other >>= _HALF
    high: Words = left_high * right_high
    high += middle
    high += other
    return high
