"""The helper process that decrypts sealed reports: a script that imports no other module of this package.

    standard input    the private key, 32 bytes; then batches of pairs (`info`, sealed bytes)
    standard output   per batch, a list with the plaintext of each pair in order, or null if it does not open

Each batch and each list is a MessagePack message, preceded by its length in four bytes, big-endian. The
process ends when its input ends, so it does not outlive the process that started it.
"""

from __future__ import annotations

import sys
from typing import BinaryIO

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
PREFIX = 4

Batch = list[tuple[bytes, bytes]]


def opened(private: X25519PrivateKey, info: bytes, sealed: bytes) -> bytes | None:
    """Return the plaintext; None if it was sealed to a different key or place, or the bytes were altered."""
    try:
        return SUITE.decrypt(sealed, private, info=info)
    except (InvalidTag, ValueError):
        return None


def framed(message: Batch | list[bytes | None]) -> bytes:
    """Encode a message with its length in front."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(PREFIX, "big") + content


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Read the private key and then decrypt batches until the input ends."""
    private = X25519PrivateKey.from_private_bytes(source.read(32))
    while prefix := source.read(PREFIX):
        batch = msgspec.msgpack.decode(source.read(int.from_bytes(prefix, "big")), type=Batch)
        sink.write(framed([opened(private, info, sealed) for info, sealed in batch]))
        sink.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
