"""What a coordinator asks of a shuffler. Every call may be repeated and then gives the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dpbandits.service.wire import CollectionReply, CollectionRequest


class ShufflerLink(Protocol):
    """A shuffler, near or far. A call that cannot reach it raises `Unreachable`."""

    def open(self, phase: int, attempt: int, request: CollectionRequest) -> CollectionReply:
        """Tell it the plan and the cohort."""
        ...

    def look(self, phase: int, attempt: int) -> CollectionReply:
        """Whether it is there, and what state a collection is in."""
        ...

    def close(self, phase: int, attempt: int) -> CollectionReply:
        """Take no more reports; the sums, or in split mode that shares can be fetched, or that it failed."""
        ...

    def shares(self, phase: int, attempt: int) -> Iterator[tuple[str, bytes]]:
        """The coordinator's sealed shares, by pseudonym."""
        ...

    def sums(self, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        """The shuffler's sums over all but those whose other share could not be read."""
        ...
