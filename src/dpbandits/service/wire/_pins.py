"""Pins: what a client or a shuffler knows about a study from a source other than the coordinator.

The shuffle model protects a client from the coordinator. So the coordinator must not choose where reports go
or which key they are sealed to. A client must know one of these beforehand, from a web page, an app or a
letter:

    terms                         the digest of the study's terms
    operator_key                  the public key that signed the terms
    shuffler_url, shuffler_key    both the shuffler's address and its public key
"""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.errors import Refused
from dpbandits.service.wire._sealing import PublicKey
from dpbandits.service.wire._signing import VerifyKey
from dpbandits.service.wire._terms import SignedTerms, Terms
from dpbandits.service.wire._tokens import checked_hash


@dataclass(frozen=True, kw_only=True)
class Pins:
    """What is known about a study beforehand; None for what is not known.

    Example: `Pins(operator_key=VerifyKey.parse(text))`, where `text` is printed in an information letter.

    Attributes:
        terms: The digest of the study's terms, 64 hexadecimal digits.
        operator_key: The public key that signed the terms.
        shuffler_url: The shuffler's address.
        shuffler_key: The shuffler's public key.

    Example:
        >>> from dpbandits.service.client import ClientCore
        >>> from dpbandits.service.wire import Pins
        >>> core = ClientCore(url="https://study.example", pins=Pins(terms="ab" * 32))
        >>> core.pins.terms[:4]
        'abab'
    """

    terms: str | None = None
    operator_key: VerifyKey | None = None
    shuffler_url: str | None = None
    shuffler_key: PublicKey | None = None

    def __post_init__(self) -> None:
        if self.terms is not None:
            checked_hash(terms=self.terms)

    def check(self, terms: Terms, signed: SignedTerms) -> None:
        """Check that the terms are the pinned ones.

        Args:
            terms: The study's terms.
            signed: The text of these terms, with its signature.

        Raises:
            Refused: The terms differ from what is pinned.
        """
        if self.terms is not None and signed.digest != self.terms:
            raise Refused(
                "other-terms",
                f"the digest of the terms: got {signed.digest[:12]}…, expected {self.terms[:12]}…, as pinned",
            )
        if self.operator_key is not None and not signed.signed_by(self.operator_key):
            raise Refused("other-terms", "the study's terms are not signed by the operator's key")
        if self.shuffler_key is None and self.shuffler_url is None:
            return
        shuffler = terms.shuffler
        if shuffler is None:  # reports would go to the coordinator
            raise Refused("other-terms", "the terms name no shuffler, but a shuffler is pinned")
        if self.shuffler_key is not None and shuffler.key != str(self.shuffler_key):
            raise Refused("other-terms", "the shuffler's key in the terms is not the pinned key")
        if self.shuffler_url is not None and shuffler.url.rstrip("/") != self.shuffler_url.rstrip("/"):
            raise Refused("other-terms", "the shuffler's address in the terms is not the pinned address")

    def require_path(self, terms: Terms) -> None:
        """Check that, in the shuffle model, a pin determines where reports go.

        Args:
            terms: The study's terms.

        Raises:
            Refused: The terms name a shuffler, and no pin determines it. So the coordinator could choose it.
        """
        path = self.shuffler_key is not None and self.shuffler_url is not None
        pinned = path or self.terms is not None or self.operator_key is not None
        if terms.trust_model.shuffler and not pinned:
            raise Refused(
                "not-pinned",
                "only the coordinator names the shuffler: pin the digest of the terms, the operator's key, "
                "or the shuffler's address and key",
            )
