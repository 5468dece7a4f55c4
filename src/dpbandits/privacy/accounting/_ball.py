"""Discrete Gaussian noise on vectors clipped to an ℓ2 ball: only the ℓ2 distance matters.

Let one client change an integer vector by at most `distance` in ℓ2. Continuous Gaussian noise that is then
rounded to the lattice, by any rule, is as private as before rounding. If the rounding itself is a discrete
Gaussian of deviation `SMOOTHING`, the result is the discrete Gaussian of the sum of both variances, up to a
factor e^h at every point. So that discrete Gaussian is (ε, e^h·δ(ε − 2h))-private, where δ is the continuous
Gaussian's, and h is below 10⁻³³ per coordinate. A sum of shares is a discrete Gaussian up to a similar factor
(docs/accounting-proofs.md, section 12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from dpbandits._checks import non_negative, positive, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import _wide_gaussian as wide_gaussian
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._gaussian import gaussian_noise_ratio
from dpbandits.privacy.accounting._integer_sum import IntegerSum

_MOST_TIMES = 10**9


@dataclass(frozen=True, kw_only=True)
class BallSum:
    """A release of several integer sums with discrete Gaussian noise, for clients in an ℓ2 ball.

    Attributes:
        scale: The scale of one share of noise, in levels.
        shares: The number of shares on each coordinate.
        coordinates: The number of sums, over all releases.
        distance: The largest ℓ2 distance between two clients, over all releases together.
        reachable: A distance along one axis, in each release, that some pair of clients attains. The lower
            bound is for such a pair. If None, it is the distance that remains when rounding moves either
            client by one level in every coordinate.
        releases: The number of releases.

    Raises:
        InvalidValue: If a value is out of range, or if the total deviation is at most `SMOOTHING` levels.
    """

    scale: float
    shares: int
    coordinates: int
    distance: float
    reachable: int | None = None
    releases: int = 1

    accountant = "rounded Gaussian"
    pure_epsilon = math.inf

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        positive(distance=self.distance)
        whole(1, 10**8, shares=self.shares)
        whole(1, coordinates=self.coordinates)
        whole(1, self.coordinates, releases=self.releases)
        if not wide_gaussian.SMOOTHING**2 < self._noise.variance < math.inf:
            expected = f"a finite total deviation above {wide_gaussian.SMOOTHING:g} levels"
            raise InvalidValue("scale", self.scale, expected)
        if self.reachable is not None:
            # In m releases, a distance of `reachable` in each is √m times that in total.
            most = math.floor(self.distance / math.sqrt(self.releases) * (1 + 1e-9))
            whole(0, most, reachable=self.reachable)

    @property
    def _noise(self) -> DiscreteGaussian:
        """The noise on one coordinate."""
        return DiscreteGaussian(scale=self.scale, shares=self.shares)

    @property
    def noise_ratio(self) -> float:
        """The noise ratio of the continuous Gaussian before rounding."""
        return wide_gaussian.smoothed_ratio(self._noise.variance, self.distance)

    @property
    def slack(self) -> float:
        """h: a bound on the difference between the log-probabilities of the two distributions."""
        return wide_gaussian.rounding_slack(self._noise, self.coordinates)

    @property
    def along_one_axis(self) -> int:
        """A distance in one coordinate of a release that some pair of clients attains."""
        if self.reachable is not None:
            return self.reachable
        # Rounding moves a point by less than one level per coordinate, that is by √s in ℓ2, at both ends.
        moved = self.distance - 2 * math.sqrt(self.coordinates)
        return max(0, math.floor(moved / math.sqrt(self.releases)))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return the lower bound for two clients that differ along one axis, and the upper bound."""
        upper = self.delta(epsilon)
        lower = 0.0 if self.axis is None else self.axis.delta_bounds(epsilon)[0]
        return min(lower, upper), upper

    @cached_property
    def axis(self) -> IntegerSum | None:
        """The release restricted to two clients that differ along one axis, or None if there are none."""
        if self.along_one_axis == 0:
            return None
        return IntegerSum(noise=self._noise, coordinates=self.releases, shift=self.along_one_axis)

    def delta(self, epsilon: float) -> float:
        """Return e^h·δ(ε − 2h), where δ is that of the continuous Gaussian."""
        return wide_gaussian.rounded_delta(non_negative(epsilon=epsilon), self.noise_ratio, self.slack)

    def epsilon(self, delta: float) -> float:
        """Return the inverse of `delta`."""
        return math.inf if delta == 0 else wide_gaussian.rounded_epsilon(delta, self.noise_ratio, self.slack)

    def repeated(self, times: int) -> BallSum:
        """Return the repeated event: several releases are one release with more coordinates."""
        more = whole(1, _MOST_TIMES, times=times)
        if more == 1:
            return self
        # Squared ℓ2 distances add up over releases, so the distance grows with √m.
        return replace(
            self,
            coordinates=self.coordinates * more,
            distance=self.distance * math.sqrt(more),
            reachable=self.along_one_axis,
            releases=self.releases * more,
        )

    def group(self, size: int) -> BallSum:
        """Return the event for a group; the distance grows in proportion to the number of clients."""
        more = whole(1, _MOST_TIMES, size=size)
        if more == 1:
            return self
        return replace(self, distance=self.distance * more, reachable=self.along_one_axis * more)


def least_ball_scale(
    epsilon: float, delta: float, coordinates: int, distance: float, shares: int = 1
) -> float:
    """Return the least scale of one share of noise for which (ε, δ) is proved.

    Args:
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        coordinates: The number of sums that are released.
        distance: The largest ℓ2 distance between two clients, in levels.
        shares: The number of independent shares of noise.

    Returns:
        The scale, at most a few millionths too large.

    Raises:
        InvalidValue: If an argument is out of range, or if the grid is so coarse that the noise is narrower
            than rounding needs.
    """
    # Reduce ε and δ by what the factors e^h cost; on every grid in use h is far smaller than these margins.
    ratio = gaussian_noise_ratio(epsilon * (1 - 1e-7), delta * (1 - 1e-7))
    # The continuous Gaussian needs variance (ratio·distance)²; rounding adds SMOOTHING², and the shares
    # divide the sum.
    scale = math.sqrt(((ratio * distance) ** 2 + wide_gaussian.SMOOTHING**2) / shares)
    event = BallSum(scale=scale, shares=shares, coordinates=coordinates, distance=distance)
    if event.delta(epsilon) > delta:
        raise InvalidValue("scale", scale, "a scale above two levels; use a finer grid")
    return scale
