"""The messages between the driver of a study and its sites: requests, replies, and the sealed report.

    StatusRequest  driver → site   how many users have not taken part?
    Ask            driver → site   let some users answer this plan
    Status         site → driver   the number of unused users
    Answer         site → driver   the site's report, sealed to the key in the terms, and signed
    Refusal        site → driver   why there is no answer

Messages are encoded as MessagePack. A message with an unknown field is refused, since anybody may forge one.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from dpbandits.errors import Refused
from dpbandits.service.wire import MOST_COHORT

_Text = Annotated[str, msgspec.Meta(max_length=200)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_COHORT)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST_COHORT)]


class _Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all messages."""


class StatusRequest(_Message, frozen=True, kw_only=True, tag="status-request"):
    """Asks how many users of a site have not taken part in a study."""

    study: _Text


class Ask(_Message, frozen=True, kw_only=True, tag="ask"):
    """Asks a site to let some of its users answer a plan.

    Attributes:
        plan: The text of the plan, whose SHA-256 is the plan's digest.
        attempt: The number of the attempt at the plan's phase.
        users: How many users are asked.
        group: The name of the site's part in the attempt. The answer is sealed for this name.
    """

    plan: str
    attempt: _Positive
    users: _Positive
    group: _Text


class Status(_Message, frozen=True, kw_only=True, tag="status"):
    """How many users of a site have not taken part in a study."""

    study: _Text
    unused: _Count


class SiteAnswer(_Message, frozen=True, kw_only=True, tag="answer"):
    """A site's answer to a plan.

    Attributes:
        plan: The digest of the plan.
        unused: How many users of the site have not taken part yet.
        sealed: The `SiteReport`, encrypted to the key in the terms.
        signature: The site's signature of `sealed` for its place.
    """

    plan: _Text
    unused: _Count
    sealed: bytes
    signature: Annotated[bytes, msgspec.Meta(max_length=1000)]


class Refusal(_Message, frozen=True, kw_only=True, tag="refusal"):
    """Why a site does not answer. `reason` is a short code, and `message` a sentence for people."""

    reason: _Text
    message: Annotated[str, msgspec.Meta(max_length=2000)]


class SiteReport(_Message, frozen=True, kw_only=True):
    """The reports of a site's users, added up where the mechanism needs only their sum.

    Attributes:
        plan: The digest of the plan.
        reports: How many users reported.
        sums: The sum of each reported number (`Sums.sums`); empty if every report is needed.
        packed: The packed reports in random order, joined; empty if the sums suffice.
    """

    plan: _Text
    reports: _Positive
    sums: tuple[int, ...] = ()
    packed: bytes = b""


Request = StatusRequest | Ask
Reply = Status | SiteAnswer | Refusal

Decoded = TypeVar("Decoded")
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
_REPORTS = msgspec.msgpack.Decoder(SiteReport)


def packed(message: Request | Reply | SiteReport) -> bytes:
    """Return the bytes of a message.

    Args:
        message: The message.
    """
    return msgspec.msgpack.encode(message)


def read_request(data: bytes) -> Request:
    """Decode a request.

    Args:
        data: The bytes that `packed` returned.

    Raises:
        Refused: The bytes are not a request of this version.
    """
    return _decoded(_REQUESTS, data, "request")


def read_reply(data: bytes) -> Reply:
    """Decode a reply.

    Args:
        data: The bytes that `packed` returned.

    Raises:
        Refused: The bytes are not a reply of this version.
    """
    return _decoded(_REPLIES, data, "reply")


def read_report(data: bytes) -> SiteReport:
    """Decode the report of a site, after it was decrypted.

    Args:
        data: The bytes that `packed` returned.

    Raises:
        Refused: The bytes are not a report of this version.
    """
    return _decoded(_REPORTS, data, "sealed report")


def _decoded(decoder: msgspec.msgpack.Decoder[Decoded], data: bytes, what: str) -> Decoded:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise Refused("unreadable", f"the bytes are not a {what} of this version") from None
