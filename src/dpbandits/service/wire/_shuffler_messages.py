"""The JSON messages of the shuffler's HTTP API, which the coordinator calls."""

from __future__ import annotations

from dpbandits.protocol import Sums
from dpbandits.service.wire._messages import CollectionState, Digest, PlanText, ShufflerMode, Strict, Wire

SHARES_AT_ONCE = 1000  # the largest number of shares on one page of `SharesReply`


class KeyReply(Wire, frozen=True, kw_only=True):
    """The shuffler's public key and its mode, `trusted`, `split` or `verified`."""

    key: str
    mode: ShufflerMode


class CollectionRequest(Strict, frozen=True, kw_only=True):
    """A request to open a collection: the study's terms, the plan, and the pseudonyms of the cohort."""

    study: Digest
    terms: str
    signature: str
    plan: PlanText
    members: list[Digest]


class CollectionReply(Wire, frozen=True, kw_only=True):
    """The state of a collection.

    `state` is `collecting`, `closed` (the coordinator can fetch its shares), `summed` (`sums` has the sums),
    or `failed` (too few reports). `reports` counts the reports; it is 0 while a collection goes on. In the
    modes `split` and `verified` `checksum` identifies the set that was summed: it is the SHA-256 over the
    pseudonym of each report and the SHA-256 of its sealed share for the coordinator, in the order of
    pseudonyms. In mode `verified` `share` has the shuffler's sums in place of `sums`: elements of the field,
    8 bytes each, little-endian.
    """

    study: Digest
    phase: int
    attempt: int
    state: CollectionState
    reports: int
    sums: Sums | None = None
    checksum: str = ""
    share: bytes = b""


class SharesReply(Wire, frozen=True, kw_only=True):
    """One page of the coordinator's shares: up to 1,000 pairs of pseudonym and sealed share.

    In JSON a sealed share is base64. To get the next page, set the query parameter `after` to the last
    pseudonym of this page. An empty page is the end.
    """

    study: Digest
    shares: list[tuple[str, bytes]]


class VerifiersReply(Wire, frozen=True, kw_only=True):
    """One page of what the coordinator needs to verify reports, in mode `verified`.

    Each entry has a pseudonym, the coordinator's sealed part of the report, and the shuffler's verifier share
    followed by its joint seed, which is empty if the shuffler's part is malformed. In JSON bytes are base64.
    Pages are as for `SharesReply`.
    """

    study: Digest
    verifiers: list[tuple[str, bytes, bytes]]


class SumsRequest(Strict, frozen=True, kw_only=True):
    """The pseudonyms to leave out of the sums: their shares are unreadable, or their proofs do not hold."""

    without: list[Digest]
