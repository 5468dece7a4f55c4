"""The coordinator's link to a shuffler over HTTPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeVar

from dpbandits.errors import ProtocolError
from dpbandits.service.shared import Backoff, Transport, call
from dpbandits.service.wire import (
    SHARES_AT_ONCE,
    CollectionReply,
    CollectionRequest,
    SharesReply,
    StatementReply,
    SumsRequest,
    VerifiersReply,
)

Reply = TypeVar("Reply")
Row = TypeVar("Row", bound=tuple[Any, ...])

_LARGEST = 1 << 28  # bytes of the largest accepted reply, which is a page of shares


class HttpLink:
    """A `ShufflerLink` over HTTPS.

    Each call is tried three times before it raises `Unreachable`; the coordinator's driver retries later.

    Args:
        url: The address of the shuffler.
        token: The coordinator's token for the shuffler.
        certificates: A file with the accepted certificates; None for those of the system.
    """

    def __init__(self, url: str, token: str, *, certificates: Path | None = None) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self.certificates = certificates
        patience = Backoff(tries=3)
        self._transport = Transport(certificates=certificates, patience=patience, largest_reply=_LARGEST)

    def open(self, phase: int, attempt: int, request: CollectionRequest) -> CollectionReply:
        """Send the plan and the cohort."""
        return self._call("PUT", phase, attempt, "", request)

    def look(self, phase: int, attempt: int) -> CollectionReply:
        """Return the state of a collection."""
        return self._call("GET", phase, attempt, "")

    def close(self, phase: int, attempt: int) -> CollectionReply:
        """Close a collection."""
        return self._call("POST", phase, attempt, "/close")

    def shares(self, phase: int, attempt: int) -> Iterator[tuple[str, bytes]]:
        """Yield the coordinator's sealed shares with their pseudonyms, in the order of the shuffler.

        A hostile shuffler could send pages without end. So the caller must check each share (`in_order`).
        """
        for page in self._pages(phase, attempt, "shares", lambda url: self._get(url, SharesReply).shares):
            yield from page

    def verifiers(self, phase: int, attempt: int) -> Iterator[list[tuple[str, bytes, bytes]]]:
        """Yield pages of the coordinator's sealed parts with the shuffler's verifier shares.

        As for `shares`, the caller must check each page (`in_order`).
        """
        yield from self._pages(
            phase, attempt, "verifiers", lambda url: self._get(url, VerifiersReply).verifiers
        )

    def _get(self, url: str, kind: type[Reply]) -> Reply:
        return self._transport.hold(call("GET", url, kind, secret=self._token))

    def _pages(
        self, phase: int, attempt: int, name: str, read: Callable[[str], list[Row]]
    ) -> Iterator[list[Row]]:
        """Yield pages until an empty one. The rows of a page begin with a pseudonym."""
        after = ""
        while page := read(self._path(phase, attempt, f"/{name}?after={after}")):
            _check_length(page)
            yield page
            after = page[-1][0]

    def sums(self, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        """Return the shuffler's sums."""
        return self._call("POST", phase, attempt, "/sums", SumsRequest(without=without))

    def statement(self) -> StatementReply:
        """Return the shuffler's signed statement about the study."""
        return self._transport.hold(
            call("GET", f"{self._url}/v1/statement", StatementReply, secret=self._token)
        )

    def _path(self, phase: int, attempt: int, rest: str) -> str:
        return f"{self._url}/v1/phases/{phase}/attempts/{attempt}/collection{rest}"

    def _call(self, method: str, phase: int, attempt: int, rest: str, body: Any = None) -> CollectionReply:
        url = self._path(phase, attempt, rest)
        return self._transport.hold(call(method, url, CollectionReply, secret=self._token, body=body))


def _check_length(page: Sized) -> None:
    if len(page) > SHARES_AT_ONCE:
        raise ProtocolError(
            f"the shuffler sent {len(page):,} shares in one page, expected at most {SHARES_AT_ONCE:,}"
        )
