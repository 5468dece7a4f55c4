"""`Grid`: what the driver of a study needs from the engine that carries its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Grid(Protocol):
    """Sends messages to sites. Their names are those of their public keys, which the engine authenticates.

    Example:
        >>> from dpbandits.federation import Grid
        >>> class Here:  # sites are functions in this process
        ...     def __init__(self, functions):
        ...         self.functions = functions
        ...     @property
        ...     def expected(self):
        ...         return len(self.functions)
        ...     def sites(self):
        ...         return sorted(self.functions)
        ...     def ask(self, requests, seconds):
        ...         return {name: self.functions[name](request) for name, request in requests.items()}
        >>> grid: Grid = Here({"a": bytes.upper})
        >>> grid.ask({"a": b"hello"}, seconds=1.0)
        {'a': b'HELLO'}
    """

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
