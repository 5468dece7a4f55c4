"""HPKE base mode written from the text of RFC 9180, for the one suite of the protocol.

It shares no code with the library's `_sealing`. DHKEM(X25519, HKDF-SHA256) is 0x0020, HKDF-SHA256 is 0x0001,
AES-128-GCM is 0x0001. There is one message per key, so the sequence number is zero and the nonce is the base
nonce.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM_SUITE = b"KEM" + bytes.fromhex("0020")
SUITE = b"HPKE" + bytes.fromhex("0020 0001 0001")


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    assert length <= hashlib.sha256().digest_size  # one HKDF block is enough
    return hmac.digest(secret, labelled + b"\x01", "sha256")[:length]


def _cipher(shared: bytes, enc: bytes, public: bytes, info: bytes) -> tuple[AESGCM, bytes]:
    """Run the key schedule: return the cipher and the nonce for a Diffie-Hellman value."""
    prk = _extract(KEM_SUITE, b"", b"eae_prk", shared)
    secret = _expand(KEM_SUITE, prk, b"shared_secret", enc + public, 32)
    hashes = _extract(SUITE, b"", b"psk_id_hash", b"") + _extract(SUITE, b"", b"info_hash", info)
    context = b"\x00" + hashes  # mode 0: base
    root = _extract(SUITE, secret, b"secret", b"")
    key = _expand(SUITE, root, b"key", context, 16)
    return AESGCM(key), _expand(SUITE, root, b"base_nonce", context, 12)


def public_of(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(public: bytes, ephemeral: bytes, info: bytes, plaintext: bytes) -> bytes:
    """Seal with a fixed ephemeral key; only test vectors may use a fixed one."""
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = own.public_key().public_bytes_raw()
    cipher, nonce = _cipher(own.exchange(X25519PublicKey.from_public_bytes(public)), enc, public, info)
    return enc + cipher.encrypt(nonce, plaintext, None)


def open_sealed(private: bytes, info: bytes, sealed: bytes) -> bytes:
    own, enc = X25519PrivateKey.from_private_bytes(private), sealed[:32]
    shared = own.exchange(X25519PublicKey.from_public_bytes(enc))
    cipher, nonce = _cipher(shared, enc, own.public_key().public_bytes_raw(), info)
    return cipher.decrypt(nonce, sealed[32:], None)
