"""No privacy: the server sees every client's averages (DPE, the non-private DP-DPE)."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.privacy.mechanism import Mechanism, Payload, register
from dpbandits.privacy.noise import FloatArray, NoiseSource


@register
@dataclass(frozen=True, kw_only=True)
class NoPrivacy(Mechanism):
    """R, S are the identity and A is the plain mean. Nothing is protected."""

    support: int
    cohort: int
    bound: float
    kind: str = "none"

    trust = "none"
    unit = "numbers"
    accountant = "none"

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:  # noqa: ARG002
        return clipped

    def analyze(self, batch: Payload, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        """The plain mean."""
        mean: FloatArray = batch.mean(axis=0)
        return mean

    def _simulate(self, clipped: FloatArray, noise: NoiseSource) -> FloatArray:
        return self.analyze(clipped, noise)

    @property
    def error_proxy(self) -> float:
        """The mean is exact."""
        return 0.0

    @property
    def message_size(self) -> int:
        """One number an action."""
        return self.support

    def delta(self, epsilon: float) -> float:  # noqa: ARG002
        """Whoever sees the mean may learn everything."""
        return 1.0
