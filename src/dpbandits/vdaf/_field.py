"""What the fields have in common: byte encodings, sums and roots of unity of arrays of elements.

An array of elements is a NumPy array of integers in [0, modulus): `uint64` in Field64; a larger field has
Python integers (`object`). Operations work element by element and broadcast, like those of NumPy; one of the
operands has at least one axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import BoolArray

Elements = NDArray[Any]


def all_true(values: Elements) -> BoolArray:
    """Which rows along the last axis have no false entry."""
    return np.asarray(values.astype(np.bool_).all(axis=-1))


class Field(ABC):
    """The integers modulo a prime, with a subgroup whose order is a power of two."""

    modulus: ClassVar[int]
    size: ClassVar[int]
    """Bytes per encoded element, in little-endian order."""
    root: ClassVar[int]
    """A generator of the subgroup of order `root_order`."""
    root_order: ClassVar[int]

    @abstractmethod
    def array(self, integers: Any) -> Elements:
        """An array of elements from integers of any size or sign, reduced modulo the prime."""

    @abstractmethod
    def add(self, left: Elements, right: Elements) -> Elements:
        """`left + right`."""

    @abstractmethod
    def subtract(self, left: Elements, right: Elements) -> Elements:
        """`left - right`."""

    @abstractmethod
    def multiply(self, left: Elements, right: Elements) -> Elements:
        """`left * right`."""

    @abstractmethod
    def sum(self, values: Elements, axis: int = -1) -> Elements:
        """The sums along one axis, of at most 2³² elements each."""

    @abstractmethod
    def to_bytes(self, values: Elements) -> bytes:
        """The encodings of all elements, one after another."""

    @abstractmethod
    def from_bytes(self, encoded: bytes) -> Elements:
        """Little-endian integers of `size` bytes, which may be as large as the modulus or larger."""

    def zeros(self, *shape: int) -> Elements:
        """An array of zeros."""
        return self.array(np.zeros(shape, dtype=np.int64))

    def inverse(self, integer: int) -> Elements:
        """The element that gives 1 when multiplied by `integer`."""
        return self.array(pow(integer, -1, self.modulus))

    def root_powers(self, order: int) -> Elements:
        """The powers 0 to `order` - 1 of the principal root of unity of that order, a power of two."""
        return _root_powers(self, order)

    def encode_rows(self, values: Elements) -> list[bytes]:
        """One byte string for each row of a two-dimensional array."""
        width = values.shape[1] * self.size
        joined = self.to_bytes(values)
        return [joined[start : start + width] for start in range(0, len(values) * width, width)]

    def decode_rows(self, rows: Sequence[bytes], length: int) -> tuple[Elements, BoolArray]:
        """Decode byte strings of `length` elements each.

        Args:
            rows: Byte strings of exactly `length * size` bytes.
            length: Elements in each of them.

        Returns:
            An array [rows, length], and a mask of the rows all of whose integers are below the modulus. Rows
            outside the mask are zero.
        """
        values = self.from_bytes(b"".join(rows)).reshape(len(rows), length)
        valid = all_true(values < self.modulus)
        if not valid.all():
            values[~valid] = 0
        return values, valid


@cache
def _root_powers(field: Field, order: int) -> Elements:
    root = pow(field.root, field.root_order // order, field.modulus)
    powers = field.array([pow(root, exponent, field.modulus) for exponent in range(order)])
    powers.setflags(write=False)
    return powers
