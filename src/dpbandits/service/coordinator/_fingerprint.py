"""A keyed digest of what a release is made of, and the noise that follows from it.

Noise that is drawn again for the same reports is the same noise: it is a function of the reports, the plan,
the attempt, the study, and a key that is derived from the coordinator's private key and is in no store.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpbandits.privacy import KeyedNoise, NoiseSource
from dpbandits.protocol import Plan
from dpbandits.service.coordinator._context import Context
from dpbandits.service.wire import KeyPair


def derived(keys: KeyPair, purpose: str) -> bytes:
    """A key for one purpose, by HKDF-SHA256 from the private key that reports are sealed to."""
    info = f"dpbandits v1 {purpose}".encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(keys.private_bytes())


class Fingerprint:
    """Of the reports of an attempt, in the order of their pseudonyms.

    Of their plaintexts: a report that is sealed anew is the same report, and must not change the noise. The
    digest is keyed, because reports could be guessed and tried against a plain one.
    """

    def __init__(self, context: Context, plan: Plan, attempt: int) -> None:
        self._context = context
        self._where = [
            context.study.digest.encode(),
            plan.digest.encode(),
            plan.phase.to_bytes(8),
            attempt.to_bytes(8),
        ]
        self._mac = hmac.new(derived(context.keys, "reports of a release"), digestmod=hashlib.sha256)
        for part in self._where:
            self._add(part)

    def add(self, name: str, content: bytes) -> None:
        """One report under its pseudonym; or all that a shuffler revealed."""
        self._add(name.encode())
        self._add(content)

    def _add(self, part: bytes) -> None:
        self._mac.update(len(part).to_bytes(8) + part)

    @property
    def text(self) -> str:
        """In hexadecimal digits."""
        return self._mac.hexdigest()

    def noise(self) -> NoiseSource:
        """What the release of these reports draws from. A simulated source, of tests, stays as it is."""
        if self._context.noise.simulated:
            return self._context.noise
        key = derived(self._context.keys, "noise of a release")
        return KeyedNoise(key, [*self._where, self._mac.digest()])
