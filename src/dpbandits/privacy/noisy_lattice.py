"""What the trust models share when averages are encoded on a grid and integer noise is added."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbandits.checks import one_of
from dpbandits.privacy.accounting import Event
from dpbandits.privacy.lattice import Lattice
from dpbandits.privacy.laws import LAWS, NoiseLaw
from dpbandits.privacy.mechanism import Mechanism, Payload
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.tails import squared_norms

FloatArray = NDArray[np.float64]


class NoisyLattice(Mechanism):
    """Encoded averages plus noise of one law; who adds it, and how often, is the trust model's."""

    levels: int
    noise: str
    scale: float

    laws: ClassVar[tuple[str, ...]] = ("discrete-gaussian", "laplace", "k-norm")
    """What a single party may add; shares of several parties are another matter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.laws, noise=self.noise)
        _ = self.lattice, self.law  # both validate their parameters when they are built

    @cached_property
    def lattice(self) -> Lattice:
        """Each average has its own range, [−bound, bound]."""
        return Lattice(reach=self.bound, levels=self.levels)

    @property
    def noise_shares(self) -> int:
        """How many shares of noise are in the sum at least."""
        return 1

    @cached_property
    def law(self) -> NoiseLaw:
        """The law of one share of noise."""
        return LAWS[self.noise](scale=self.scale, shares=self.noise_shares)

    @property
    def event(self) -> Event:
        """What revealing the noisy sum costs; the worst pair of clients are opposite corners of the box."""
        return _event(self.law, self.support, self.levels)

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        total: NDArray[np.int64] = self.lattice.encode(clipped, noise).sum(axis=0)
        return total

    def shares_added(self, reports: int) -> int:
        """How many shares of noise a sum over `reports` clients has."""
        return reports

    def error_deviation(self, reports: int) -> float:
        """Rounding and noise."""
        noise = self.shares_added(reports) * self.law.variance(self.support)
        return math.sqrt(self.lattice.rounding_variance(reports) + noise * (self.lattice.step / reports) ** 2)

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Rounding coins are ½-sub-Gaussian, whatever the input; the noise has its own tail."""
        rounding = self.lattice.rounding_variance(reports) * squared_norms(coefficients)
        return self.law.radius(
            coefficients * (self.lattice.step / reports),
            other_variance + rounding,
            confidence,
            self.shares_added(reports),
        )


@lru_cache(maxsize=256)
def _event(law: NoiseLaw, coordinates: int, shift: int) -> Event:
    """Events remember what they have computed, so equal ones should be one."""
    return law.event(coordinates, shift)
