"""Bind a share to its client, so that no other party can speak for it.

In split mode the shuffler passes the coordinator's share of each report on. HPKE's base mode authenticates
nobody: a shuffler could seal a share of its own under any pseudonym, take the place of all other members of
a cohort, and leave one client's answer without their noise. So the client appends a tag to the coordinator's
share:

    tag = HMAC-SHA256(key, info ‖ share)        key = SHA-256 of the client's token, `info` as in _sealing.py

The coordinator keeps SHA-256 of each token; the shuffler never sees a token or its hash. In the other
direction, a report is posted to the shuffler with the client's ticket, of which the coordinator knows only
the hash.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from dpbandits.service.wire._sealing import Place, unreadable

TAG = 32
PURPOSE = "share-coordinator"


def bound_share(share: bytes, place: Place, credential: str) -> bytes:
    """The share and its tag; `credential` is the SHA-256 of the client's token in hexadecimal digits."""
    return share + _tag(share, place, credential)


def unbound_share(data: bytes, place: Place, credential: str) -> bytes:
    """The share, if the client with this credential made it for this place; else `Refused`."""
    share, tag = data[:-TAG], data[-TAG:]
    if not hmac.compare_digest(tag, _tag(share, place, credential)):
        raise unreadable()
    return share


def _tag(share: bytes, place: Place, credential: str) -> bytes:
    message = place.info(PURPOSE) + b"\n" + share
    return hmac.digest(bytes.fromhex(credential), message, hashlib.sha256)


def set_checksum(shares: Iterable[tuple[str, bytes]]) -> str:
    """A fingerprint of a set of sealed shares, given as pseudonym and bytes in the order of pseudonyms."""
    whole_set = hashlib.sha256()
    for pseudonym, sealed in shares:
        whole_set.update(pseudonym.encode() + hashlib.sha256(sealed).digest())
    return whole_set.hexdigest()
