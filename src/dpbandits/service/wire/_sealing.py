"""Keys and encryption: each report is sealed to the one party that may read it (HPKE, RFC 9180, base mode).

The suite is DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. A ciphertext is 32 bytes of encapsulated
key, the encrypted text, and 16 bytes of tag. The HPKE parameter `info` binds the ciphertext to its purpose
and place. It has one line per part:

    dpbandits v1
    purpose          report | share-shuffler | share-coordinator
    study            digest of the study's terms
    phase            decimal
    attempt          decimal
    plan             digest of the plan
    pseudonym        hexadecimal SHA-256 of the client's ticket

So a report that was sealed for one place does not open in another: under another client's pseudonym, in
another attempt or study, or as the other share of a split report.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dpbandits.errors import InvalidValue, Refused
from dpbandits.service.wire._decryption_process import SUITE
from dpbandits.service.wire._directory import sync_directory

if TYPE_CHECKING:  # commands that make keys need no NumPy
    from dpbandits.protocol import Plan

OVERHEAD = 48  # bytes by which a ciphertext is longer than its plaintext


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place that a sealed report is bound to.

    Attributes:
        study: The digest of the study's terms.
        phase: The phase.
        attempt: The attempt at the phase.
        plan: The digest of the plan.
        pseudonym: The SHA-256 of the client's ticket, in hexadecimal digits.
    """

    study: str
    phase: int
    attempt: int
    plan: str
    pseudonym: str

    @staticmethod
    def of(study: str, plan: Plan, attempt: int, pseudonym: str) -> Place:
        """Return the place of a report for a plan.

        Args:
            study: The digest of the study's terms.
            plan: The plan.
            attempt: The attempt at the phase.
            pseudonym: The client's pseudonym.
        """
        return Place(study=study, phase=plan.phase, attempt=attempt, plan=plan.digest, pseudonym=pseudonym)

    def shared_info(self, purpose: str) -> bytes:
        """Return the lines of `info` without the pseudonym: all reports of an attempt share them.

        Args:
            purpose: As in `info`.
        """
        parts = ("dpbandits v1", purpose, self.study, self.phase, self.attempt, self.plan)
        return "\n".join(map(str, parts)).encode()

    def info(self, purpose: str) -> bytes:
        """Return the HPKE `info` for a purpose.

        Args:
            purpose: `report`, `share-shuffler` or `share-coordinator`.
        """
        return self.shared_info(purpose) + b"\n" + self.pseudonym.encode()


@dataclass(frozen=True)
class HexKey:
    """A public key of 32 bytes, written as 64 hexadecimal digits.

    Attributes:
        raw: The bytes of the key.
    """

    raw: bytes

    label: ClassVar[str] = "key"
    """The name of the key in error messages."""

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InvalidValue(self.label, f"{len(self.raw)} bytes", "32 bytes")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key from hexadecimal digits.

        Args:
            text: 64 hexadecimal digits.

        Returns:
            The key.

        Raises:
            InvalidValue: The text is something else. The error does not repeat the text: it may be a secret.
        """
        try:
            return cls(bytes.fromhex(text.strip()))
        except ValueError:
            raise InvalidValue(cls.label, "another text", "64 hexadecimal digits") from None

    def __str__(self) -> str:
        return self.raw.hex()


@dataclass(frozen=True)
class PublicKey(HexKey):
    """The public key that reports are sealed to."""

    label = "public key"

    def seal(self, plaintext: bytes, place: Place, purpose: str) -> bytes:
        """Encrypt a text so that only the owner of this key can open it, and only for this place.

        Args:
            plaintext: The packed report or share.
            place: What the ciphertext is bound to.
            purpose: `report`, `share-shuffler` or `share-coordinator`.

        Returns:
            The ciphertext, 48 bytes longer than the plaintext.
        """
        return SUITE.encrypt(plaintext, self._key, info=place.info(purpose))

    @cached_property
    def _key(self) -> X25519PublicKey:
        return X25519PublicKey.from_public_bytes(self.raw)


class KeyPair:
    """The private key of a party that reads reports. Its `repr` does not show the key.

    Args:
        private: The key of the library `cryptography`.
    """

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private

    @staticmethod
    def new() -> KeyPair:
        """Return a new key, from the random generator of the operating system."""
        return KeyPair(X25519PrivateKey.generate())

    @staticmethod
    def load(path: Path) -> KeyPair:
        """Read a key from a PEM file.

        Args:
            path: The file.

        Returns:
            The key.

        Raises:
            InvalidValue: The file cannot be read or has no X25519 private key.
        """
        private, expected = read_private(path), "an X25519 private key, as `dpbandits keys sealing` writes"
        if not isinstance(private, X25519PrivateKey):
            raise InvalidValue("key file", path, f"a PEM file with {expected}")
        return KeyPair(private)

    def save(self, path: Path) -> None:
        """Write the key to a new PEM file that only its owner may read.

        Args:
            path: The file.
        """
        write_private(path, pem(self._private))

    @property
    def public(self) -> PublicKey:
        """The public key, which may be published."""
        return PublicKey(self._private.public_key().public_bytes_raw())

    def open(self, sealed: bytes, place: Place, purpose: str) -> bytes:
        """Decrypt a sealed report.

        Args:
            sealed: The ciphertext.
            place: The place that it must be bound to.
            purpose: `report`, `share-shuffler` or `share-coordinator`.

        Returns:
            The plaintext.

        Raises:
            Refused: The report was sealed to a different key, place or purpose, or the bytes were altered.
        """
        try:
            return SUITE.decrypt(sealed, self._private, info=place.info(purpose))
        except (InvalidTag, ValueError):
            raise unreadable() from None

    def derived(self, purpose: str) -> bytes:
        """Return a secret of 32 bytes for one purpose of this party, by HKDF-SHA256 from the private key.

        Args:
            purpose: The purpose; each has a secret of its own.
        """
        info = f"dpbandits v1 {purpose}".encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self.private_bytes())

    def shared(self, other: PublicKey, info: bytes, length: int) -> bytes:
        """Derive a secret that only the owners of the two keys can compute.

        Args:
            other: The public key of the other party.
            info: What the secret is for.
            length: Its length in bytes.

        Returns:
            HKDF-SHA256 over the X25519 secret of the two keys, without a salt.

        Raises:
            InvalidValue: The other key has a small order, so that everybody could compute the secret.
        """
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(other.raw))
        except ValueError:
            raise InvalidValue("public key", "a key of small order", "the key of an honest party") from None
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)

    def private_bytes(self) -> bytes:
        """Return the raw private key, for a helper process of the same party."""
        return self._private.private_bytes_raw()


def unreadable() -> Refused:
    """Return the error for a report that cannot be decrypted."""
    return Refused(
        "unreadable", "the report cannot be decrypted: it has a different key or place, or was altered"
    )


def pem(private: X25519PrivateKey | Ed25519PrivateKey | EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM format, not encrypted.

    Args:
        private: The key.
    """
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_private(path: Path) -> PrivateKeyTypes | None:
    """Return the private key of a PEM file; None if the file has no key or cannot be read."""
    try:
        return load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError):
        return None


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read.

    Args:
        path: A path where no file exists.
        content: The content of the file.

    Raises:
        InvalidValue: A file exists at this path; it is not overwritten.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidValue("file", path, "a path where there is no file yet") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read. After a crash it has either the old or the new content.

    Args:
        path: The file.
        content: Its new content.
    """
    # Renaming a complete, synced file is atomic; writing in place is not.
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)  # left by a process that died here
    write_private(draft, content)
    draft.replace(path)
    sync_directory(path.parent)
