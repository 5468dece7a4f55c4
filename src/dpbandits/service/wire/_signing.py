"""Signatures under a study's terms (Ed25519): a party that clients trust says which terms are right.

The signer is not the coordinator. It is the party that clients know from elsewhere, such as an ethics board,
a data-protection officer or the shuffler's operator. Its private key stays offline: it signs a file once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dpbandits.errors import InvalidValue
from dpbandits.service.wire._sealing import HexKey, write_private


@dataclass(frozen=True)
class VerifyKey(HexKey):
    """The public half of a signing key."""

    label = "operator key"

    def accepts(self, message: bytes, signature: str) -> bool:
        """Whether `signature`, in hexadecimal digits, is this key's signature under the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes.fromhex(signature), message)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private signing key. Its text form never shows it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @staticmethod
    def new() -> SigningKey:
        """A fresh key from the operating system's generator."""
        return SigningKey(Ed25519PrivateKey.generate())

    @staticmethod
    def load(path: Path) -> SigningKey:
        """Read a key from a PEM file."""
        try:
            private = load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, ValueError):
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidValue("signing key", path, "a PEM file of `dpbandits keys signing`")
        return SigningKey(private)

    def save(self, path: Path) -> None:
        """Write the key to a new PEM file that only its owner may read."""
        write_private(path, self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    @property
    def public(self) -> VerifyKey:
        """The half that everybody may know."""
        return VerifyKey(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> str:
        """The signature under a message, in hexadecimal digits."""
        return self._private.sign(message).hex()
