"""The format of one report: which values are accepted, and how they are packed into bytes.

The client and the reader of its report use the same `Message`: `pack` at the client, `unpack` at the reader.
Noise is unbounded, so a report with very large noise can be out of range. The client then sends the centre of
the grid instead. So every report of an honest client is in range, and a reader rejects all reports that are
not (docs/accounting-proofs.md, section 13).

All packed reports of a message have the same length, so the length reveals nothing about the content:

    numbers    IEEE 754 binary64, little-endian, one per entry
    integers   two's complement int64, little-endian, one per entry
    bits       row by row, eight per byte, most significant bit first, padded with zeros
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import BoolArray
from dpbandits.errors import InvalidValue

Payload = NDArray[Any]  # float64 values, int64 codes or uint8 bits, depending on the mechanism

_FIELDS = {"numbers": np.float64, "integers": np.int64, "bits": np.uint8}
_PACKED = {"numbers": "<f8", "integers": "<i8", "bits": "u1"}
# The sum of 2¹¹ squares of numbers below this fits into a 64-bit integer.
_SMALL = 2**26
_SHORT = 64  # entries up to which Python is faster than NumPy


@dataclass(frozen=True, kw_only=True)
class Message:
    """An array of a given shape and kind in which every entry x lies in [low, high].

    Example: `Message(kind="integers", shape=(3,), low=0, high=16).pack(np.array([1, 2, 3]))` has 24 bytes.

    Attributes:
        kind: "numbers" (float64), "integers" (int64) or "bits" (uint8).
        shape: The shape of the array.
        low: The smallest entry that is accepted.
        high: The largest entry that is accepted.
        twice_centre: Twice the centre of the grid, which is an integer even if the centre is not.
        largest_square: In a ball also Σ(2x − twice_centre)² ≤ largest_square must hold. Both sides are
            integers, so the comparison is exact. None if there is no ball.

    Example:
        >>> from dpbandits.privacy import PrivacyRequest, calibrate
        >>> request = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
        >>> mechanism = calibrate(request, coordinates=2, cohort=100, bound=1)
        >>> mechanism.message.kind, mechanism.message.entries
        ('integers', 2)
    """

    kind: str
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
        """Pack one report into bytes. Only the shape and the dtype are checked; the reader checks the range.

        Args:
            array: One row of the output of `Mechanism.randomize`.

        Returns:
            `size` bytes.

        Raises:
            InvalidValue: If the array has another shape or dtype.
        """
        if array.shape != self.shape or array.dtype != _FIELDS[self.kind]:
            raise InvalidValue("payload", f"{array.dtype} of shape {array.shape}", self._expected)
        packed = np.packbits(array) if self.kind == "bits" else array.astype(_PACKED[self.kind])
        return packed.tobytes()

    def unpack(self, packed: Sequence[bytes]) -> Payload:
        """Unpack reports, and check that an honest client could have sent each of them.

        Args:
            packed: One byte string per report.

        Returns:
            An array with one row per report.

        Raises:
            InvalidValue: If a report has another length, padding that is not zero, or entries out of range.
                The error reveals nothing about the content.
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

    def accepts(self, packed: bytes) -> bool:
        """Return whether `unpack` accepts one packed report.

        A party checks each report as it arrives. For a short report, Python's own integers are faster than
        NumPy.

        Args:
            packed: The bytes of the report; of any length.
        """
        if self.kind != "integers" or self.entries > _SHORT:
            try:
                self.unpack([packed])
            except InvalidValue:
                return False
            return True
        if len(packed) != self.size:
            return False
        numbers = struct.unpack(f"<{self.entries}q", packed)
        if min(numbers) < self.low or max(numbers) > self.high:
            return False
        square = self.largest_square
        return square is None or sum((2 * one - self.twice_centre) ** 2 for one in numbers) <= square

    @property
    def _expected(self) -> str:
        return f"{self.kind} of shape {self.shape}"

    def admitted(self, rows: Payload) -> BoolArray:
        """Return for each row whether an honest client could have sent it; shape and dtype are not checked.

        Args:
            rows: One report per row.
        """
        axes = tuple(range(1, rows.ndim))
        within = np.asarray(((rows >= self.low) & (rows <= self.high)).all(axis=axes))  # False for NaN
        if self.kind == "numbers":  # reject infinity even if low and high are infinite
            within &= np.isfinite(rows).all(axis=axes)
        if self.largest_square is not None:
            within[within] = _squares(rows[within], self.twice_centre) <= self.largest_square
        return within

    def or_centre(self, rows: Payload) -> Payload:
        """Return the reports, each replaced by the centre of the grid, a constant, if it is out of range.

        Args:
            rows: One report per row.
        """
        kept = self.admitted(rows).reshape(-1, *(1 for _ in self.shape))
        return np.where(kept, rows, np.asarray(self.twice_centre // 2, dtype=rows.dtype))


def _squares(rows: Payload, twice_centre: int) -> Payload:
    """Return Σ(2x − twice_centre)² of each row, computed exactly."""
    doubled = 2 * rows - twice_centre
    if np.abs(doubled).max(initial=0) >= _SMALL:
        doubled = doubled.astype(object)
    squares: Payload = (doubled * doubled).sum(axis=1)
    return squares


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far one report can move the released means, in the units of the rewards.

    Attributes:
        mean: The most that any single mean can move if one report is replaced by any other accepted report.
            Infinity means that there is no bound.
        honest: The most that any single mean can move if one honest client's data are replaced.
        length: In a ball, the counterpart of `mean` for the ℓ2 norm of the whole vector of means.
        honest_length: In a ball, the counterpart of `honest` for that norm.
    """

    mean: float
    honest: float
    length: float | None = None
    honest_length: float | None = None

    @property
    def factor(self) -> float:
        """`mean` / `honest`: how many times as far as an honest client a lying client can move a mean."""
        return self.mean / self.honest

    @property
    def length_factor(self) -> float | None:
        """`length` / `honest_length`; None without a ball."""
        if self.length is None or self.honest_length is None:
            return None
        return self.length / self.honest_length
