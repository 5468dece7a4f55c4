"""What a client or a shuffler knows about a study from somewhere else than the coordinator.

In the shuffle model a client is protected from the coordinator, so the coordinator must not choose where
reports go or whom they are sealed to. One of these must be known beforehand, from a web page, an app or a
letter:

    terms           the digest of the study's terms
    operator_key    the public key that signed the terms
    shuffler_url, shuffler_key    the shuffler's address and public key, both
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
    """What is known beforehand; what is not known is None."""

    terms: str | None = None
    operator_key: VerifyKey | None = None
    shuffler_url: str | None = None
    shuffler_key: PublicKey | None = None

    def __post_init__(self) -> None:
        if self.terms is not None:
            checked_hash(terms=self.terms)

    def check(self, terms: Terms, signed: SignedTerms) -> None:
        """Refuse terms that are not the ones that were pinned."""
        if self.terms is not None and signed.digest != self.terms:
            raise Refused("other-terms", f"the study's terms are {signed.digest[:12]}…, not those pinned")
        if self.operator_key is not None and not signed.signed_by(self.operator_key):
            raise Refused("other-terms", "the study's terms are not signed by the operator's key")
        shuffler = terms.shuffler
        if shuffler is None:
            return
        if self.shuffler_key is not None and shuffler.key != str(self.shuffler_key):
            raise Refused("other-terms", "the terms name another shuffler's key than the one pinned")
        if self.shuffler_url is not None and shuffler.url.rstrip("/") != self.shuffler_url.rstrip("/"):
            raise Refused("other-terms", "the terms name another shuffler's address than the one pinned")

    def require_path(self, terms: Terms) -> None:
        """Refuse, in the shuffle model, if nothing pins where reports go: the coordinator could choose it."""
        path = self.shuffler_key is not None and self.shuffler_url is not None
        pinned = path or self.terms is not None or self.operator_key is not None
        if terms.trust_model.shuffler and not pinned:
            raise Refused(
                "not-pinned",
                "the coordinator alone names the shuffler: pin the terms' digest, the operator's key, "
                "or the shuffler's address and key",
            )
