"""Polynomials given by their values at the powers of a root of unity, along the last axis of an array.

`transform`, the number theoretic transform (NTT), turns coefficients into values. `interpolate` is its
inverse.
"""

from __future__ import annotations

import numpy as np

from dpbandits.vdaf._field import Elements, Field


def powers(field: Field, base: Elements, count: int) -> Elements:
    """The powers 0 to `count` - 1 of each element, along a new last axis."""
    result = np.stack([field.array(np.ones(base.shape, dtype=np.int64)), base], axis=-1)
    while result.shape[-1] < count:
        next_power = field.multiply(result[..., -1:], result[..., 1:2])
        result = np.concatenate([result, field.multiply(result, next_power)], axis=-1)
    return result[..., :count]


def transform(field: Field, coefficients: Elements) -> Elements:
    """The values of polynomials at the powers of the principal root of unity.

    Args:
        field: The field of the coefficients.
        coefficients: The constant terms come first; the last axis has a power of two as its length n.

    Returns:
        An array of the same shape; entry k of the last axis is the value at the k-th power of the principal
        n-th root of unity.
    """
    length = coefficients.shape[-1]
    if length == 1:
        return coefficients
    even = transform(field, coefficients[..., 0::2])
    odd = transform(field, coefficients[..., 1::2])
    turned = field.multiply(odd, field.root_powers(length)[: length // 2])
    return np.concatenate([field.add(even, turned), field.subtract(even, turned)], axis=-1)


def interpolate(field: Field, values: Elements) -> Elements:
    """The coefficients of polynomials that have these values at the powers of the principal root of unity."""
    length = values.shape[-1]
    reverse = -np.arange(length) % length  # the powers of the inverse root are those of the root, reversed
    return field.multiply(transform(field, values)[..., reverse], field.inverse(length))


def double(field: Field, values: Elements) -> Elements:
    """The values at the powers of the root of order 2n, from those at the powers of the root of order n."""
    coefficients = interpolate(field, values)
    return transform(field, np.concatenate([coefficients, field.zeros(*values.shape)], axis=-1))


def evaluation_weights(field: Field, points: Elements, length: int) -> Elements:
    """The weights with which values at `length` powers of the root add up to the values at other points.

    A polynomial with coefficients c = F⁻¹v has the value (1, t, t², …) · F⁻¹v at t. The matrix F of the
    transform is symmetric, so the weights of v are F⁻¹(1, t, t², …).

    Args:
        field: The field of the points.
        points: Any elements.
        length: The number of values by which a polynomial of degree below `length` is given, a power of two.

    Returns:
        The weights, along a new last axis.
    """
    return interpolate(field, powers(field, points, length))


def last_value(field: Field, values: Elements) -> Elements:
    """The last of n values of a polynomial of degree below n - 1, from the first n - 1.

    The coefficient of degree n - 1 is zero: Σ v_k w^k = 0, where w is the principal n-th root of unity.
    """
    roots = field.root_powers(values.shape[-1] + 1)
    return field.sum(field.multiply(values, field.subtract(field.zeros(1), roots[1:])))
