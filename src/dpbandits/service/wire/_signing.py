"""Ed25519 signatures: of a study's terms, and of what a coordinator or a shuffler states about a study.

The signer of terms is not the coordinator. It is a party that clients know independently, such as an ethics
board, a data-protection officer or the shuffler's operator. Its private key stays offline, because it signs
one file once.

A coordinator and a shuffler sign with a key that is derived from the private key that reports are sealed to
(`SigningKey.of`), so they need no second key file. `dpbandits keys public` prints the public keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpbandits.errors import InvalidValue
from dpbandits.service.wire._sealing import HexKey, KeyPair, pem, read_private, write_private


@dataclass(frozen=True)
class VerifyKey(HexKey):
    """The public key that verifies signatures."""

    label = "operator key"

    def accepts(self, message: bytes, signature: str) -> bool:
        """Return whether a signature of a message was made with this key.

        Args:
            message: The bytes that were signed.
            signature: The signature in hexadecimal digits; any other text is rejected.

        Returns:
            True if the signature is valid.
        """
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes.fromhex(signature), message)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private signing key. Its `repr` does not show the key.

    Args:
        private: The key of the library `cryptography`.
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @staticmethod
    def new() -> SigningKey:
        """Return a new key, from the random generator of the operating system."""
        return SigningKey(Ed25519PrivateKey.generate())

    @staticmethod
    def of(keys: KeyPair) -> SigningKey:
        """Derive the key with which a party signs what it states, by HKDF-SHA256 from its sealing key.

        Args:
            keys: The key pair that reports are sealed to.

        Returns:
            The same key on every call. It reveals nothing about the sealing key.
        """
        return SigningKey(Ed25519PrivateKey.from_private_bytes(keys.derived("signing of statements")))

    @staticmethod
    def load(path: Path) -> SigningKey:
        """Read a key from a PEM file.

        Args:
            path: The file, as `dpbandits keys signing` writes it.

        Returns:
            The key.

        Raises:
            InvalidValue: The file cannot be read or has no Ed25519 private key.
        """
        private = read_private(path)
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidValue("signing key", path, "a PEM file that `dpbandits keys signing` wrote")
        return SigningKey(private)

    def save(self, path: Path) -> None:
        """Write the key to a new PEM file that only its owner may read.

        Args:
            path: The file.
        """
        write_private(path, pem(self._private))

    @property
    def public(self) -> VerifyKey:
        """The public key, which may be published."""
        return VerifyKey(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> str:
        """Return the signature of a message, in hexadecimal digits.

        Args:
            message: The bytes to sign.
        """
        return self._private.sign(message).hex()
