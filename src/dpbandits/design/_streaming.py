"""The span of many actions, block by block; used if a sample does not determine the span.

Columns are divided by their largest entries, as in `find_span`, and the triangle of the QR factorisation is
updated block by block. If a sample does not span all dimensions found, the rows that span best are chosen in
the same way, by pivoting. So even a single row that leaves a hyperplane is found among millions that do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgeqp3

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._rows import blocks, check_finite
from dpbandits.design._span import NOISE, divided, heights, in_given_units, units_from


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart:
    """Coordinates of the span of all actions.

    Attributes:
        units: The unit of each column.
        directions: Orthonormal columns, in these units.
    """

    units: FloatArray
    directions: FloatArray

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return int(self.directions.shape[1])

    @property
    def basis(self) -> FloatArray:
        """Orthonormal columns that span the actions."""
        return in_given_units(self.directions, self.units)

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return the coordinates of some rows."""
        return divided(rows, self.units) @ self.directions


def find_chart(actions: FloatArray, *, rank: int | None = None) -> Chart:
    """Read all rows twice; keep the leading `rank` dimensions, or all that are not noise."""
    units = units_from(_heights_of_all(actions))
    triangle = np.empty((0, units.size))
    for _, block in blocks(actions):
        # The triangle of all rows so far has the same singular values and directions as the rows.
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, divided(block, units)]), mode="r"))
    _, lengths, directions = np.linalg.svd(triangle, full_matrices=False)
    if rank is None:
        rank = int(np.count_nonzero(lengths > NOISE * lengths[0]))
    return Chart(units=units, directions=directions[:rank].T)


def spanning_rows(actions: FloatArray, chart: Chart) -> IntArray:
    """Read all rows once, and choose as many as there are columns, so that they span well."""
    candidates = np.empty((0, chart.units.size))
    chosen: IntArray = np.empty(0, dtype=np.int64)
    for here, block in blocks(actions):
        # Keep the best rows so far, add a block, and let pivoted QR choose again.
        pool = np.vstack([candidates, divided(block, chart.units)])
        places = np.concatenate([chosen, np.arange(here.start, here.stop)])
        best = dgeqp3(pool.T)[1][: chart.units.size] - 1
        candidates, chosen = pool[best], places[best]
    return np.unique(chosen)


def _heights_of_all(actions: FloatArray) -> FloatArray:
    """Return the largest entry of each column, and check that all entries are finite."""
    peaks = np.zeros(actions.shape[1])
    for here, block in blocks(actions):
        highest = heights(block)
        if not np.isfinite(highest).all():
            check_finite(block, range(here.start, here.stop))
        np.maximum(peaks, highest, out=peaks)
    return peaks
