"""Unpacks the bitmaps, one bit per action, in which a state stores a set of actions."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import IntArray


def unpacked(bitmap: bytes, count: int) -> IntArray:
    """Return the indices of the set bits in a bitmap of `count` actions, in ascending order."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), count=count))
