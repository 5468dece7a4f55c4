"""Validity circuits: which encoded measurements are valid, as arithmetic in a field.

A circuit calls one gadget of degree 2 several times. The inputs of the gadget are affine in the
measurement. The circuit combines the gadget's results into outputs that are all zero for a valid
measurement.

Arrays of measurements have the axes [reports, …]. Arrays that depend on the randomness of a proof have the
axes [reports, proofs, …].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits.errors import InvalidValue
from dpbandits.vdaf._field import Elements, Field
from dpbandits.vdaf._polynomials import powers


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many elements, calls and outputs a circuit has."""

    measurement: int
    """Elements of an encoded measurement."""
    output: int
    """Elements of what is added up over the reports."""
    arity: int
    """Inputs of the gadget."""
    calls: int
    """Calls of the gadget."""
    joint: int = 0
    """Elements of joint randomness per proof."""
    evaluations: int = 1
    """Outputs of the circuit."""


class Circuit(ABC):
    """What a proof needs to know about a type of measurement."""

    def __init__(self, field: Field, sizes: Sizes, largest: int) -> None:
        self.field = field
        self.sizes = sizes
        self.largest = largest
        """The largest value of an output element of one valid report."""

    @abstractmethod
    def encode(self, measurements: Any) -> Elements:
        """One row of elements for each measurement.

        Raises:
            InvalidValue: A measurement is not valid.
        """

    @abstractmethod
    def wires(self, measurements: Elements, joint: Elements, shares: int) -> Elements:
        """The inputs of the gadget's calls, as [reports, proofs, calls, arity]."""

    @abstractmethod
    def gadget(self, inputs: Elements) -> Elements:
        """The gadget's results; its inputs are along the last axis."""

    @abstractmethod
    def outputs(self, measurements: Elements, results: Elements, shares: int) -> Elements:
        """The outputs of the circuit, from the results of the gadget's calls."""

    @abstractmethod
    def truncate(self, measurements: Elements) -> Elements:
        """The elements to add up, from encoded measurements or shares of them."""


class Bits(Circuit):
    """Elements that are all 0 or 1, checked `chunk` at a time with powers of the joint randomness.

    The gadget adds up `chunk` products of pairs. For element x, pair j of call i is (r_i^j · x, x - 1). The
    sum of all results is a polynomial in the r_i with the coefficients x² - x, which are zero if the
    elements are bits. If an element is not a bit, the sum is zero with a probability of at most chunk /
    modulus. A subclass may add up `products` further products, in calls after those for the bits.
    """

    def __init__(
        self,
        field: Field,
        *,
        measurement: int,
        output: int,
        chunk: int,
        largest: int,
        evaluations: int,
        products: int = 0,
    ) -> None:
        calls = -(-measurement // chunk)  # the last chunk may be padded with zeros
        sizes = Sizes(
            measurement=measurement,
            output=output,
            arity=2 * chunk,
            calls=calls + -(-products // chunk),
            joint=calls,
            evaluations=evaluations,
        )
        super().__init__(field, sizes, largest)
        self.chunk = chunk

    def wires(self, measurements: Elements, joint: Elements, shares: int) -> Elements:
        """The pairs (r^j · x, x - 1), where a server's share of 1 is 1 / shares."""
        reports, proofs, calls = joint.shape
        bits = self.in_chunks(measurements)
        pairs = np.empty((reports, proofs, calls, self.chunk, 2), dtype=bits.dtype)
        pairs[..., 0] = self.field.multiply(powers(self.field, joint, self.chunk + 1)[..., 1:], bits)
        pairs[..., 1] = self.field.subtract(bits, self.field.inverse(shares))
        return pairs.reshape(reports, proofs, calls, self.sizes.arity)

    def in_chunks(self, values: Elements) -> Elements:
        """Rows of elements, padded with zeros, as [reports, 1, calls, chunk]."""
        reports, length = values.shape
        padded = np.concatenate([values, self.field.zeros(reports, -length % self.chunk)], axis=1)
        return padded.reshape(reports, 1, -(-length // self.chunk), self.chunk)

    def gadget(self, inputs: Elements) -> Elements:
        """The sum of the products of pairs."""
        return self.field.sum(self.field.multiply(inputs[..., 0::2], inputs[..., 1::2]))


class SumVec(Bits):
    """A vector of `numbers` whole numbers from 0 to `largest`."""

    def __init__(self, field: Field, numbers: int, largest: int, chunk: int) -> None:
        length = numbers * largest.bit_length()
        super().__init__(
            field, measurement=length, output=numbers, chunk=chunk, largest=largest, evaluations=1
        )
        self.numbers = numbers

    def encode(self, measurements: Any) -> Elements:
        """The weighted bits of each number, one number after another."""
        numbers = integers(measurements, self.numbers, self.largest)
        return self.field.array(weighted_bits(numbers, self.largest))

    def outputs(self, measurements: Elements, results: Elements, shares: int) -> Elements:  # noqa: ARG002
        """The sum of all results."""
        return self.field.sum(results)[..., np.newaxis]

    def truncate(self, measurements: Elements) -> Elements:
        """The numbers, from their weighted bits."""
        return from_weighted_bits(self.field, measurements, self.numbers, self.largest)


def integers(measurements: Any, width: int, largest: int) -> Elements:
    """Whole numbers as [reports, width], checked."""
    given = np.asarray(measurements)
    numbers = given.reshape(len(given), -1) if given.size else given.reshape(len(given), width)
    if numbers.shape[1] != width:
        raise InvalidValue("measurement", f"{numbers.shape[1]} numbers", f"{width} numbers")
    if numbers.dtype.kind not in "iu":
        raise InvalidValue("measurement", f"numbers of type {numbers.dtype}", "whole numbers")
    wrong = (numbers < 0) | (numbers > largest)
    if wrong.any():
        raise InvalidValue("measurement", numbers[wrong][0], f"whole numbers >= 0 and <= {largest:,}")
    return numbers.astype(np.int64)


def _weights(largest: int) -> list[int]:
    """Powers of two, and a last weight with which they add up to `largest`: bits give no larger number."""
    bits = largest.bit_length()
    return [1 << place for place in range(bits - 1)] + [largest - (1 << (bits - 1)) + 1]


def weighted_bits(numbers: Elements, largest: int) -> Elements:
    """The bits of each number in a row, for the weights of `_weights`, as [reports, numbers * bits]."""
    *small, last_weight = _weights(largest)
    last = numbers > sum(small)
    rest = numbers - last * last_weight
    bits = [(rest >> place) & 1 for place in range(len(small))]
    stacked = np.stack([*bits, last.astype(np.int64)], axis=-1)
    return stacked.reshape(len(numbers), numbers.shape[1] * len(_weights(largest)))


def from_weighted_bits(field: Field, bits: Elements, numbers: int, largest: int) -> Elements:
    """The numbers, or shares of them, as [reports, numbers]."""
    by_number = bits.reshape(len(bits), numbers, -1)
    return field.sum(field.multiply(by_number, field.array(_weights(largest))))
