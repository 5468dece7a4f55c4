"""The central model: clients trust the server, which adds Gaussian noise to the mean (paper, Eq. 5).

Replacing one client moves the mean of vectors in [−B, B]^s by at most 2B√s/n in ℓ2, so `scale` over
that sensitivity is all that privacy depends on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.checks import positive
from dpbandits.privacy.accounting.gaussian import gaussian_delta
from dpbandits.privacy.mechanism import Mechanism, Payload, register
from dpbandits.privacy.noise import FloatArray, NoiseSource


@register
@dataclass(frozen=True, kw_only=True)
class CentralGaussian(Mechanism):
    """R and S are the identity; A adds N(0, scale²) to each coordinate of the mean."""

    support: int
    cohort: int
    bound: float
    scale: float
    kind: str = "central-gaussian"

    trust = "central"
    unit = "numbers"
    accountant = "analytic Gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(scale=self.scale)

    @staticmethod
    def calibrated(*, noise_ratio: float, support: int, cohort: int, bound: float) -> CentralGaussian:
        """Noise of `noise_ratio` times the ℓ2 sensitivity of the mean."""
        scale = noise_ratio * central_sensitivity(support=support, cohort=cohort, bound=bound)
        return CentralGaussian(support=support, cohort=cohort, bound=bound, scale=scale)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:  # noqa: ARG002
        return clipped

    def analyze(self, batch: Payload, noise: NoiseSource) -> FloatArray:
        """Eq. 5: the mean over clients plus Gaussian noise."""
        released: FloatArray = batch.mean(axis=0) + noise.gaussian(self.scale, (self.support,))
        return released

    def _simulate(self, clipped: FloatArray, noise: NoiseSource) -> FloatArray:
        return self.analyze(clipped, noise)

    @property
    def error_proxy(self) -> float:
        """σ_nc of the paper."""
        return self.scale

    @property
    def message_size(self) -> int:
        """One number an action."""
        return self.support

    def delta(self, epsilon: float) -> float:
        """Exact, at any ε."""
        sensitivity = central_sensitivity(support=self.support, cohort=self.cohort, bound=self.bound)
        return gaussian_delta(epsilon, self.scale / sensitivity)


def central_sensitivity(*, support: int, cohort: int, bound: float) -> float:
    """The ℓ2 distance that one replaced client can move the mean."""
    return 2 * bound * math.sqrt(support) / cohort
