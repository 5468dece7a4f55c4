"""The local trust model: nobody is trusted, so each client adds noise before it sends its report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy._noisy_lattice import NoisyLattice, least_largest, sent_message
from dpbandits.privacy.noise import NoiseSource, simulated_only
from dpbandits.privacy.tails import sub_gaussian_factor
from dpbandits.privacy.trust._band import LocalBand
from dpbandits.privacy.trust._direction_list import LocalList
from dpbandits.privacy.trust._single_party import ContinuousGaussian, single_party

RARELY = 1e-12
"""Upper bound on the probability that an honest report is replaced because its noise is out of range."""


@dataclass(frozen=True, kw_only=True)
class LocalLattice(NoisyLattice):
    """R encodes and adds all the noise that a client needs, S is the identity, and A is the plain mean."""

    shape: str = "box"
    kind: str = "local-lattice"

    trust = "local"
    unit = "numbers"

    @cached_property
    def message(self) -> Message:
        """Encoded values with noise. The noise of a report is out of range with probability at most 10⁻¹²."""
        largest = least_largest(self.law, self.coordinates, self.shape, RARELY)
        return sent_message(self.levels, self.coordinates, self.shape, self.law, largest)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        # Replacing a report that is out of range costs no privacy: it is post-processing.
        return self.message.or_centre(
            self.lattice.encode(clipped, noise) + self.law.draw(len(clipped), self.coordinates, noise)
        )

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return self.lattice.decode_mean(batch.sum(axis=0), reports)


@dataclass(frozen=True, kw_only=True)
class LocalGaussian(ContinuousGaussian):
    """R adds N(0, scale²) (paper, Theorem 4.4), in floating point: for simulations only."""

    kind: str = "local-gaussian"

    trust = "local"

    @property
    def scale(self) -> float:
        """σ_nl: `noise_ratio` times the largest ℓ2 distance between the vectors of two clients."""
        return self.noise_ratio * 2 * self.bound * math.sqrt(self.coordinates)

    @cached_property
    def message(self) -> Message:
        """Averages with noise. The noise of a report is out of range with probability at most 10⁻¹²."""
        most = self.bound + self.scale * sub_gaussian_factor(RARELY / (2 * self.coordinates))
        return Message(kind="numbers", shape=(self.coordinates,), low=-most, high=most)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return self.message.or_centre(clipped + simulated_only(noise).gaussian(self.scale, clipped.shape))

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return np.asarray(batch.mean(axis=0))

    def error_deviation(self, reports: int) -> float:
        """Return σ_nl/√n of the paper."""
        return self.scale / math.sqrt(reports)


def _chosen_from_list(
    request: PrivacyRequest,
    *,
    coordinates: int,
    cohort: int,
    bound: float,
    shape: str,
    least: int,  # noqa: ARG001
) -> Mechanism:
    """Return the mechanism for the noise `list`: `LocalList` or, for one number, `LocalBand`."""
    if coordinates == 1:
        return LocalBand.for_request(request, cohort=cohort, bound=bound, shape=shape)
    return LocalList.for_request(request, coordinates=coordinates, cohort=cohort, bound=bound, shape=shape)


LOCAL = single_party(
    name="local",
    rests_on="only the client's own device is trusted, which adds the noise; the server and all other "
    "clients may collude",
    noise_by="client",
    view="report",
    gaussian=LocalGaussian,
    lattice=LocalLattice,
    rounded_values=lambda _cohort: 1,
    typical_error=lambda on_sum, clients: on_sum / math.sqrt(clients),
    list_calibrate=_chosen_from_list,
    list_mechanisms=(LocalBand, LocalList),
)
