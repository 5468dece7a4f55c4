"""Scale and span of all actions, computed in blocks and for the certificate alone.

The rank is the number of singular values above 1e-10 of the largest, after each column is divided by its
largest entry. There are two ways to find it. Unlike the search, neither chooses pivots:

- `exact_frame` reads all rows: their scale, then X'X or, if that is inconclusive, a QR factorisation.
- `support_frame` reads the supported rows only. If they are well conditioned in the units of their own
  columns, and all leverages are at most g, the rank is proved; `is_settled` has the argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.design._rows import blocks, check_finite

_NOISE = 1e-10  # relative to the largest singular value; a smaller one is not a dimension
_CLEAR = 1e-8  # a larger ratio of eigenvalues of X'X cannot be due to rounding
_CONDITION = 1e-5  # supported rows that are better conditioned may prove the rank
_LARGEST_UNIT = 2.0**60  # 32-bit numbers hold columns with units between this and its inverse


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """Coordinates of a row x: (x / largest / units) @ directions; `directions` None is the identity.

    Attributes:
        largest: The largest entry of all rows, or 1.
        units: The unit of each column.
        directions: Orthonormal columns that span the rows in these units, or None for all columns.
        rank: The rank.
        passes: How often all rows were read to find the frame.
        thinnest: The smallest singular value of the supported rows in `support_frame`; 0 if all rows were
            read.
    """

    largest: float
    units: FloatArray
    directions: FloatArray | None
    rank: int
    passes: float
    thinnest: float = 0.0

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return the coordinates of some rows."""
        # Units are relative to the largest entry, so rows are divided by both.
        scaled = rows / self.largest if self.largest != 1 else rows.copy()
        scaled /= self.units
        return scaled if self.directions is None else scaled @ self.directions

    def is_settled(self, g: float, count: int) -> bool:
        """Return whether the rank is proved, given that no leverage exceeds g.

        For the supported rows S with weights π, Cauchy–Schwarz gives x_j² ≤ V_jj x'V⁻¹x ≤ s_j² g, where s_j
        is the largest entry of column j in S. So the units u of all rows are at most √g s, and σ_min(X/u) ≥
        σ_min(S/u) ≥ σ_min(S/s) / √g, while σ_max(X/u) ≤ √(k d) because no entry exceeds one. The factor 10
        covers rounding. For the same reason, no column counts as noise relative to another.
        """
        if self.thinnest == 0:
            return True
        thin = 10 * _NOISE * math.sqrt(max(g, 1.0))
        clear = self.thinnest > thin * math.sqrt(count * self.units.size)
        return bool(clear and self.units.min() > thin * self.units.max())


def support_frame(supported: FloatArray) -> Frame | None:
    """Return a frame in the units of the supported rows, or None if rank or range are in doubt."""
    units = np.abs(supported).max(axis=0)
    if len(supported) < units.size or not (units > 1 / _LARGEST_UNIT).all() or units.max() > _LARGEST_UNIT:
        return None
    lengths = np.linalg.svd(supported / units, compute_uv=False)
    if lengths[-1] <= _CONDITION * lengths[0]:
        return None
    thinnest = float(lengths[-1])
    return Frame(largest=1.0, units=units, directions=None, rank=units.size, passes=0.0, thinnest=thinnest)


def exact_frame(actions: FloatArray) -> Frame:
    """Find scale and span of all rows."""
    heights = np.zeros(actions.shape[1])
    for here, block in blocks(actions):
        highest = _peaks(block)
        if not np.isfinite(highest).all():
            check_finite(block, range(here.start, here.stop))
        np.maximum(heights, highest, out=heights)
    largest = float(heights.max())
    dimension = heights.size
    if largest == 0:
        empty = np.empty((dimension, 0))
        return Frame(largest=1.0, units=np.ones(dimension), directions=empty, rank=0, passes=1.0)
    heights /= largest
    units = np.where(heights > _NOISE, heights, 1.0)
    frame = Frame(largest=largest, units=units, directions=None, rank=dimension, passes=2.0)
    # The eigenvalues of X'X prove full rank in one pass, unless their ratio is near the rounding errors.
    gram = np.zeros((dimension, dimension))
    for _, block in blocks(actions):
        scaled = frame.coordinates(block)
        gram += scaled.T @ scaled
    eigenvalues = np.linalg.eigvalsh(gram)
    return frame if eigenvalues[0] > _CLEAR * eigenvalues[-1] else _with_directions(frame, actions)


def _peaks(block: FloatArray) -> FloatArray:
    """Return the largest absolute entry of each column; folding in halves is faster than row by row."""
    magnitudes = np.abs(block)
    while len(magnitudes) > 8:
        half = (len(magnitudes) + 1) // 2  # if the number is odd, the middle row is compared with itself
        np.maximum(magnitudes[:half], magnitudes[-half:], out=magnitudes[:half])
        magnitudes = magnitudes[:half]
    peaks: FloatArray = magnitudes.max(axis=0)
    return peaks


def _with_directions(frame: Frame, actions: FloatArray) -> Frame:
    """Return the frame with only the directions that are not noise.

    Forming X'X squares the condition number. So if its eigenvalues are inconclusive, the singular values of X
    decide: those of the triangle of X = QR, which is updated block by block.
    """
    triangle = np.empty((0, frame.units.size))
    for _, block in blocks(actions):
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, frame.coordinates(block)]), mode="r"))
    _, lengths, directions = np.linalg.svd(triangle, full_matrices=False)
    leading = directions[lengths > _NOISE * lengths[0]].T
    return replace(frame, directions=leading, rank=leading.shape[1], passes=frame.passes + 1)
