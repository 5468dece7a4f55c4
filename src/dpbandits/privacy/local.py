"""The local model: each client adds Gaussian noise before anything leaves it (paper, Theorem 4.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.checks import positive
from dpbandits.privacy.accounting.gaussian import gaussian_delta
from dpbandits.privacy.mechanism import Mechanism, Payload, register
from dpbandits.privacy.noise import FloatArray, NoiseSource


@register
@dataclass(frozen=True, kw_only=True)
class LocalGaussian(Mechanism):
    """R adds N(0, scale²) to each coordinate, S is the identity, A is the plain mean."""

    support: int
    cohort: int
    bound: float
    scale: float
    kind: str = "local-gaussian"

    trust = "local"
    unit = "numbers"
    accountant = "analytic Gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(scale=self.scale)

    @staticmethod
    def calibrated(*, noise_ratio: float, support: int, cohort: int, bound: float) -> LocalGaussian:
        """Noise of `noise_ratio` times the ℓ2 diameter of one client's box."""
        scale = noise_ratio * local_sensitivity(support=support, bound=bound)
        return LocalGaussian(support=support, cohort=cohort, bound=bound, scale=scale)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return clipped + noise.gaussian(self.scale, clipped.shape)

    def analyze(self, batch: Payload, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        """The plain mean: post-processing of what is private already."""
        mean: FloatArray = batch.mean(axis=0)
        return mean

    def _simulate(self, clipped: FloatArray, noise: NoiseSource) -> FloatArray:
        # The mean of n independent N(0, scale²) variables is one N(0, scale²/n) variable.
        mean: FloatArray = clipped.mean(axis=0)
        return mean + noise.gaussian(self.error_proxy, (self.support,))

    @property
    def error_proxy(self) -> float:
        """σ_nl/√n of the paper."""
        return self.scale / math.sqrt(self.cohort)

    @property
    def message_size(self) -> int:
        """One number an action."""
        return self.support

    def delta(self, epsilon: float) -> float:
        """Exact, at any ε."""
        return gaussian_delta(epsilon, self.scale / local_sensitivity(support=self.support, bound=self.bound))


def local_sensitivity(*, support: int, bound: float) -> float:
    """The ℓ2 distance between two clients' clipped vectors is at most this."""
    return 2 * bound * math.sqrt(support)
