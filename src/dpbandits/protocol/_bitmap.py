"""Bitmaps with one bit per action, in which a state stores sets of actions."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import IntArray


def packed(indices: IntArray, count: int) -> bytes:
    """Return the bitmap of `count` actions in which the bits with these indices are set."""
    bits = np.zeros(count, dtype=bool)
    bits[indices] = True
    return np.packbits(bits).tobytes()


def unpacked(bitmap: bytes, count: int) -> IntArray:
    """Return the indices of the set bits in a bitmap of `count` actions, in ascending order."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), count=count))
