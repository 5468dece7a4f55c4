"""The central trust model: clients trust the server, which adds noise to the sum of their averages.

Replacing one of n clients moves the mean of vectors in [−B, B]^s by at most 2B√s/n in ℓ2 and 2B/n in ℓ∞.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy._noisy_lattice import NoisyLattice, sent_message
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.trust._single_party import ContinuousGaussian, single_party

# The grid is fine enough for cohorts of up to this size, so that one calibration serves all of them.
_USUAL_COHORT = 2**16


@dataclass(frozen=True, kw_only=True)
class CentralLattice(NoisyLattice):
    """R encodes, S is the identity, and A adds one share of integer noise to the sum.

    Attributes:
        coordinates: How many numbers a report has.
        cohort: The number of clients.
        bound: Averages are clipped to [−bound, bound], or to a ball with this radius.
        levels: The number of levels of the grid.
        noise: The name of the noise distribution: `discrete-gaussian`, `laplace`, `k-norm` or `ball-norm`. In
            a ball, `discrete-gaussian` or `ball-norm`.
        scale: The scale of the noise, in levels.
        shape: `box` or `ball`, to which averages are clipped.
        kind: The name in plans; a subclass has its own.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> from dpbandits.privacy.trust import CentralLattice
        >>> own = CentralLattice(coordinates=2, cohort=100, bound=1, levels=256, noise="laplace", scale=512.0)
        >>> own.event.delta(1.0)
        0.0
        >>> noise = dp.SimulatedNoise(np.random.default_rng(1))
        >>> own.simulate(np.full((100, 2), 0.25), noise).shape
        (2,)
    """

    shape: str = "box"
    kind: str = "central-lattice"

    trust = "central"
    unit = "numbers"
    laws = (*NoisyLattice.laws, "ball-norm")

    def shares_added(self, reports: int) -> int:  # noqa: ARG002
        """Return 1: only the server adds noise.

        Args:
            reports: The number of reports.
        """
        return 1

    @cached_property
    def message(self) -> Message:
        """Points of the grid, within the ball if there is one."""
        return sent_message(self.levels, self.coordinates, self.shape, None, 0)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return self.lattice.encode(clipped, noise)

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        return self._simulated_mean(batch.sum(axis=0), reports, noise)


@dataclass(frozen=True, kw_only=True)
class CentralGaussian(ContinuousGaussian):
    """A adds N(0, scale²) to the mean (paper, Eq. 5), in floating point: for simulations only."""

    kind: str = "central-gaussian"

    trust = "central"

    @cached_property
    def message(self) -> Message:
        """The clipped averages."""
        return Message(kind="numbers", shape=(self.coordinates,), low=-self.bound, high=self.bound)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:  # noqa: ARG002
        return clipped

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        return self._simulated_mean(batch.sum(axis=0), reports, noise)

    def error_deviation(self, reports: int) -> float:
        """Return σ_nc of the paper: `noise_ratio` times the ℓ2 distance by which a client moves the mean."""
        return float(self.noise_ratio * 2 * self.bound * np.sqrt(self.coordinates) / reports)


CENTRAL = single_party(
    name="central",
    rests_on="the server is trusted: it sees every report, keeps them secret, adds the noise and releases "
    "each sum once; clients may lie and collude",
    noise_by="server",
    view="release",
    gaussian=CentralGaussian,
    lattice=CentralLattice,
    rounded_values=lambda cohort: max(cohort, _USUAL_COHORT),
    typical_error=lambda on_sum, clients: on_sum / clients,
    ball_laws=("ball-norm",),
)
