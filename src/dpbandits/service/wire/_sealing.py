"""Reports sealed to the public key of the one party that may read them (HPKE, RFC 9180, base mode).

Suite: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM; a ciphertext is 32 bytes of encapsulated key,
the encrypted text, and 16 bytes of tag. What the report is for is bound into `info`, a line for each part:

    dpbandits v1
    purpose          report | share-shuffler | share-coordinator
    study            digest of the study
    phase            decimal
    attempt          decimal
    plan             digest of the plan
    pseudonym        hexadecimal SHA-256 of the client's ticket

so nothing that was sealed for one place can be opened in another: not under another client's pseudonym, not
in another attempt or study, not by the other party of a split.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dpbandits.errors import InvalidValue, Refused
from dpbandits.service.wire._decryption_process import SUITE

OVERHEAD = 48
PURPOSES = ("report", "share-shuffler", "share-coordinator")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a sealed report belongs."""

    study: str
    phase: int
    attempt: int
    plan: str
    pseudonym: str

    def info(self, purpose: str) -> bytes:
        """What is bound into the ciphertext."""
        parts = ("dpbandits v1", purpose, self.study, self.phase, self.attempt, self.plan, self.pseudonym)
        return "\n".join(map(str, parts)).encode()


@dataclass(frozen=True)
class HexKey:
    """A public key of 32 bytes, which is written as 64 hexadecimal digits."""

    raw: bytes

    label: ClassVar[str] = "key"
    """What errors call it."""

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InvalidValue(self.label, f"{len(self.raw)} bytes", "32 bytes")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key from hexadecimal digits."""
        try:
            return cls(bytes.fromhex(text.strip()))
        except ValueError:
            raise InvalidValue(cls.label, "another text", "64 hexadecimal digits") from None

    def __str__(self) -> str:
        return self.raw.hex()


@dataclass(frozen=True)
class PublicKey(HexKey):
    """Whom to seal to."""

    label = "public key"

    def seal(self, plaintext: bytes, place: Place, purpose: str) -> bytes:
        """For the key's owner only, and for this place only."""
        return SUITE.encrypt(plaintext, self._key, info=place.info(purpose))

    @cached_property
    def _key(self) -> X25519PublicKey:
        return X25519PublicKey.from_public_bytes(self.raw)


class KeyPair:
    """The private key of a reader of reports. Its text form never shows it."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private

    @staticmethod
    def new() -> KeyPair:
        """Of the operating system's generator."""
        return KeyPair(X25519PrivateKey.generate())

    @staticmethod
    def load(path: Path) -> KeyPair:
        """From a PEM file."""
        try:
            private = load_pem_private_key(path.read_bytes(), password=None)
        except ValueError:
            private = None
        if not isinstance(private, X25519PrivateKey):
            raise InvalidValue("key file", path, "a PEM file with an X25519 private key (dpbandits keys)")
        return KeyPair(private)

    def save(self, path: Path) -> None:
        """To a new PEM file that only its owner may read."""
        pem = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(path, pem)

    @property
    def public(self) -> PublicKey:
        """What may be told to everybody."""
        return PublicKey(self._private.public_key().public_bytes_raw())

    def open(self, sealed: bytes, place: Place, purpose: str) -> bytes:
        """The plaintext, if it was sealed to this key for this place."""
        try:
            return SUITE.decrypt(sealed, self._private, info=place.info(purpose))
        except (InvalidTag, ValueError):
            raise unreadable() from None

    def private_bytes(self) -> bytes:
        """The key itself, for a process of the same party."""
        return self._private.private_bytes_raw()


def unreadable() -> Refused:
    """What is said of bytes that do not open."""
    return Refused("unreadable", "the report does not open: other key, place or bytes")


def write_private(path: Path, content: bytes) -> None:
    """A new file that only its owner may read; an old one is never overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidValue("file", path, "a path where there is no file yet") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
