"""Signatures of sites: each answer is signed with the key that the site also identifies its node with.

Answers are encrypted to the operator's public key, which everybody knows. Without a signature, a party that
carries messages could replace the answers of all sites except one, and so remove the noise that protects the
users of that site. The signed bytes contain the study, phase, attempt, plan and group (`Place`), so a
signature is not valid for any other answer.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from dpbandits.errors import InvalidValue
from dpbandits.service.wire import Place

_MADE_BY = "as `ssh-keygen -t ecdsa -b 384` makes, without a passphrase"


class SiteKey:
    """The private key of a site. Its `repr` does not show the key.

    Args:
        private: The key of the library `cryptography`.
    """

    def __init__(self, private: EllipticCurvePrivateKey) -> None:
        self._private = private

    @staticmethod
    def load(path: Path) -> SiteKey:
        """Read a private key in the format of OpenSSH.

        Args:
            path: The file.

        Returns:
            The key.

        Raises:
            InvalidValue: The file has no such key.
            FileNotFoundError: There is no such file.
        """
        try:
            private = load_ssh_private_key(path.read_bytes(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            private = None
        if not isinstance(private, EllipticCurvePrivateKey):
            raise InvalidValue("key", path, f"a private key {_MADE_BY}")
        return SiteKey(private)

    @property
    def public(self) -> PublicSiteKey:
        """The public key."""
        return PublicSiteKey(self._private.public_key())

    def sign(self, sealed: bytes, place: Place) -> bytes:
        """Return a signature of a sealed report for a place.

        Args:
            sealed: The sealed report.
            place: The study, phase, attempt, plan and group that the report belongs to.
        """
        return self._private.sign(_signed(sealed, place), ECDSA(SHA384()))


class PublicSiteKey:
    """The public key of a site, with which its answers are verified."""

    def __init__(self, public: EllipticCurvePublicKey) -> None:
        self._public = public

    @staticmethod
    def load(path: Path) -> PublicSiteKey:
        """Read a public key in the format of OpenSSH.

        Args:
            path: The file.

        Raises:
            InvalidValue: The file has no such key.
            FileNotFoundError: There is no such file.
        """
        try:
            public = load_ssh_public_key(path.read_bytes())
        except (ValueError, UnsupportedAlgorithm):
            public = None
        if not isinstance(public, EllipticCurvePublicKey):
            raise InvalidValue("key", path, f"a public key {_MADE_BY}")
        return PublicSiteKey(public)

    @property
    def pem(self) -> bytes:
        """The key in PEM, as a SuperLink knows it."""
        return self._public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def accepts(self, sealed: bytes, place: Place, signature: bytes) -> bool:
        """Return whether the owner of the key signed a sealed report for a place.

        Args:
            sealed: The sealed report.
            place: As in `SiteKey.sign`.
            signature: What `SiteKey.sign` returned.
        """
        try:
            self._public.verify(signature, _signed(sealed, place), ECDSA(SHA384()))
        except InvalidSignature:
            return False
        return True


def _signed(sealed: bytes, place: Place) -> bytes:
    return b"dpbandits federation v1\n" + place.info("report") + b"\n" + sealed
