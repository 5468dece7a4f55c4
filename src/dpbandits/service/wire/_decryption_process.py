"""A process that opens what is sealed to a key: a script that imports nothing of this package.

    standard input    the private key, 32 bytes; then batches: pairs of `info` and sealed bytes
    standard output   for each batch, what its pairs opened to, in their order: bytes, or null

A batch and its answer are MessagePack after their length in four bytes. The process ends with its input, so
it never outlives whoever started it.
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
    """The plaintext, or None: other key, place or bytes."""
    try:
        return SUITE.decrypt(sealed, private, info=info)
    except (InvalidTag, ValueError):
        return None


def framed(message: Batch | list[bytes | None]) -> bytes:
    """As it is written."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(PREFIX, "big") + content


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer batches until there are no more."""
    private = X25519PrivateKey.from_private_bytes(source.read(32))
    while prefix := source.read(PREFIX):
        batch = msgspec.msgpack.decode(source.read(int.from_bytes(prefix, "big")), type=Batch)
        sink.write(framed([opened(private, info, sealed) for info, sealed in batch]))
        sink.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
