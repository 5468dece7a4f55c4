"""`Grid`: what the driver of a study needs from the engine that carries its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Grid(Protocol):
    """Sends messages to sites. Their names are those of their public keys, which the engine authenticates."""

    @property
    def expected(self) -> int:
        """How many sites are registered, whether they are connected or not."""
        ...

    def sites(self) -> list[str]:
        """Return the names of the sites that seem to be connected."""
        ...

    def ask(self, requests: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        """Send a request to each of some sites, and wait for their replies.

        Args:
            requests: The bytes for each site.
            seconds: How long to wait.

        Returns:
            The replies that arrived in time. A site that failed is missing.
        """
        ...
