"""What one client's report may be, how it is packed into bytes, and how far it can move a released mean.

The client and the reader of its report use the same `Message`: `pack` at the client, `unpack` at the reader.
Noise has no end, so a report with noise from a far tail can fall outside; the client then sends the centre of
the grid instead. So honest reports are always admitted, and a reader refuses everything else
(docs/accounting-proofs.md, section 13).

Every packed report of a message has the same length, so the length says nothing about the content:

    numbers    IEEE 754 binary64, little-endian, one per entry
    integers   two's complement int64, little-endian, one per entry
    bits       row after row, eight to a byte, first bit highest, zeros after the last bit
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidValue

Payload = NDArray[Any]  # float64 values, int64 encoded values or uint8 bits; the mechanism says which

_FIELDS = {"numbers": np.float64, "integers": np.int64, "bits": np.uint8}
_PACKED = {"numbers": "<f8", "integers": "<i8", "bits": "u1"}
# Squares of smaller numbers, 2¹¹ of them, add up in 64-bit integers.
_SMALL = 2**26


@dataclass(frozen=True, kw_only=True)
class Message:
    """An array of this shape and kind, every entry x in [low, high].

    In a ball also Σ(2x − `twice_centre`)² ≤ `largest_square`. All four are whole numbers, compared exactly.

    Example: `Message(kind="integers", shape=(3,), low=0, high=16).pack(np.array([1, 2, 3]))` has 24 bytes.
    """

    kind: str  # "numbers" (float64), "integers" (int64) or "bits" (uint8)
    shape: tuple[int, ...]
    low: float
    high: float
    twice_centre: int = 0
    largest_square: int | None = None

    @cached_property
    def entries(self) -> int:
        """The number of entries of the array."""
        return math.prod(self.shape)

    @cached_property
    def size(self) -> int:
        """The length of every packed report, in bytes."""
        return -(-self.entries // 8) if self.kind == "bits" else 8 * self.entries

    def pack(self, array: Payload) -> bytes:
        """Pack one report. Only its shape and its kind are checked: the reader checks the range.

        Args:
            array: One client's report, as `Mechanism.randomize` draws it.

        Returns:
            `size` bytes.

        Raises:
            InvalidValue: The array has another shape or dtype.
        """
        if array.shape != self.shape or array.dtype != _FIELDS[self.kind]:
            raise InvalidValue("payload", f"{array.dtype} of shape {array.shape}", self._expected)
        packed = np.packbits(array) if self.kind == "bits" else array.astype(_PACKED[self.kind])
        return packed.tobytes()

    def unpack(self, packed: Sequence[bytes]) -> Payload:
        """Unpack reports and check that an honest client can have sent each of them.

        Args:
            packed: The bytes of any number of reports.

        Returns:
            An array with one row per report.

        Raises:
            InvalidValue: A report has another length, bits after its last one, or entries out of range. The
                error says nothing about the content.
        """
        if any(len(one) != self.size for one in packed):
            raise InvalidValue("payload", "another length", f"{self.size} bytes")
        length = self.size if self.kind == "bits" else self.entries
        flat = np.frombuffer(b"".join(packed), dtype=_PACKED[self.kind]).reshape(len(packed), length)
        if self.kind == "bits":
            if (flat[:, -1] & ((1 << 8 * self.size - self.entries) - 1)).any():
                raise InvalidValue("payload", "bits after the last one", "zeros")
            flat = np.unpackbits(flat, axis=1, count=self.entries)
        rows = flat.astype(_FIELDS[self.kind]).reshape(len(packed), *self.shape)
        if not self.admitted(rows).all():
            raise InvalidValue("payload", "entries out of range", f"{self._expected} that a client can make")
        return rows

    @property
    def _expected(self) -> str:
        return f"{self.kind} of shape {self.shape}"

    def admits(self, array: Payload) -> bool:
        """Whether an honest client can have sent this array."""
        if array.shape != self.shape or array.dtype != _FIELDS[self.kind]:
            return False
        return bool(self.admitted(array[None])[0])

    def admitted(self, rows: Payload) -> NDArray[np.bool_]:
        """The same for arrays of the right shape and kind, one per row."""
        axes = tuple(range(1, rows.ndim))
        within = np.asarray(((rows >= self.low) & (rows <= self.high)).all(axis=axes))  # NaN is not
        if self.kind == "numbers":  # infinity is outside, even without limits
            within &= np.isfinite(rows).all(axis=axes)
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
