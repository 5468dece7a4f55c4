"""The local model: each client adds noise before anything leaves it; nobody is trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy._mechanism import Message, Payload, register
from dpbandits.privacy._noisy_lattice import NoisyLattice, least_largest, sent_message
from dpbandits.privacy.noise import NoiseSource, simulated_only
from dpbandits.privacy.tails import sub_gaussian_factor
from dpbandits.privacy.trust._continuous import ContinuousGaussian

PARTIES = (
    "nothing but the client's own device, which adds the noise: the server and all other clients may collude"
)

RARELY = 1e-12
"""An honest report is replaced, because its noise is in a far tail, with this probability at most."""


@register
@dataclass(frozen=True, kw_only=True)
class LocalLattice(NoisyLattice):
    """R encodes and adds a whole share of noise, S is the identity, A is the plain mean."""

    coordinates: int
    cohort: int
    bound: float
    levels: int
    noise: str
    scale: float
    shape: str = "box"
    kind: str = "local-lattice"

    trust = "local"
    unit = "numbers"
    parties = PARTIES

    @cached_property
    def message(self) -> Message:
        """Encoded values with noise that is larger with a probability of at most 10⁻¹²."""
        largest = least_largest(self.law, self.coordinates, self.shape, RARELY)
        return sent_message(self.levels, self.coordinates, self.shape, self.law, largest)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        # Replacing what is too far out is processing of a private report: it costs no privacy.
        return self.message.or_centre(
            self.lattice.encode(clipped, noise) + self.law.draw(len(clipped), self.coordinates, noise)
        )

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return self.lattice.decode_mean(batch.sum(axis=0), reports)

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        return self.lattice.decode_mean(
            total + self.law.draw_total(reports, self.coordinates, noise), reports
        )


@register
@dataclass(frozen=True, kw_only=True)
class LocalGaussian(ContinuousGaussian):
    """R adds N(0, scale²) in floating point (paper, Theorem 4.4): for simulations only."""

    coordinates: int
    cohort: int
    bound: float
    noise_ratio: float
    kind: str = "local-gaussian"

    trust = "local"
    parties = PARTIES

    @property
    def scale(self) -> float:
        """σ_nl: `noise_ratio` times the ℓ2 distance between two clients' vectors."""
        return self.noise_ratio * 2 * self.bound * math.sqrt(self.coordinates)

    @cached_property
    def message(self) -> Message:
        """Averages with noise that is larger with a probability of at most 10⁻¹²."""
        most = self.bound + self.scale * sub_gaussian_factor(RARELY / (2 * self.coordinates))
        return Message(kind="numbers", shape=(self.coordinates,), low=-most, high=most)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return self.message.or_centre(clipped + simulated_only(noise).gaussian(self.scale, clipped.shape))

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        mean: FloatArray = batch.mean(axis=0)
        return mean

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        # The mean of n independent N(0, scale²) variables is one N(0, scale²/n) variable.
        added = simulated_only(noise).gaussian(self.error_deviation(reports), (self.coordinates,))
        return np.asarray(total / reports + added, dtype=np.float64)

    def error_deviation(self, reports: int) -> float:
        """σ_nl/√n of the paper."""
        return self.scale / math.sqrt(reports)
