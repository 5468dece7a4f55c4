"""A keyed digest of the reports of a release, and the noise of the release, which is derived from the digest.

The noise is a function of the reports, the plan, the attempt, the study and a key. So the same reports always
get the same noise. The key is derived from the coordinator's private key and is never stored.
"""

from __future__ import annotations

import hashlib
import hmac

from dpbandits.privacy import KeyedNoise, NoiseSource
from dpbandits.protocol import Plan
from dpbandits.service.coordinator._context import Context


class Fingerprint:
    """A keyed digest of the reports of an attempt, added in the order of their pseudonyms.

    The digest covers the plaintexts: sealing the same report again gives another ciphertext, which must not
    change the noise. The digest is keyed, since otherwise everybody who sees it could test guesses of the
    reports.
    """

    def __init__(self, context: Context, plan: Plan, attempt: int) -> None:
        self._context = context
        self._where = [
            context.study.digest.encode(),
            plan.digest.encode(),
            plan.phase.to_bytes(8),
            attempt.to_bytes(8),
        ]
        self._mac = hmac.new(context.keys.derived("reports of a release"), digestmod=hashlib.sha256)
        for part in self._where:
            self._add(part)

    def add(self, name: str, content: bytes) -> None:
        """Add a report under its pseudonym, or the sums that a shuffler revealed."""
        self._add(name.encode())
        self._add(content)

    def _add(self, part: bytes) -> None:
        self._mac.update(len(part).to_bytes(8) + part)

    @property
    def text(self) -> str:
        """The digest in hexadecimal."""
        return self._mac.hexdigest()

    def noise(self) -> NoiseSource:
        """Return the noise source of the release of these reports; a simulated source is used unchanged."""
        if self._context.noise.simulated:
            return self._context.noise
        key = self._context.keys.derived("noise of a release")
        return KeyedNoise(key, [*self._where, self._mac.digest()])
