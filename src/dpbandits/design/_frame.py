"""Scale and span of all actions, found for the certificate alone and in blocks.

The rank is the number of singular values above 1e-10 of the largest, after each column was divided by its
largest entry. Two ways lead to it, and neither is the search's, which pivots:

- `exact_frame` reads all rows: their scale, then X'X or, where that leaves doubt, a QR factorisation.
- `support_frame` reads the supported rows alone. If those are well conditioned in the units of their own
  columns, then all leverages being at most g settles the rank; `is_settled` has the argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.design._rows import blocks, check_finite

_NOISE = 1e-10  # of the largest singular value: less than this in a direction is not a dimension
_CLEAR = 1e-8  # a ratio of eigenvalues of X'X that rounding cannot have produced
_CONDITION = 1e-5  # supported rows better conditioned than this may settle the rank
_LARGEST_UNIT = 2.0**60  # of columns that 32-bit numbers hold as they are, likewise its inverse


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """Coordinates of a row x: (x / largest / units) @ directions, or x / units if `directions` is None."""

    largest: float
    units: FloatArray
    directions: FloatArray | None
    rank: int
    passes: float
    thinnest: float = 0.0
    """The smallest singular value of the supported rows in `support_frame`, 0 where all rows were read."""

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Turn some rows into coordinates of the span."""
        scaled = rows / self.largest if self.largest != 1 else rows.copy()
        scaled /= self.units
        return scaled if self.directions is None else scaled @ self.directions

    def is_settled(self, g: float, count: int) -> bool:
        """Whether the rank is proved, given that no leverage exceeds g.

        For the supported rows S with weights π, Cauchy and Schwarz give x_j² ≤ V_jj x'V⁻¹x ≤ s_j² g, with s_j
        the largest entry of column j in S. So the units u of all rows are at most √g s, and
        σ_min(X/u) ≥ σ_min(S/u) ≥ σ_min(S/s) / √g, while σ_max(X/u) ≤ √(k d) because no entry exceeds one.
        The factor 10 covers rounding. No column is noise beside another for the same reason.
        """
        if self.thinnest == 0:
            return True
        spread = math.sqrt(max(g, 1.0))
        dimension = self.units.size
        thin = 10 * _NOISE * spread
        return bool(
            self.thinnest > thin * math.sqrt(count * dimension) and self.units.min() > thin * self.units.max()
        )


def support_frame(supported: FloatArray) -> Frame | None:
    """Take the supported rows' own units; None if these rows leave any doubt about rank or range."""
    units = np.abs(supported).max(axis=0)
    if len(supported) < units.size or not (units > 1 / _LARGEST_UNIT).all() or units.max() > _LARGEST_UNIT:
        return None
    lengths = np.linalg.svd(supported / units, compute_uv=False)
    if lengths[-1] <= _CONDITION * lengths[0]:
        return None
    return Frame(
        largest=1.0, units=units, directions=None, rank=units.size, passes=0.0, thinnest=float(lengths[-1])
    )


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
    frame = Frame(
        largest=largest,
        units=np.where(heights > _NOISE, heights, 1.0),
        directions=None,
        rank=dimension,
        passes=2.0,
    )
    gram = np.zeros((dimension, dimension))
    for _, block in blocks(actions):
        scaled = frame.coordinates(block)
        gram += scaled.T @ scaled
    eigenvalues = np.linalg.eigvalsh(gram)
    return frame if eigenvalues[0] > _CLEAR * eigenvalues[-1] else _with_directions(frame, actions)


def _peaks(block: FloatArray) -> FloatArray:
    """The largest absolute entry of each column: folded in halves, which is faster than row by row."""
    magnitudes = np.abs(block)
    while len(magnitudes) > 8:
        half = (len(magnitudes) + 1) // 2  # an odd row in the middle is compared with itself
        np.maximum(magnitudes[:half], magnitudes[-half:], out=magnitudes[:half])
        magnitudes = magnitudes[:half]
    peaks: FloatArray = magnitudes.max(axis=0)
    return peaks


def _with_directions(frame: Frame, actions: FloatArray) -> Frame:
    """Keep the directions that are not noise.

    Forming X'X squares the condition number, so where its eigenvalues leave doubt the singular values
    themselves decide: those of the triangle of X = QR, which grows block by block.
    """
    triangle = np.empty((0, frame.units.size))
    for _, block in blocks(actions):
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, frame.coordinates(block)]), mode="r"))
    _, lengths, directions = np.linalg.svd(triangle, full_matrices=False)
    leading = directions[lengths > _NOISE * lengths[0]].T
    return Frame(
        largest=frame.largest,
        units=frame.units,
        directions=leading,
        rank=leading.shape[1],
        passes=frame.passes + 1,
    )
