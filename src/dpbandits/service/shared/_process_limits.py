"""What the operating system gives this process: open files for connections, and memory."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable

_RESERVE = 64  # open files for stores, helper processes and calls to the shuffler


def most_connections(backlog: int, *, limit: int | None = None) -> int:
    """Return how many connections may be open, so that open files suffice.

    Args:
        backlog: How many more sockets may wait for their TLS handshake, or be in the middle of it.
        limit: The number of open files; by default the limit of this process.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    return max(limit - backlog - _RESERVE, limit // 2, 1)


def _trimmer() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim`, or None on other systems."""
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):
        return None


def give_memory_back() -> None:
    """Free what ended connections used, and give it back to the system."""
    gc.collect()
    trim = _trimmer()
    if trim is not None:
        trim(0)
