"""`Encoding`: how a table becomes vectors in the unit ball, and how an estimate is translated back.

An encoded option is x = b/`length`, where b has a 1 for the intercept, the terms of each feature, and the
products of terms for interactions. `length` is the largest norm of b in the table. If ⟨θ, x⟩ is the mean
reward, then it is also a polynomial in the user's units with the coefficients `translation()` @ θ. With a
`Kernel`, b has a 1 and the columns of the kernel instead, and there is no such polynomial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from dpbandits._arrays import FloatArray
from dpbandits._checks import positive
from dpbandits.errors import InvalidValue
from dpbandits.options._feature import Feature, Polynomial
from dpbandits.options._kernel import (
    Basis,
    Kernel,
    check_features,
    check_landmarks,
    column_names,
    kernel_basis,
)
from dpbandits.options._kinds import listed, shown

INTERCEPT = "intercept"
_ROUNDING = 1e-9  # by which the norm of an encoded row may exceed 1
_DEPENDENT = 1e-8  # a column whose distance to the span of the others is below this share depends on them


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How options are encoded. It is a plain value: msgspec converts it to JSON and back.

    Attributes:
        features: The features in order.
        interactions: Pairs of features whose products are columns too.
        length: The norm by which all rows are divided.
        kernel: The kernel with its landmarks, if the columns are those of a kernel; else `msgspec.UNSET`.

    Raises:
        InvalidValue: If an interaction names an unknown feature, two columns have the same name, or the
            kernel does not fit the features.

    Example:
        >>> import dpbandits as dp
        >>> options = dp.Options.from_table({"name": ["a", "b"], "price": [1, 3]})
        >>> options.encoding.columns, options.encoding.terms
        (('intercept', 'price'), ('intercept', 'price'))
    """

    features: tuple[Feature, ...]
    interactions: tuple[tuple[str, str], ...] = ()
    length: float = 1.0
    kernel: Kernel | UnsetType = (
        UNSET  # not None, so that JSON and digests without a kernel have no such field
    )

    def __post_init__(self) -> None:
        positive(length=self.length)
        if isinstance(self.kernel, Kernel):
            self._check_kernel(self.kernel)
        names = [feature.name for feature in self.features]
        for pair in self.interactions:
            for name in pair:
                if name not in names:
                    raise InvalidValue("interactions", shown(name), f"one of {listed(names)}")
        for place, column in enumerate(self.columns):
            if column in self.columns[:place]:
                raise InvalidValue("features", f"two columns {column!r}", "names that differ when encoded")

    def _check_kernel(self, kernel: Kernel) -> None:
        check_features(self.features)
        check_landmarks(kernel, self.features)
        if not kernel.landmarks:
            raise InvalidValue("landmarks", "none", "at least two; Options.from_table chooses them")
        if self.interactions:
            raise InvalidValue(
                "interactions", shown(self.interactions), "none with a kernel, which includes them"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the encoded columns: the intercept, the terms, and products of terms."""
        if isinstance(self.kernel, Kernel):
            return (INTERCEPT, *column_names(self.kernel, self.features))
        own = [term for feature in self.features for term in feature.terms]
        both = [f"{one.terms[a]} × {two.terms[b]}" for one, two, a, b in self._products()]
        return (INTERCEPT, *own, *both)

    def _products(self) -> list[tuple[Feature, Feature, int, int]]:
        by_name = {feature.name: feature for feature in self.features}
        pairs = [(by_name[one], by_name[two]) for one, two in self.interactions]
        return [
            (one, two, a, b) for one, two in pairs for a, b in product(one.linear_terms, two.linear_terms)
        ]

    def unscaled(self, table: Mapping[str, Sequence[Any]], rows: Sequence[str]) -> FloatArray:
        """Return b of each row of a table with the columns of the features.

        Args:
            table: The columns, by name.
            rows: What errors call each row.

        Raises:
            InvalidValue: A value cannot be encoded.
        """
        if isinstance(self.kernel, Kernel):
            return np.column_stack([np.ones(len(rows)), *self.kernel_basis(table, rows).columns])
        terms = {one.name: one.encode(table[one.name], rows) for one in self.features}
        blocks = [np.ones((len(rows), 1)), *terms.values()]
        blocks += [
            (terms[one.name][:, a] * terms[two.name][:, b])[:, None] for one, two, a, b in self._products()
        ]
        return np.hstack(blocks)

    def kernel_basis(self, table: Mapping[str, Sequence[Any]], rows: Sequence[str]) -> Basis:
        """Return the columns of the kernel for each row of a table, and what they leave out.

        Args:
            table: The columns, by name.
            rows: What errors call each row.

        Raises:
            InvalidValue: A value cannot be encoded.
        """
        assert isinstance(self.kernel, Kernel)
        return kernel_basis(self.kernel, self.features, table, rows)

    def encode(self, table: Mapping[str, Sequence[Any]], rows: Sequence[str]) -> FloatArray:
        """Return x of each row, a vector of norm at most 1.

        Args:
            table: The columns, by name.
            rows: What errors call each row.

        Raises:
            InvalidValue: A value cannot be encoded, or lies outside the range of the table that the encoding
                was made from, so that the vector would be longer than 1.
        """
        found = self.unscaled(table, rows) / self.length
        norms = np.linalg.norm(found, axis=1)
        longest = int(np.argmax(norms))
        if norms[longest] > 1 + _ROUNDING:
            expected = "values within the ranges of the table that the encoding was made from"
            raise InvalidValue(rows[longest], f"a vector of norm {norms[longest]:.4g}", expected)
        return np.asarray(found / np.maximum(norms, 1.0)[:, None], dtype=np.float64)

    @cached_property
    def _polynomials(self) -> list[Polynomial]:
        """Each encoded column as a polynomial in the user's units."""
        own = {feature.name: feature.polynomials() for feature in self.features}
        found: list[Polynomial] = [{"": 1.0}]
        found += [polynomial for polynomials in own.values() for polynomial in polynomials]
        found += [_times(own[one.name][a], own[two.name][b]) for one, two, a, b in self._products()]
        return found

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The terms of the mean reward in the user's units, the intercept first; none with a kernel."""
        if isinstance(self.kernel, Kernel):
            return ()
        names = dict.fromkeys(name for polynomial in self._polynomials for name in polynomial)
        return (INTERCEPT, *(name for name in names if name))

    def translation(self) -> FloatArray:
        """Return the matrix that translates θ into the coefficients of `terms`, in the user's units."""
        found = np.zeros((len(self.terms), len(self.columns)))
        if isinstance(self.kernel, Kernel):
            return found
        places = {name: place for place, name in enumerate(self.terms)} | {"": 0}
        for column, polynomial in enumerate(self._polynomials):
            for name, coefficient in polynomial.items():
                found[places[name], column] += coefficient
        return found / self.length

    def describe(self) -> str:
        """Return lines that say how each feature is encoded."""
        lines = [feature.describe() for feature in self.features]
        if isinstance(self.kernel, Kernel):
            for place, feature in enumerate(self.features):
                if feature.kind == "category":
                    lines[place] = (
                        f"{feature.name}: category; the distance of two levels is 2, as that of −1 and 1"
                    )
            lines.append(self.kernel.describe())
        lines += [f"{one} × {two}: products of their columns" for one, two in self.interactions]
        lines.append(f"columns ({len(self.columns)}): {', '.join(self.columns)}")
        lines.append(f"each row is divided by {self.length:.6g}, the largest norm")
        return "\n".join(lines)


def _times(one: Polynomial, two: Polynomial) -> Polynomial:
    found = Polynomial()
    for (a, of_a), (b, of_b) in product(one.items(), two.items()):
        name = f"{a} × {b}" if a and b else a or b
        found[name] = found.get(name, 0.0) + of_a * of_b
    return found


def check_independent(columns: Sequence[str], matrix: FloatArray) -> None:
    """Raise an error that names the first column that is a combination of earlier columns.

    Args:
        columns: The names of the columns.
        matrix: The encoded options, one per row.

    Raises:
        InvalidValue: A column is constant, repeats another one, or is a combination of others.
    """
    kept = list[int]()
    basis = np.empty((len(matrix), 0))
    for place, name in enumerate(columns):
        column = matrix[:, place]
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)  # once more, against rounding
        size = float(np.linalg.norm(rest))
        if size <= _DEPENDENT * float(np.linalg.norm(column)) or size == 0:
            raise _dependent(name, column, [columns[one] for one in kept], matrix[:, kept])
        kept.append(place)
        basis = np.column_stack([basis, rest / size])


def _dependent(name: str, column: FloatArray, others: list[str], matrix: FloatArray) -> InvalidValue:
    shares = np.linalg.lstsq(matrix, column, rcond=None)[0]
    used = [other for other, share in zip(others, shares, strict=True) if abs(share) > 1e-6]
    without = [other for other in used if other != INTERCEPT]
    expected = "a column that the others do not determine; leave one of them out"
    if not without:
        return InvalidValue(name, "the same number in every row", "a column with two values or more")
    if len(without) == 1:
        return InvalidValue(name, f"a copy of {without[0]} up to scale", expected)
    return InvalidValue(name, f"a sum of multiples of {listed(without)}", expected)
