"""Field128: arithmetic modulo 2⁶⁶ · 4611686018427387897 + 1 on arrays of Python integers.

Its arithmetic on large arrays is about 30 times slower than that of Field64. It serves to check this package
against the test vectors of the types that the specification defines over this field.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbandits.vdaf._field import Elements, Field

_MODULUS = 2**66 * 4611686018427387897 + 1


class Field128(Field):
    """The integers modulo 2⁶⁶ · 4611686018427387897 + 1."""

    modulus = _MODULUS
    size = 16
    root = pow(7, 4611686018427387897, _MODULUS)
    root_order = 2**66

    def array(self, integers: Any) -> Elements:
        """An array of elements from integers of any size or sign, reduced modulo the prime."""
        return np.asarray(np.asarray(integers, dtype=object) % _MODULUS, dtype=object)

    def add(self, left: Elements, right: Elements) -> Elements:
        """`left + right`."""
        return self.array(left + right)

    def subtract(self, left: Elements, right: Elements) -> Elements:
        """`left - right`."""
        return self.array(left - right)

    def multiply(self, left: Elements, right: Elements) -> Elements:
        """`left * right`."""
        return self.array(left * right)

    def sum(self, values: Elements, axis: int = -1) -> Elements:
        """The sums along one axis."""
        return self.array(values.sum(axis=axis))

    def to_bytes(self, values: Elements) -> bytes:
        """The encodings of all elements, one after another."""
        return b"".join(int(value).to_bytes(self.size, "little") for value in values.ravel())

    def from_bytes(self, encoded: bytes) -> Elements:
        """Little-endian integers of 16 bytes, which may be as large as the modulus or larger."""
        starts = range(0, len(encoded), self.size)
        integers = [int.from_bytes(encoded[start : start + self.size], "little") for start in starts]
        return np.array(integers, dtype=object)
