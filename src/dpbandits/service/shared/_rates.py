"""How often one caller may call: a bucket for each credential, and one for each address that fails.

A bucket holds `burst` tokens and is filled at a steady rate. Those of the longest silent are forgotten first,
so memory stays bounded. Whoever shows no credential shares its address's bucket, which is ten times as large.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from dpbandits.service.shared._settings import Limits

_BUCKETS = 20_000


class Rates:
    """Token buckets. Keys are hashed by the caller's secret or address and never shown."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, int], tuple[float, float]] = OrderedDict()

    def allow(self, secret: str, address: str) -> bool:
        """Whether this caller may call once more now."""
        if secret:
            return self._take(("caller", hash(secret)))
        return self._take(("address", hash(address)), 10)

    def allow_failure(self, address: str) -> bool:
        """Whether this address may fail once more now."""
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
