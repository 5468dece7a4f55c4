"""`ShufflerLink`: the calls of a coordinator to its shuffler. Every call is idempotent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dpbandits.service.wire import CollectionReply, CollectionRequest


class ShufflerLink(Protocol):
    """A connection to a shuffler. A call that cannot reach it raises `Unreachable`."""

    def open(self, phase: int, attempt: int, request: CollectionRequest) -> CollectionReply:
        """Send the plan and the cohort; the shuffler accepts reports from now on.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
            request: The terms, the plan and the pseudonyms of the cohort.

        Returns:
            The state of the collection.
        """
        ...

    def look(self, phase: int, attempt: int) -> CollectionReply:
        """Return the state of a collection.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
        """
        ...

    def close(self, phase: int, attempt: int) -> CollectionReply:
        """Close a collection.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.

        Returns:
            In mode `trusted` the state `summed`, with the sums. In the modes `split` and `verified` the state
            `closed`: the shares can be fetched. In every mode `failed` if there were too few reports.
        """
        ...

    def shares(self, phase: int, attempt: int) -> Iterator[tuple[str, bytes]]:
        """Yield the coordinator's sealed shares with their pseudonyms, ordered by pseudonym.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
        """
        ...

    def verifiers(self, phase: int, attempt: int) -> Iterator[list[tuple[str, bytes, bytes]]]:
        """Yield pages of pseudonyms, the coordinator's sealed parts and the shuffler's verifier shares.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
        """
        ...

    def sums(self, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        """Return the shuffler's sums.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
            without: The pseudonyms of the reports that are left out.
        """
        ...
