"""Tags that bind the coordinator's share to its client, so that the shuffler cannot forge the share.

In the modes `split` and `verified` the shuffler relays the coordinator's share of each report. HPKE's base
mode does not authenticate the sender. Without a tag, a shuffler could seal forged shares under the pseudonyms
of all other members of a cohort, and so remove the noise that protects one client's report. The client
therefore appends a tag to the coordinator's share:

    tag = HMAC-SHA256(key, info ‖ newline ‖ share)
    key = SHA-256 of the client's token; `info` is defined in _sealing.py

The coordinator stores the SHA-256 of each token. The shuffler never sees a token or its hash. Conversely, a
client posts its report to the shuffler with its ticket, and the coordinator knows only the hash of the
ticket.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from dpbandits.service.wire._sealing import Place, unreadable

TAG = 32
PURPOSE = "share-coordinator"


def bound_share(share: bytes, place: Place, credential: str) -> bytes:
    """Append the tag to a share.

    Args:
        share: The packed share for the coordinator.
        place: The study, phase, attempt, plan and pseudonym that the share is for.
        credential: The SHA-256 of the client's token, in hexadecimal digits.

    Returns:
        The share followed by its tag of 32 bytes.
    """
    return share + _tag(share, place, credential)


def unbound_share(data: bytes, place: Place, credential: str) -> bytes:
    """Check the tag of a share and remove it.

    Args:
        data: A share followed by its tag.
        place: Where the share was received.
        credential: The SHA-256 of the client's token, in hexadecimal digits.

    Returns:
        The share without its tag.

    Raises:
        Refused: The client with this credential did not make this share for this place.
    """
    share, tag = data[:-TAG], data[-TAG:]
    if not hmac.compare_digest(tag, _tag(share, place, credential)):
        raise unreadable()
    return share


def _tag(share: bytes, place: Place, credential: str) -> bytes:
    message = place.info(PURPOSE) + b"\n" + share
    return hmac.digest(bytes.fromhex(credential), message, hashlib.sha256)


def set_checksum(shares: Iterable[tuple[str, bytes]]) -> str:
    """Return a SHA-256 checksum of a set of sealed shares.

    The shuffler and the coordinator both compute it, to verify that they summed the same set.

    Args:
        shares: Pairs of pseudonym and the coordinator's sealed share, in the order of pseudonyms.

    Returns:
        The checksum in hexadecimal digits.
    """
    whole_set = hashlib.sha256()
    for pseudonym, sealed in shares:
        whole_set.update(pseudonym.encode() + hashlib.sha256(sealed).digest())
    return whole_set.hexdigest()
