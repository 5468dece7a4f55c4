"""`NoisyLattice`, the base class of the mechanisms that encode averages on a grid and add integer noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy import accounting
from dpbandits.privacy._lattice import Lattice
from dpbandits.privacy._limits import MOST_SUM
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy.noise import (
    LAWS,
    BallNormLaw,
    CumulantLaw,
    GaussianLaw,
    NoiseLaw,
    NoiseSource,
    checked_scale,
)
from dpbandits.privacy.tails import Spread, SummedErrors, least_whole, squared_norms

_MOST_DRAWN = 24_000_000  # variables that `noise_draws` draws; this takes about a second


@dataclass(frozen=True, kw_only=True)
class NoisyLattice(Mechanism):
    """Encoded averages plus integer noise. A subclass defines who adds the noise, and how many shares of it.

    Attributes:
        levels: The number of levels of the grid.
        noise: The name of the noise distribution.
        scale: The scale of one share of noise, in levels.
    """

    coordinates: int
    cohort: int
    bound: float
    levels: int
    noise: str
    scale: float

    laws: ClassVar[tuple[str, ...]] = ("discrete-gaussian", "laplace", "k-norm")
    """The noise distributions that the mechanism accepts. These are for noise that one party adds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.laws, noise=self.noise)
        checked_scale(self.scale)  # checked here because _law returns cached objects, which check nothing
        if self.shape == "ball" and not isinstance(self.law, GaussianLaw | BallNormLaw):
            raise InvalidValue("shape", self.shape, f"box: {self.noise} noise is not accounted for in a ball")
        _ = self.lattice, self.law  # both validate their parameters when they are built
        most = max(abs(self.message.low), abs(self.message.high))
        whole(0, MOST_SUM - 1, largest_sum=self.cohort * int(most))

    @cached_property
    def lattice(self) -> Lattice:
        """The grid over [−bound, bound], the range of each average."""
        return Lattice(reach=self.bound, levels=self.levels)

    @property
    def unit_of_message(self) -> float:
        """One level."""
        return self.lattice.step

    @property
    def noise_shares(self) -> int:
        """The least number of shares of noise in the sum."""
        return 1

    @cached_property
    def law(self) -> NoiseLaw:
        """The distribution of one share of noise."""
        return _law(self.noise, self.scale, self.noise_shares)

    @property
    def event(self) -> accounting.Event:
        """The privacy cost of revealing the noisy sum.

        In a box the worst case is a client that moves from one corner to the opposite corner.
        """
        if self.shape == "box":
            return _event(self.law, self.coordinates, self.levels)
        distance = encoded_distance(self.levels, self.coordinates)
        if isinstance(self.law, BallNormLaw):
            return self.law.ball_event(distance)
        return accounting.BallSum(
            scale=self.scale,
            shares=self.noise_shares,
            coordinates=self.coordinates,
            distance=distance,
            reachable=self.levels,
        )

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return np.asarray(self.lattice.encode(clipped, noise).sum(axis=0))

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        added = self.law.draw_total(self.shares_added(reports), self.coordinates, noise)
        return self.lattice.decode_mean(total + added, reports)

    def shares_added(self, reports: int) -> int:
        """Return the number of shares of noise in a sum.

        Args:
            reports: The number of reports in the sum.
        """
        return reports

    def error_deviation(self, reports: int) -> float:
        """Return the standard deviation of rounding and noise together."""
        noise = self.shares_added(reports) * self.law.variance(self.coordinates)
        return math.sqrt(self.lattice.rounding_variance(reports) + noise * (self.lattice.step / reports) ** 2)

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Return the radii of `Mechanism.error_radius`, from the exact tail of the noise distribution.

        The rounding error of each value is ½-sub-Gaussian in levels, for any input.

        Reports that clients replace by the centre of the grid are ignored. In the local model each report is
        replaced with probability at most 10⁻¹². In the shuffle model the probability that any report of a
        cohort is replaced is at most `SummedShares.distance`, which is at most a hundredth of δ.
        """
        scaled, shares = coefficients * (self.lattice.step / reports), self.shares_added(reports)
        rounding = self.lattice.rounding_variance(reports) * squared_norms(coefficients)
        return self.law.radius(scaled, other_variance + rounding, confidence, shares)

    def noise_draws(self, count: int, reports: int, noise: NoiseSource) -> FloatArray | None:
        """Draw the noise of whole releases; None if drawing a thousand of them takes longer than a second."""
        shares = self.shares_added(reports)
        each = self.law.draws_of_a_total(shares) * self.coordinates
        if each > _MOST_DRAWN // 1000:
            return None
        drawn = self.law.draw_totals(min(count, _MOST_DRAWN // each), shares, self.coordinates, noise)
        return np.asarray(drawn * (self.lattice.step / reports), dtype=np.float64)

    def rounding_proxy(self, reports: int) -> float:
        """Return the variance proxy of the error of rounding."""
        return self.lattice.rounding_variance(reports)

    @property
    def sub_gaussian(self) -> bool:
        """Whether the noise is sub-Gaussian; the error of rounding always is."""
        return isinstance(self.law, GaussianLaw)

    def summed_errors(self, reports: int) -> SummedErrors | None:
        """Return the shares of noise, if their cumulant is known."""
        if not isinstance(self.law, CumulantLaw):
            return None
        return SummedErrors(
            law=self.law,
            count=self.shares_added(reports),
            unit=self.lattice.step / reports,
            other_variance=self.lattice.rounding_variance(reports),
        )

    def radius_factors(self, spread: Spread, confidence: float, reports: int) -> tuple[float, float]:
        """Return the bounds of `Mechanism.radius_factors`, from the noise distribution."""
        of_error = 1 - self.lattice.rounding_variance(reports) / self.error_deviation(reports) ** 2
        noise = spread.part(max(of_error, 0.0), scale=self.lattice.step / reports)
        return self.law.factors(noise, confidence, self.shares_added(reports), self.coordinates)


def encoded_distance(levels: int, coordinates: int) -> float:
    """Return an upper bound on the distance of two rounded points of a ball of diameter `levels`.

    Rounding moves each coordinate of either point by less than one level. Clipping and scaling in floating
    point move it by less than levels·2⁻⁵⁰, and there are at most 2²⁰ levels.
    """
    return (levels + 2 * math.sqrt(coordinates)) * (1 + 2**-30)


def sent_message(levels: int, coordinates: int, shape: str, law: NoiseLaw | None, largest: int) -> Message:
    """Return the format of reports: encoded values, each with noise of at most `largest` levels.

    In a ball of s coordinates, the ℓ2 norm of the noise is also at most scale·√s + `largest`. If clients add
    no noise (`law` is None), twice the distance of a report from the centre of the ball is at most
    `encoded_distance`.
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
    """Return an upper bound on the probability that an honest report is outside its `sent_message`.

    The factor 1 + 10⁻⁹ covers floating-point rounding.
    """
    chance = law.exceeded(coordinates, largest)
    if shape == "ball":
        assert isinstance(law, GaussianLaw)  # clients in a ball add no other noise
        chance += law.longer(largest)
    return min(1.0, chance * (1 + 1e-9))


@lru_cache(maxsize=1024)
def least_largest(law: NoiseLaw, coordinates: int, shape: str, chance: float) -> int:
    """Return the least `largest` for which an honest report is replaced with probability at most `chance`."""
    return least_whole(lambda largest: chance_replaced(law, coordinates, shape, largest) <= chance)


@lru_cache(maxsize=1024)
def _law(noise: str, scale: float, shares: int) -> NoiseLaw:
    """Return the distribution, cached: cohorts of similar size have the same one."""
    return LAWS[noise](scale=scale, shares=shares)


@lru_cache(maxsize=256)
def _event(law: NoiseLaw, coordinates: int, shift: int) -> accounting.Event:
    """Return the event, cached: an event stores what it has computed, so equal events should be shared."""
    return law.event(coordinates, shift)
