"""Access to the actions in blocks; they are never copied as a whole, so they may be a memory-mapped file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import InvalidValue

_BLOCK_BYTES = 2**21  # of 64-bit numbers; a block stays in a core's cache while it is processed


class Selection:
    """Some rows of a matrix, copied only when they are read.

    Args:
        matrix: The matrix.
        indices: The indices of the rows.

    Example:
        >>> import numpy as np
        >>> from dpbandits.design import Selection, near_g_optimal
        >>> rows = Selection(np.eye(4), np.array([0, 2]))
        >>> near_g_optimal(rows).rank
        2
    """

    def __init__(self, matrix: FloatArray, indices: IntArray) -> None:
        self.matrix, self.indices = matrix, indices
        self.shape, self.ndim, self.dtype = (len(indices), matrix.shape[1]), 2, matrix.dtype

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, places: slice | IntArray) -> FloatArray:
        chosen = self.indices[places]
        if isinstance(places, slice) and chosen.size and (np.diff(chosen) == 1).all():
            return self.matrix[chosen[0] : chosen[-1] + 1]  # consecutive rows need no copy
        return self.matrix[chosen]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.matrix[self.indices], dtype=dtype)


def as_rows(actions: ArrayLike | Selection) -> FloatArray:
    """Return a matrix of real numbers. The number type is kept, and entries are not checked to be finite."""
    if isinstance(actions, Selection):
        return cast("NDArray[np.float64]", actions)  # every matrix here is only read by rows
    try:
        matrix = np.asarray(actions)
        if matrix.dtype.kind not in "fiub":
            matrix = np.asarray(actions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValue("actions", type(actions).__name__, "a matrix of numbers") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidValue("actions", f"shape {matrix.shape}", "a matrix with at least one row and column")
    return matrix


def block_rows(matrix: FloatArray) -> int:
    """Return how many rows of 64-bit numbers fit into a core's cache; at least 1."""
    return max(1, _BLOCK_BYTES // (8 * int(matrix.shape[1])))


def blocks(matrix: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the rows in blocks of 64-bit numbers that fit into a cache, with their positions."""
    size = block_rows(matrix)
    for first in range(0, len(matrix), size):
        here = slice(first, min(first + size, len(matrix)))
        yield here, np.asarray(matrix[here], dtype=np.float64)


def picked(matrix: FloatArray, indices: IntArray, kind: type[np.floating] = np.float64) -> NDArray[Any]:
    """Return a copy of some rows as numbers of one type, and check that they are finite."""
    rows = np.empty((indices.size, matrix.shape[1]), dtype=kind)
    size = block_rows(matrix)
    for first in range(0, indices.size, size):
        chosen = indices[first : first + size]
        block = matrix[chosen]
        if not np.isfinite(block).all():
            check_finite(block, chosen)
        with np.errstate(over="ignore"):
            rows[first : first + size] = block
    return rows


def check_finite(rows: FloatArray, indices: IntArray | range) -> None:
    """Raise an error that names the first entry that is not finite.

    `indices` are the positions of the rows in the whole matrix.
    """
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InvalidValue(
            f"actions[{indices[row]}, {column}]", rows[row, column], "a finite number (no NaN, no infinity)"
        )
