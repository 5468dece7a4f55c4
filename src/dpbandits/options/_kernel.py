"""`Kernel`: columns with which mean rewards may be any smooth function of the features.

Let κ be a positive definite kernel with κ(x, x) = 1 on the options, and o one of them, the origin. The kernel
of the differences to the origin is

    κ₀(x, y) = κ(x, y) − κ(x, o) − κ(y, o) + 1.

Landmarks z₁, z₂, … are chosen among the options, each where the columns so far leave out most of κ₀(x, x).
Column j is column j of the Cholesky factor of κ₀ with these pivots (Nyström features in Newton's basis):

    φ_j(x) = (κ₀(x, z_j) − Σ_(i < j) φ_i(x)·φ_i(z_j)) / √(κ₀(z_j, z_j) − Σ_(i < j) φ_i(z_j)²).

docs/theory.md proves how far a smooth function is from the span of the intercept and these columns.

Plans depend on the columns, so every machine has to compute the same bits. Here all arithmetic is elementwise
+, −, ×, ÷ and √, which IEEE 754 determines; there is no sum whose order depends on the processor. NumPy's
`exp` has different last bits on different processors, so `exp_minus` is used instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import between, one_of, whole
from dpbandits.errors import InvalidValue
from dpbandits.options._feature import Feature
from dpbandits.options._kinds import Level, listed, shown

SHAPES = ("rbf", "matern")
ENOUGH = 0.05  # without a rank, landmarks are added until at most this much is left out
MOST = 50  # without a rank, the largest number of landmarks
_ROUNDING = 1e-10  # an upper bound on the rounding error of κ₀(x, x) − |φ(x)|²
_SMALLEST = 1e-6  # if less than this is left of a landmark, its column would consist of rounding errors
_SCALES = (1e-3, 1e3)  # beyond these, κ is nearly 0 for all pairs of options, or nearly 1
_MOST_LANDMARKS = 1000  # a larger matrix would take minutes
_LEVELS_SQUARED = 4.0  # the squared distance of two levels of a category: that of −1 and 1
_INVERSE_E = 0.36787944117144233
_WHOLE_POWERS = np.cumprod([1.0, *[_INVERSE_E] * 745])  # e^−745 is the smallest power above 0
_FACTORS = [1.0 / math.factorial(power) for power in range(21)]


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Kernel columns in place of one column per feature: mean rewards may be any smooth function.

    Numbers and ordered levels are mapped to [−1, 1] first. The distance of two levels of a category is
    2, that of −1 and 1. All interactions of features are included.

    Attributes:
        shape: "rbf", the squared exponential kernel exp(−r²/2), or "matern", the Matérn kernel with ν = 5/2,
            for functions that are less smooth. r is the distance divided by `length_scale`.
        length_scale: The distance over which mean rewards may change a lot, where the range of a number is 2.
            A shorter one suits more functions and needs more columns.
        rank: The number of columns, the intercept included; there are fewer if nothing more is left out. None
            for the least number that leaves out at most 0.05 (`Options.left_out`), but at most 50.
        landmarks: The values of the features at the options that the columns belong to, the origin first;
            chosen from the table if empty.

    Raises:
        InvalidValue: An attribute is not accepted.

    Example:
        >>> import dpbandits as dp
        >>> table = {"name": ["5 €", "6 €", "7 €", "8 €", "9 €"], "price": [5, 6, 7, 8, 9]}
        >>> options = dp.Options.from_table(table, kernel=dp.Kernel(length_scale=1.0, rank=3))
        >>> options.encoding.columns
        ('intercept', 'kernel(price=5)', 'kernel(price=9)')
    """

    shape: str = "rbf"
    length_scale: float = 0.5
    rank: int | None = None
    landmarks: tuple[tuple[Level, ...], ...] = ()

    def __post_init__(self) -> None:
        one_of(SHAPES, kernel=self.shape)
        between(*_SCALES, length_scale=self.length_scale)
        object.__setattr__(self, "landmarks", tuple(map(tuple, self.landmarks)))
        if self.rank is not None:
            whole(2, rank=self.rank)
        if max(self.rank or 0, len(self.landmarks)) > _MOST_LANDMARKS:
            raise InvalidValue("rank", self.rank or len(self.landmarks), f"at most {_MOST_LANDMARKS:,}")
        if self.landmarks and self.rank not in (None, len(self.landmarks)):
            raise InvalidValue("rank", self.rank, f"{len(self.landmarks)}, the number of landmarks")
        if len(self.landmarks) == 1:
            raise InvalidValue("landmarks", "1 landmark", "at least two, or none")

    def similarity(self, squared: FloatArray) -> FloatArray:
        """Return κ for squared distances.

        Args:
            squared: The squared distances of some pairs of options.
        """
        scaled = squared / (self.length_scale * self.length_scale)
        if self.shape == "rbf":
            return exp_minus(scaled / 2)
        far = np.sqrt(5 * scaled)
        return (1 + far + far * far / 3) * exp_minus(far)

    def describe(self) -> str:
        """Return one line about the kernel."""
        return f"kernel: {self.shape}, length scale {self.length_scale:.6g}; {len(self.landmarks)} landmarks"


def column_names(kernel: Kernel, features: Sequence[Feature]) -> list[str]:
    """Return the names of the columns of a kernel, without the intercept."""
    names = [one.name for one in features]
    marks = [dict(zip(names, landmark, strict=True)) for landmark in kernel.landmarks[1:]]
    return [f"kernel({', '.join(f'{name}={value}' for name, value in mark.items())})" for mark in marks]


def exp_minus(argument: FloatArray) -> FloatArray:
    """Return e^−x for numbers x ≥ 0, with the same bits on every processor.

    The whole part of x selects a power of 1/e, and the rest has a Taylor polynomial.

    Args:
        argument: The numbers x.

    Returns:
        One number each, with a relative error below 10⁻¹².
    """
    whole_part = np.floor(np.minimum(argument, len(_WHOLE_POWERS) - 1.0))
    rest = np.minimum(argument - whole_part, 1.0)  # above 1 only if e^−x is 0 in any case
    found = np.full_like(rest, _FACTORS[-1])
    for factor in reversed(_FACTORS[:-1]):
        found = factor - rest * found
    return np.asarray(found * _WHOLE_POWERS[whole_part.astype(np.int64)], dtype=np.float64)


class Basis:
    """The kernel columns of some points; each landmark adds one column.

    Args:
        kernel: The kernel.
        points: One row per point and one column per feature.
        categories: Which features are categories. For these, only equality counts.
        origin: The row of the origin.

    Attributes:
        columns: The columns so far, without the intercept.
        left: κ₀(x, x) − |φ(x)|² of each point: what the columns leave out.
    """

    def __init__(
        self, kernel: Kernel, points: FloatArray, categories: Sequence[bool], *, origin: int
    ) -> None:
        self._kernel, self._points, self._categories = kernel, points, categories
        self._to_origin = self._similar(origin)
        self.columns: list[FloatArray] = []
        self.left: FloatArray = 2 - 2 * self._to_origin

    def _similar(self, place: int) -> FloatArray:
        squared = np.zeros(len(self._points))
        for column, category in enumerate(self._categories):
            steps = self._points[:, column] - self._points[place, column]
            squared = squared + (_LEVELS_SQUARED * (steps != 0) if category else steps * steps)
        return self._kernel.similarity(squared)

    def add(self, place: int) -> None:
        """Make the point in this row the next landmark."""
        column = self._similar(place) - self._to_origin - self._to_origin[place] + 1
        for earlier in self.columns:
            column = column - earlier * earlier[place]
        column = column / math.sqrt(self.left[place])
        self.columns.append(column)
        self.left = self.left - column * column


def with_landmarks(
    kernel: Kernel, features: Sequence[Feature], table: Mapping[str, Sequence[Any]], rows: Sequence[str]
) -> Kernel:
    """Return the kernel with landmarks, which are chosen among the options of a table if it has none.

    The origin is the option nearest to the middle of all ranges. Each further landmark is the option with the
    largest part left out.

    Args:
        kernel: The kernel.
        features: The features of the options.
        table: The columns, by name.
        rows: What errors call each row.

    Raises:
        InvalidValue: The rank exceeds the number of options, a feature is squared or has steps, or the kernel
            cannot tell the options from each other.
    """
    check_features(features)
    if kernel.landmarks:
        return kernel
    if kernel.rank is not None and kernel.rank > len(rows):
        raise InvalidValue("rank", kernel.rank, f"at most {len(rows)}, the number of options")
    points, categories = _points(features, table, rows)
    middle = np.zeros(len(points))
    for column, category in enumerate(categories):
        middle = middle if category else middle + points[:, column] * points[:, column]
    chosen = [int(np.argmin(middle))]
    basis = Basis(kernel, points, categories, origin=chosen[0])
    enough = _SMALLEST if kernel.rank is not None else ENOUGH * ENOUGH
    while len(chosen) < (kernel.rank or min(MOST, len(points))):
        place = int(np.argmax(basis.left))
        if basis.left[place] <= enough and len(chosen) > 1:
            break
        _check_left(float(basis.left[place]), rows[place])
        basis.add(place)
        chosen.append(place)
    landmarks = tuple(tuple(table[one.name][place] for one in features) for place in chosen)
    return Kernel(
        shape=kernel.shape, length_scale=kernel.length_scale, rank=len(landmarks), landmarks=landmarks
    )


def kernel_basis(
    kernel: Kernel, features: Sequence[Feature], table: Mapping[str, Sequence[Any]], rows: Sequence[str]
) -> Basis:
    """Return the columns of the rows of a table, and what they leave out.

    Args:
        kernel: A kernel with landmarks.
        features: The features.
        table: The columns of the table, by name.
        rows: What errors call each row.

    Returns:
        The basis, with one row for each row of the table.

    Raises:
        InvalidValue: A value cannot be encoded, or a landmark is too near to the others.
    """
    names = [f"landmark {number}" for number in range(1, len(kernel.landmarks) + 1)]
    values = {one.name: [mark[place] for mark in kernel.landmarks] for place, one in enumerate(features)}
    marks, categories = _points(features, values, names)
    points, _ = _points(features, table, rows)
    basis = Basis(kernel, np.concatenate([marks, points]), categories, origin=0)
    for place in range(1, len(marks)):
        _check_left(float(basis.left[place]), names[place])
        basis.add(place)
    basis.columns = [column[len(marks) :] for column in basis.columns]
    basis.left = basis.left[len(marks) :]
    return basis


def largest_left_out(left: FloatArray) -> float:
    """Return the square root of the largest number that is left out, rounded up."""
    return math.sqrt(max(float(left.max()), 0.0) + _ROUNDING)


def check_features(features: Sequence[Feature]) -> None:
    """Raise an error if a feature is squared or has steps, which a kernel does not use."""
    for one in features:
        if one.squared or one.steps:
            state = "squared" if one.squared else "with a column per step"
            raise InvalidValue(
                one.name, state, "neither squares nor steps with a kernel, which includes them"
            )


def check_landmarks(kernel: Kernel, features: Sequence[Feature]) -> None:
    """Raise an error unless every landmark has one value per feature."""
    for landmark in kernel.landmarks:
        if len(landmark) != len(features):
            names = listed([one.name for one in features])
            raise InvalidValue("landmarks", shown(landmark), f"one value for each of {names}")


def _points(
    features: Sequence[Feature], table: Mapping[str, Sequence[Any]], rows: Sequence[str]
) -> tuple[FloatArray, list[bool]]:
    points = np.column_stack([one.coordinate(table[one.name], rows) for one in features])
    return points, [one.kind == "category" for one in features]


def _check_left(left: float, name: str) -> None:
    if left < _SMALLEST:
        raise InvalidValue(name, "nearly a combination of other landmarks", "a smaller length scale or rank")
