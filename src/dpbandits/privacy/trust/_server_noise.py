"""`ServerNoise`: both servers of the shuffle model add noise to the sums, and the noise of one suffices.

Clients add no noise. So no client's privacy depends on other clients: a coordinator that invents all clients
but one learns no more than (ε, δ) allows, as long as the shuffler follows the protocol. The same holds with
the two servers exchanged. The noise has √2 times the standard deviation that one trusted server would add.

Neither server may see a report, because a report has no noise. So this needs clients that split their reports
(the modes `split` and `verified` of the service).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._limits import checked_cohort
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy._noisy_lattice import sent_message
from dpbandits.privacy._scales import COARSE, levels_and_scale
from dpbandits.privacy.noise import GaussianLaw, NoiseLaw, NoiseSource
from dpbandits.privacy.trust._summed_shares import ModularSum

SERVER_GAUSSIAN = "server-gaussian"
_SERVERS = 2


@dataclass(frozen=True, kw_only=True)
class ServerNoise(ModularSum):
    """R encodes. S reveals the sum modulo 2^`modulus_bits` with its noise, and A adds as much noise again.

    Attributes:
        levels: The number of levels of the grid.
        noise: "server-gaussian": each server adds discrete Gaussian noise.
        scale: The scale of the noise of one server, in levels.
        least_reports: The fewest reports in a release.
    """

    least_reports: int
    shape: str = "box"
    kind: str = "server-noise"

    trust = "shuffle"
    unit = "bits"
    laws = (SERVER_GAUSSIAN,)
    needs_shares = True
    silent_share: ClassVar[float] = 1.0
    """The share of clients that may add no noise: all of them."""

    rests_on = (
        "each report is split among shuffler and server; they do not collude, and an honest one adds its "
        "noise to each sum once; clients may lie and collude"
    )

    def __post_init__(self) -> None:
        checked_cohort(self.cohort)
        whole(1, self.cohort, minimum_reports=self.least_reports)
        super().__post_init__()

    @property
    def minimum_reports(self) -> int:
        """The fewest reports in a release. The noise does not depend on it."""
        return self.least_reports

    @cached_property
    def law(self) -> NoiseLaw:
        """The noise of one server."""
        return GaussianLaw(scale=self.scale)

    def shares_added(self, reports: int) -> int:  # noqa: ARG002
        """Return 2: both servers add noise, and no client does."""
        return _SERVERS

    @cached_property
    def message(self) -> Message:
        """Points of the grid, within the ball if there is one."""
        return sent_message(self.levels, self.coordinates, self.shape, None, 0)

    @cached_property
    def largest_noise(self) -> int:
        """A bound that the noise of both servers exceeds with probability at most 10⁻¹².

        Their sum is sub-Gaussian with proxy 2·scale²: P(some |z_j| > N) ≤ 2s·exp(−N²/(4·scale²)).
        """
        return math.ceil(2 * self.scale * math.sqrt(math.log(2 * self.coordinates * 1e12)))

    @property
    def largest_server_noise(self) -> int:
        """`largest_noise`: servers add all of it."""
        return self.largest_noise

    def third_party_noise(self, noise: NoiseSource) -> Payload:
        """Draw the shuffler's noise."""
        return np.asarray(self.law.draw(1, self.coordinates, noise)[0])

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return self.lattice.encode(clipped, noise)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:
        """Return only the sum with the shuffler's noise, modulo 2^`modulus_bits`."""
        total = payloads.sum(axis=0, dtype=np.int64) + self.third_party_noise(noise)
        return np.asarray(total & ((1 << self.modulus_bits) - 1))

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        signed = self.unwrapped(batch)
        return self.lattice.decode_mean(signed + self.law.draw(1, self.coordinates, noise)[0], reports)


def server_noise(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int, shape: str
) -> Mechanism:
    """Return the mechanism in which the noise of each server alone satisfies the request."""
    exact = replace(request, noise="discrete-gaussian")
    levels, scale = levels_and_scale(exact, coordinates, cohort, shape=shape, shares=1, rounding=COARSE)
    return ServerNoise(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        levels=levels,
        noise=SERVER_GAUSSIAN,
        scale=scale,
        least_reports=least,
        shape=shape,
    )
