"""The validity circuit of vectors in a ball: every number is in its range, and the vector is not too long.

The specification has no such type; it is an ordinary circuit for its proof system. Let y = 2x - twice_centre
for each number x. A valid vector has Σy² ≤ largest_square. The client adds the difference of the two sides,
the *slack*, to its measurement, written as weighted bits like every number. So the circuit checks that all
elements are bits, and that Σy² + slack = largest_square. The slack is then at least 0, because a sum of
weighted bits is never negative.

The gadget that checks the bits also computes the squares, in separate calls: it adds up the products of the
pairs (y, y). The largest possible Σy² + slack is below the modulus, so nothing wraps around.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbandits.errors import InvalidValue
from dpbandits.vdaf._circuits import Bits, from_weighted_bits, integers, weighted_bits
from dpbandits.vdaf._field import Elements, Field


class SumVecInBall(Bits):
    """Vectors of whole numbers x from 0 to `largest` with Σ(2x - twice_centre)² ≤ largest_square."""

    def __init__(
        self, field: Field, numbers: int, largest: int, twice_centre: int, largest_square: int, chunk: int
    ) -> None:
        self._number_bits = numbers * largest.bit_length()
        super().__init__(
            field,
            measurement=self._number_bits + largest_square.bit_length(),
            output=numbers,
            chunk=chunk,
            largest=largest,
            evaluations=2,
            products=numbers,
        )
        self.numbers = numbers
        self.twice_centre = twice_centre
        self.largest_square = largest_square

    def encode(self, measurements: Any) -> Elements:
        """The weighted bits of each number, and then those of the slack."""
        numbers = integers(measurements, self.numbers, self.largest)
        doubled = 2 * numbers - self.twice_centre
        slack = self.largest_square - (doubled * doubled).sum(axis=1, keepdims=True)
        if (slack < 0).any():
            expected = f"one with Σ(2x - {self.twice_centre:,})² <= {self.largest_square:,}"
            raise InvalidValue("measurement", "a vector outside the ball", expected)
        bits = [weighted_bits(numbers, self.largest), weighted_bits(slack, self.largest_square)]
        return self.field.array(np.concatenate(bits, axis=1))

    def wires(self, measurements: Elements, joint: Elements, shares: int) -> Elements:
        """The pairs that check the bits, and then the pairs (y, y)."""
        numbers = self.truncate(measurements)
        doubled = self.field.subtract(self.field.add(numbers, numbers), self._part(self.twice_centre, shares))
        chunks = self.in_chunks(doubled)
        pairs = np.repeat(np.broadcast_to(chunks, (*joint.shape[:2], *chunks.shape[2:])), 2, axis=-1)
        return np.concatenate([super().wires(measurements, joint, shares), pairs], axis=2)

    def outputs(self, measurements: Elements, results: Elements, shares: int) -> Elements:
        """The sum of the results for the bits, and Σy² + slack - largest_square."""
        bits, squares = (
            self.field.sum(part)
            for part in (results[..., : self.sizes.joint], results[..., self.sizes.joint :])
        )
        slack = from_weighted_bits(self.field, measurements[:, self._number_bits :], 1, self.largest_square)
        missing = self.field.subtract(slack, self._part(self.largest_square, shares))
        return np.stack([bits, self.field.add(squares, missing)], axis=-1)

    def truncate(self, measurements: Elements) -> Elements:
        """The numbers, from their weighted bits."""
        bits = measurements[:, : self._number_bits]
        return from_weighted_bits(self.field, bits, self.numbers, self.largest)

    def _part(self, constant: int, shares: int) -> Elements:
        """A server's share of a constant."""
        return self.field.array(constant * pow(shares, -1, self.field.modulus))
