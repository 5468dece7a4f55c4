"""Rate limits: one token bucket per credential, and one per address for failed authentication.

A bucket holds `burst` tokens and is refilled with `requests_per_second` tokens per second. Callers without a
credential share the bucket of their address, which is ten times as large. At most 20,000 buckets are kept:
the least recently used one is dropped first, so memory is bounded.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from dpbandits.service.shared._settings import Limits

_BUCKETS = 20_000


class Rates:
    """The token buckets of a party. They are keyed by a hash of the caller's secret or address.

    Args:
        limits: The size of a bucket (`burst`) and its refill rate (`requests_per_second`).
        clock: Returns the time in seconds; tests pass their own.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, int], tuple[float, float]] = OrderedDict()

    def allow(self, secret: str, address: str) -> bool:
        """Take one token for a request.

        Args:
            secret: The caller's credential; empty if it has none.
            address: The caller's address, used if there is no credential.

        Returns:
            Whether the request is within the limit.
        """
        if secret:
            return self._take(("caller", hash(secret)))
        return self._take(("address", hash(address)), 10)

    def allow_failure(self, address: str) -> bool:
        """Take one token for a failed authentication from this address; False if it failed too often."""
        return self._take(("failure", hash(address)))

    def _take(self, key: tuple[str, int], scale: float = 1.0) -> bool:
        now, most = self._clock(), scale * self._limits.burst
        tokens, since = self._buckets.pop(key, (most, now))
        tokens = min(most, tokens + (now - since) * scale * self._limits.requests_per_second)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > _BUCKETS:
            self._buckets.popitem(last=False)
        return allowed
