"""Sets of actions as packed bitmaps, one bit per action, as states hold them."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import IntArray


def unpacked(bitmap: bytes, count: int) -> IntArray:
    """The indices in a bitmap of `count` actions, ascending."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), count=count))
