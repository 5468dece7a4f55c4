"""What the trust models share when averages are encoded on a grid and integer noise is added."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import ClassVar

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy import accounting
from dpbandits.privacy._lattice import Lattice
from dpbandits.privacy._limits import MOST_SUM
from dpbandits.privacy._mechanism import Mechanism, Message, Payload
from dpbandits.privacy.noise import LAWS, GaussianLaw, NoiseLaw, NoiseSource, checked_scale
from dpbandits.privacy.tails import Spread, least_whole, squared_norms


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
        if self.shape == "ball" and self.noise != "discrete-gaussian":
            raise InvalidValue("shape", self.shape, f"box, as {self.noise} noise is accounted for there only")
        checked_scale(self.scale)  # here, as a law that is remembered is not built again
        _ = self.lattice, self.law  # both validate their parameters when they are built
        most = max(abs(self.message.low), abs(self.message.high))
        whole(0, MOST_SUM - 1, largest_sum=self.cohort * int(most))

    @cached_property
    def lattice(self) -> Lattice:
        """Each average has its own range, [−bound, bound]."""
        return Lattice(reach=self.bound, levels=self.levels)

    @property
    def unit_of_message(self) -> float:
        """One level."""
        return self.lattice.step

    @property
    def noise_shares(self) -> int:
        """How many shares of noise are in the sum at least."""
        return 1

    @cached_property
    def law(self) -> NoiseLaw:
        """The law of one share of noise."""
        return _law(self.noise, self.scale, self.noise_shares)

    @property
    def event(self) -> accounting.Event:
        """What revealing the noisy sum costs; in a box, opposite corners are the worst pair of clients."""
        if self.shape == "box":
            return _event(self.law, self.coordinates, self.levels)
        return accounting.BallSum(
            scale=self.scale,
            shares=self.noise_shares,
            coordinates=self.coordinates,
            distance=encoded_distance(self.levels, self.coordinates),
            reachable=self.levels,
        )

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        total: IntArray = self.lattice.encode(clipped, noise).sum(axis=0)
        return total

    def shares_added(self, reports: int) -> int:
        """How many shares of noise a sum over `reports` clients has."""
        return reports

    def error_deviation(self, reports: int) -> float:
        """Rounding and noise."""
        noise = self.shares_added(reports) * self.law.variance(self.coordinates)
        return math.sqrt(self.lattice.rounding_variance(reports) + noise * (self.lattice.step / reports) ** 2)

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Rounding coins are ½-sub-Gaussian, whatever the input; the noise has its own tail.

        Reports that clients replace are left out: in the local model each is with probability 10⁻¹² at most,
        and of shares any of a whole cohort's with that of `SummedShares.distance`, a hundredth of δ.
        """
        rounding = self.lattice.rounding_variance(reports) * squared_norms(coefficients)
        return self.law.radius(
            coefficients * (self.lattice.step / reports),
            other_variance + rounding,
            confidence,
            self.shares_added(reports),
        )

    def radius_factors(self, spread: Spread, confidence: float, reports: int) -> tuple[float, float]:
        """Those of the law, for the part of the error that is not rounding."""
        of_error = 1 - self.lattice.rounding_variance(reports) / self.error_deviation(reports) ** 2
        noise = spread.part(max(of_error, 0.0), scale=self.lattice.step / reports)
        return self.law.factors(noise, confidence, self.shares_added(reports), self.coordinates)


def encoded_distance(levels: int, coordinates: int) -> float:
    """How far two points of a ball of diameter `levels` are apart at most, once rounded to the grid.

    Rounding moves each coordinate of either by less than one. Clipping and scaling in floating point move it
    by less than levels·2⁻⁵⁰, and there are at most 2²⁰ levels.
    """
    return (levels + 2 * math.sqrt(coordinates)) * (1 + 2**-30)


def sent_message(levels: int, coordinates: int, shape: str, law: NoiseLaw | None, largest: int) -> Message:
    """Encoded values with noise of at most `largest` on each; in a ball of length scale·√s + `largest`, too.

    Without a law there is no noise: places on the grid, in a ball no farther from its centre than rounding
    takes them. Twice that distance is the ball's diameter.
    """
    square = None
    if shape == "ball":
        length = math.sqrt(coordinates) * law.scale + largest if law is not None else 0.0
        square = math.floor((encoded_distance(levels, coordinates) + 2 * length) ** 2)
    return Message(
        kind="integers",
        shape=(coordinates,),
        low=-largest,
        high=levels + largest,
        twice_centre=levels,
        largest_square=square,
    )


def chance_replaced(law: NoiseLaw, coordinates: int, shape: str, largest: int) -> float:
    """That an honest report falls outside of its `sent_message`, at most; the margin covers rounding."""
    chance = law.exceeded(coordinates, largest)
    if shape == "ball":
        assert isinstance(law, GaussianLaw)  # no other noise is accounted for in a ball
        chance += law.longer(largest)
    return min(1.0, chance * (1 + 1e-9))


@lru_cache(maxsize=1024)
def least_largest(law: NoiseLaw, coordinates: int, shape: str, chance: float) -> int:
    """The least noise to be admitted so that an honest report is replaced with this chance at most."""
    return least_whole(lambda largest: chance_replaced(law, coordinates, shape, largest) <= chance)


@lru_cache(maxsize=1024)
def _law(noise: str, scale: float, shares: int) -> NoiseLaw:
    """Cohorts of nearly the same size have the same."""
    return LAWS[noise](scale=scale, shares=shares)


@lru_cache(maxsize=256)
def _event(law: NoiseLaw, coordinates: int, shift: int) -> accounting.Event:
    """Events remember what they have computed, so equal ones should be one."""
    return law.event(coordinates, shift)
