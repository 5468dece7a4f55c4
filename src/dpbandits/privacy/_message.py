"""What one client's report may be, and how far one report can move a released mean.

The client and the reader of its report use the same `Message`. Noise has no end, so a report with noise from
a far tail can fall outside; the client then sends the centre of the grid instead. So honest reports are
always admitted, and a reader refuses everything else (docs/accounting-proofs.md, section 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Payload = NDArray[Any]  # float64 values, int64 encoded values or uint8 bits; the mechanism says which

_FIELDS = {"numbers": np.float64, "integers": np.int64, "bits": np.uint8}
# Squares of smaller numbers, 2¹¹ of them, add up in 64-bit integers.
_SMALL = 2**26


@dataclass(frozen=True, kw_only=True)
class Message:
    """An array of this shape and kind, every entry x in [low, high].

    In a ball also Σ(2x − `twice_centre`)² ≤ `largest_square`. All four are whole numbers, compared exactly.
    """

    kind: str  # "numbers" (float64), "integers" (int64) or "bits" (uint8)
    shape: tuple[int, ...]
    low: float
    high: float
    twice_centre: int = 0
    largest_square: int | None = None

    def admits(self, array: Payload) -> bool:
        """Whether an honest client can have sent this array."""
        if array.shape != self.shape or array.dtype != _FIELDS[self.kind]:
            return False
        return bool(self.admitted(array[None])[0])

    def admitted(self, rows: Payload) -> NDArray[np.bool_]:
        """The same for arrays of the right shape and kind, one for each row."""
        axes = tuple(range(1, rows.ndim))
        within = np.asarray(((rows >= self.low) & (rows <= self.high)).all(axis=axes))  # NaN is not
        if self.largest_square is not None:
            within[within] = _squares(rows[within], self.twice_centre) <= self.largest_square
        return within

    def or_centre(self, rows: Payload) -> Payload:
        """Reports that are admitted as they are; any other is replaced by the centre, a constant."""
        kept = self.admitted(rows).reshape(-1, *(1 for _ in self.shape))
        return np.where(kept, rows, np.asarray(self.twice_centre // 2, dtype=rows.dtype))


def _squares(rows: Payload, twice_centre: int) -> Payload:
    """Σ(2x − twice_centre)² of each row, exact."""
    doubled = 2 * rows - twice_centre
    if np.abs(doubled).max(initial=0) >= _SMALL:
        doubled = doubled.astype(object)
    squares: Payload = (doubled * doubled).sum(axis=1)
    return squares


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far one report can move the released means, in the units of the rewards.

    `mean` is the most by which replacing one report by any other that is admitted moves any one mean, and
    `honest` the most by which a client's data do. In a ball `length` and `honest_length` are the same for the
    ℓ2 length of the whole vector of means. Infinity: nothing bounds it.
    """

    mean: float
    honest: float
    length: float | None = None
    honest_length: float | None = None

    @property
    def factor(self) -> float:
        """`mean` as a multiple of `honest`."""
        return self.mean / self.honest
