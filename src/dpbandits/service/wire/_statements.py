"""Signed texts: what a party states about a study, so that others can check it later.

A text is signed as it is, so nobody has to encode the same JSON again. The first line of the signed bytes
names the purpose, so a signature for one purpose is not valid for another.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from dpbandits.service.wire._messages import CollectionState, Count, Digest, Phase, ShufflerMode, Strict
from dpbandits.service.wire._signing import SigningKey, VerifyKey

RECORD = "dpbandits report v1"
STATEMENT = "dpbandits shuffler statement v1"

Signature = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}$", description="Ed25519, hexadecimal")]


class Signed(Strict, frozen=True, kw_only=True):
    """The public key of a signer, and its signature of a text.

    Hexadecimal digits are lower case, so a key or a signature can be written in one way only.
    """

    key: Digest
    signature: Signature

    @staticmethod
    def by(key: SigningKey, purpose: str, text: str) -> Signed:
        """Sign a text.

        Args:
            key: The signer's private key.
            purpose: `RECORD` or `STATEMENT`.
            text: The text.

        Returns:
            The signature with its public key.
        """
        return Signed(key=str(key.public), signature=key.sign(_message(purpose, text)))

    def fits(self, purpose: str, text: str) -> bool:
        """Return whether `key` signed this text for this purpose.

        Args:
            purpose: `RECORD` or `STATEMENT`.
            text: The text.
        """
        return VerifyKey.parse(self.key).accepts(_message(purpose, text), self.signature)


def _message(purpose: str, text: str) -> bytes:
    return f"{purpose}\n{text}".encode()


class CollectionStatement(Strict, frozen=True, kw_only=True):
    """What a shuffler saw of one collection, and everything that it revealed about it.

    `plan` is the digest of the plan. `members` is the number of pseudonyms in the cohort. `reports`, `sums`,
    `share` and `checksum` are those of the reply to the coordinator; before the collection has ended they are
    0 and empty.
    """

    phase: Phase
    attempt: Phase
    plan: Digest
    members: Count
    state: CollectionState
    reports: Count
    sums: tuple[int, ...] = ()
    share: bytes = b""
    checksum: str = ""


class ShufflerStatement(Strict, frozen=True, kw_only=True):
    """What a shuffler states about a study: its mode, its own minimum, and each collection."""

    study: Digest
    mode: ShufflerMode
    minimum_reports: Count
    collections: list[CollectionStatement]


class StatementReply(Strict, frozen=True, kw_only=True):
    """The statement of a shuffler, as the exact text that was signed. `text` is the JSON of the statement."""

    text: str
    signed: Signed
