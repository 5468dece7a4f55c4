"""Fields and polynomials against Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.vdaf._field import Elements, Field
from dpbandits.vdaf._field64 import _BLOCK, Field64
from dpbandits.vdaf._polynomials import double, evaluation_weights, interpolate, last_value, powers, transform
from tests.vdaf.specified_types import Field128

FIELDS = [Field64(), Field128()]
fields = pytest.mark.parametrize("field", FIELDS, ids=["field64", "field128"])


def elements(field: Field) -> st.SearchStrategy[int]:
    """Any element, and often one at which carries and borrows change."""
    near = [0, 2**31, 2**32, 2**33, 2**63, field.modulus // 2, field.modulus]
    edges = st.builds(
        lambda edge, step: (edge + step) % field.modulus, st.sampled_from(near), st.integers(-2, 2)
    )
    return edges | st.integers(0, field.modulus - 1)


def integers(values: Elements) -> list[int]:
    return [int(value) for value in values.ravel()]


OPERATIONS: list[tuple[str, Callable[[int, int], int]]] = [
    ("add", lambda left, right: left + right),
    ("subtract", lambda left, right: left - right),
    ("multiply", lambda left, right: left * right),
]


@fields
@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
@settings(max_examples=100)
@given(data=st.data())
def test_operations_are_those_of_integers(
    field: Field, name: str, operation: Callable[[int, int], int], data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(elements(field), elements(field)), min_size=1, max_size=20))
    left, right = (field.array([pair[side] for pair in pairs]) for side in (0, 1))
    expected = [operation(*pair) % field.modulus for pair in pairs]
    assert integers(getattr(field, name)(left, right)) == expected


def test_large_products_and_small_ones_agree() -> None:
    """Large arrays are multiplied block by block, with broadcasting."""
    field, rng = Field64(), np.random.default_rng(1)
    left = field.array(rng.integers(0, 2**64, (7, 1, _BLOCK // 4 + 3), dtype=np.uint64))
    right = field.array(rng.integers(0, 2**64, (1, 5, 1), dtype=np.uint64))
    product = field.multiply(left, right)
    assert product.shape == (7, 5, _BLOCK // 4 + 3)
    for row in range(7):
        for column in range(5):
            some = product[row, column, ::97]
            expected = [int(x) * int(right[0, column, 0]) % field.modulus for x in left[row, 0, ::97]]
            assert integers(some) == expected


@fields
@given(data=st.data())
def test_sums_are_those_of_integers(field: Field, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(elements(field), min_size=3, max_size=3), min_size=1, max_size=30))
    values = field.array(rows)
    assert integers(field.sum(values)) == [sum(row) % field.modulus for row in rows]
    assert integers(field.sum(values, axis=0)) == [
        sum(row) % field.modulus for row in zip(*rows, strict=True)
    ]


def test_a_long_sum_of_the_largest_element_does_not_overflow() -> None:
    field = Field64()
    values = np.full(2**20, field.modulus - 1, dtype=np.uint64)
    assert int(field.sum(values)) == -(2**20) % field.modulus


@fields
@given(data=st.data())
def test_arrays_reduce_integers_of_any_size_and_sign(field: Field, data: st.DataObject) -> None:
    given_integers = data.draw(st.lists(st.integers(-(2**130), 2**130), min_size=1))
    assert integers(field.array(given_integers)) == [integer % field.modulus for integer in given_integers]
    small = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
    assert integers(field.array(np.array(small))) == [integer % field.modulus for integer in small]


@fields
@given(data=st.data())
def test_elements_survive_their_encoding(field: Field, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(elements(field), min_size=2, max_size=2), min_size=1))
    encoded = field.encode_rows(field.array(rows))
    assert encoded == [b"".join(value.to_bytes(field.size, "little") for value in row) for row in rows]
    values, valid = field.decode_rows(encoded, 2)
    assert valid.all()
    assert integers(values) == [value for row in rows for value in row]


@fields
def test_encodings_of_the_modulus_and_above_are_masked(field: Field) -> None:
    too_large = (field.modulus, 256**field.size - 1)
    rows = [value.to_bytes(field.size, "little") for value in (field.modulus - 1, *too_large, 0)]
    values, valid = field.decode_rows(rows, 1)
    assert valid.tolist() == [True, False, False, True]
    assert integers(values) == [field.modulus - 1, 0, 0, 0]


@fields
def test_roots_have_their_order(field: Field) -> None:
    assert pow(field.root, field.root_order, field.modulus) == 1
    assert pow(field.root, field.root_order // 2, field.modulus) == field.modulus - 1
    assert integers(field.root_powers(2)) == [1, field.modulus - 1]


def value_at(field: Field, coefficients: list[int], point: int) -> int:
    return sum(value * pow(point, at, field.modulus) for at, value in enumerate(coefficients)) % field.modulus


def a_polynomial(field: Field, data: st.DataObject) -> list[int]:
    length = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    return data.draw(st.lists(elements(field), min_size=length, max_size=length))


@fields
@given(data=st.data())
def test_the_transform_evaluates_and_its_inverse_interpolates(field: Field, data: st.DataObject) -> None:
    coefficients = a_polynomial(field, data)
    values = transform(field, field.array([coefficients, coefficients]))
    points = integers(field.root_powers(len(coefficients)))
    expected = [value_at(field, coefficients, point) for point in points]
    assert integers(values) == expected * 2
    assert integers(interpolate(field, values)) == coefficients * 2
    doubled = integers(double(field, values[0]))
    assert doubled == [value_at(field, coefficients, x) for x in integers(field.root_powers(2 * len(points)))]


@fields
@given(data=st.data())
def test_weights_evaluate_at_other_points(field: Field, data: st.DataObject) -> None:
    coefficients, point = a_polynomial(field, data), data.draw(elements(field))
    values = transform(field, field.array(coefficients))
    weights = evaluation_weights(field, field.array([point]), len(coefficients))
    at_point = field.sum(field.multiply(values, weights))
    assert integers(at_point) == [value_at(field, coefficients, point)]


@fields
@given(data=st.data())
def test_the_last_value_follows_from_the_others(field: Field, data: st.DataObject) -> None:
    coefficients = [*a_polynomial(field, data)[:-1], 0]
    if len(coefficients) > 1:
        values = transform(field, field.array(coefficients))
        assert int(last_value(field, values[:-1])) == int(values[-1])


@fields
@given(data=st.data())
def test_powers(field: Field, data: st.DataObject) -> None:
    base, length = data.draw(elements(field)), data.draw(st.integers(1, 20))
    expected = [pow(base, exponent, field.modulus) for exponent in range(length)]
    assert integers(powers(field, field.array([base]), length)) == expected
