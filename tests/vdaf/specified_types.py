"""The types Count, Sum, SumVec and Histogram of the specification, whose vectors check the package.

Field128 is the integers modulo 2⁶⁶ · 4611686018427387897 + 1, in arrays of Python integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbandits.vdaf import Prio3
from dpbandits.vdaf._circuits import (
    Bits,
    Circuit,
    Sizes,
    SumVec,
    from_weighted_bits,
    integers,
    weighted_bits,
)
from dpbandits.vdaf._field import Elements, Field
from dpbandits.vdaf._field64 import Field64

_MODULUS = 2**66 * 4611686018427387897 + 1


class Field128(Field):
    """The integers modulo 2⁶⁶ · 4611686018427387897 + 1."""

    modulus = _MODULUS
    size = 16
    root = pow(7, 4611686018427387897, _MODULUS)
    root_order = 2**66

    def array(self, integers: Any) -> Elements:
        return np.asarray(np.asarray(integers, dtype=object) % _MODULUS, dtype=object)

    def add(self, left: Elements, right: Elements) -> Elements:
        return self.array(left + right)

    def subtract(self, left: Elements, right: Elements) -> Elements:
        return self.array(left - right)

    def multiply(self, left: Elements, right: Elements) -> Elements:
        return self.array(left * right)

    def sum(self, values: Elements, axis: int = -1) -> Elements:
        return self.array(values.sum(axis=axis))

    def to_bytes(self, values: Elements) -> bytes:
        return b"".join(int(value).to_bytes(self.size, "little") for value in values.ravel())

    def from_bytes(self, encoded: bytes) -> Elements:
        starts = range(0, len(encoded), self.size)
        integers = [int.from_bytes(encoded[start : start + self.size], "little") for start in starts]
        return np.array(integers, dtype=object)


class Count(Circuit):
    def __init__(self, field: Field) -> None:
        super().__init__(field, Sizes(measurement=1, output=1, arity=2, calls=1), largest=1)

    def encode(self, measurements: Any) -> Elements:
        return self.field.array(integers(measurements, 1, 1))

    def wires(self, measurements: Elements, joint: Elements, shares: int) -> Elements:
        return np.repeat(measurements[:, np.newaxis, np.newaxis, :], 2, axis=-1)

    def gadget(self, inputs: Elements) -> Elements:
        return self.field.multiply(inputs[..., 0], inputs[..., 1])

    def outputs(self, measurements: Elements, results: Elements, shares: int) -> Elements:
        return self.field.subtract(results, measurements[:, np.newaxis, :])

    def truncate(self, measurements: Elements) -> Elements:
        return measurements


class Sum(Circuit):
    def __init__(self, field: Field, largest: int) -> None:
        bits = largest.bit_length()
        sizes = Sizes(measurement=bits, output=1, arity=1, calls=bits, evaluations=bits)
        super().__init__(field, sizes, largest)

    def encode(self, measurements: Any) -> Elements:
        numbers = integers(measurements, 1, self.largest)
        return self.field.array(weighted_bits(numbers, self.largest))

    def wires(self, measurements: Elements, joint: Elements, shares: int) -> Elements:
        return measurements[:, np.newaxis, :, np.newaxis]

    def gadget(self, inputs: Elements) -> Elements:
        bit = inputs[..., 0]
        return self.field.subtract(self.field.multiply(bit, bit), bit)

    def outputs(self, measurements: Elements, results: Elements, shares: int) -> Elements:
        return results

    def truncate(self, measurements: Elements) -> Elements:
        return from_weighted_bits(self.field, measurements, 1, self.largest)


class Histogram(Bits):
    def __init__(self, field: Field, length: int, chunk: int) -> None:
        super().__init__(field, measurement=length, output=length, chunk=chunk, largest=1, evaluations=2)
        self.length = length

    def encode(self, measurements: Any) -> Elements:
        index = integers(measurements, 1, self.length - 1)
        return self.field.array((index == np.arange(self.length)).astype(np.int64))

    def outputs(self, measurements: Elements, results: Elements, shares: int) -> Elements:
        excess = self.field.subtract(self.field.sum(measurements), self.field.inverse(shares))
        bits = self.field.sum(results)
        return np.stack([bits, np.broadcast_to(excess[:, np.newaxis], bits.shape)], axis=-1)

    def truncate(self, measurements: Elements) -> Elements:
        return measurements


def sum_vec(*, numbers: int, largest: int, chunk: int, context: bytes, shares: int = 2) -> Prio3:
    circuit = SumVec(Field128(), numbers, largest, chunk)
    return Prio3(circuit=circuit, algorithm=3, context=context, shares=shares)


def count(*, context: bytes, shares: int = 2) -> Prio3:
    return Prio3(circuit=Count(Field64()), algorithm=1, context=context, shares=shares)


def total(*, largest: int, context: bytes, shares: int = 2) -> Prio3:
    return Prio3(circuit=Sum(Field64(), largest), algorithm=2, context=context, shares=shares)


def histogram(*, length: int, chunk: int, context: bytes, shares: int = 2) -> Prio3:
    return Prio3(circuit=Histogram(Field128(), length, chunk), algorithm=4, context=context, shares=shares)
