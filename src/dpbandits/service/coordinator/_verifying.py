"""Verifies reports in mode `verified`, together with the shuffler, and adds up the coordinator's shares.

The coordinator fetches its sealed parts page by page, each with the shuffler's verifier share. It decides
which reports are valid (`ProvedReports.accepted`) and tells the shuffler which ones to leave out. A report is
left out if the coordinator cannot read its part, if its client did not make it, or if its proof does not
hold. How many were left out is logged and part of the results; which ones is not.

Nothing is journalled while pages are fetched. A coordinator that crashes starts over, and gets the same pages
and the same result: the shuffler's replies are a function of the closed collection, and the decision is a
function of the pages. The result is journalled before the shuffler is asked for its sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dpbandits.errors import InvalidValue, ProtocolError, Refused
from dpbandits.protocol import Plan, Sums
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._revealed import checked_collection, in_order
from dpbandits.service.wire import (
    PURPOSE,
    CollectionReply,
    ProvedReports,
    PublicKey,
    set_checksum,
    unbound_share,
    verification_key,
)
from dpbandits.storage import Attempt

Verifiers = list[tuple[str, bytes, bytes]]


def ahead(pages: Iterator[Verifiers]) -> Iterator[Verifiers]:
    """Yield the same pages, and request the next one meanwhile: so both parties verify at the same time."""
    with ThreadPoolExecutor(max_workers=1) as requests:
        coming = requests.submit(next, pages, None)
        while (page := coming.result()) is not None:
            coming = requests.submit(next, pages, None)
            yield page


@dataclass(frozen=True, kw_only=True)
class OwnShare:
    """The coordinator's share of the sums in mode `verified`.

    Attributes:
        share: The aggregate share, elements of the field.
        reports: How many reports were accepted.
        without: The pseudonyms of the reports that are left out.
        checksum: A checksum over the set of accepted reports.
    """

    share: bytes
    reports: int
    without: list[str]
    checksum: str


class Verification:
    """The verification of one closed collection.

    Args:
        context: The study with its keys.
        plan: The plan of the attempt.
        attempt: The number of the attempt.
        credentials: The hashed token of each member, by pseudonym.
    """

    def __init__(self, context: Context, plan: Plan, attempt: int, credentials: Mapping[str, str]) -> None:
        self._context, self._plan, self._attempt = context, plan, attempt
        self._credentials = credentials
        place = context.place(plan, attempt, "")
        self._proved = ProvedReports.of(plan, place)
        shuffler = context.terms.shuffler
        assert shuffler is not None
        self._key = verification_key(context.keys, PublicKey.parse(shuffler.key), place)

    def own_share(self, pages: Iterable[Verifiers]) -> OwnShare:
        """Verify all reports, and add up the coordinator's shares of the valid ones.

        Args:
            pages: Pages of pseudonyms, sealed parts and the shuffler's verifier shares, in ascending order of
                distinct pseudonyms.

        Raises:
            ProtocolError: Reports are repeated, out of order, or of a client outside the cohort.
        """
        without, summed, shares, count, last = list[str](), list[tuple[str, bytes]](), list[bytes](), 0, ""
        for page in pages:
            last = in_order([name for name, _, _ in page], last, self._credentials)
            parts = [self._part(name, sealed) for name, sealed, _ in page]
            found = self._proved.accepted(self._key, parts, [answer for _, _, answer in page])
            shares.append(self._proved.prio3.aggregate(found))
            count += int(found.accepted.sum())
            for (name, sealed, _), accepted in zip(page, found.accepted.tolist(), strict=True):
                summed += [(name, sealed)] if accepted else []
                without += [] if accepted else [name]
            self._context.hook("page-verified")
        share = self._proved.prio3.merge(shares) if shares else b""
        return OwnShare(share=share, reports=count, without=without, checksum=set_checksum(summed))

    def _part(self, pseudonym: str, sealed: bytes) -> bytes:
        """Open the coordinator's part of a report; return b"", which is not a valid part, if that fails."""
        place = self._context.place(self._plan, self._attempt, pseudonym)
        try:
            opened = self._context.keys.open(sealed, place, PURPOSE)
            return unbound_share(opened, place, self._credentials[pseudonym])
        except Refused:
            return b""

    def sums(self, own: OwnShare, reply: CollectionReply, attempt: Attempt) -> Sums | None:
        """Check the shuffler's reply, and return the sums of both shares.

        Returns:
            The sums; None if the shuffler has none, or if it summed over another set.

        Raises:
            ProtocolError: No honest shuffler would send this reply. Nothing is released.
        """
        checked_collection(self._context, self._plan, attempt, reply)
        if reply.state != "summed":
            return None
        if reply.checksum != own.checksum:
            return None
        if reply.reports != own.reports:
            raise ProtocolError(f"the shuffler counts {reply.reports:,} of {own.reports:,} valid reports")
        try:
            return self._proved.sums([reply.share, own.share], own.reports)
        except InvalidValue:
            raise ProtocolError(
                "the shuffler's share of the sums is malformed: nothing is released"
            ) from None
