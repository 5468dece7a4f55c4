"""Discrete Gaussian noise for clients that lie in a ball: only the ℓ2 distance counts.

Let one client move an integer vector by at most `distance` in ℓ2. Continuous Gaussian noise that is then
rounded to the lattice, by whatever rule, is as private as before it was rounded. Rounded at random by a
discrete Gaussian of deviation `SMOOTHING`, it is, up to a factor e^h at every point, the discrete Gaussian of
the sum of the two variances. So that law is (ε, e^h·δ(ε − 2h))-private, δ the continuous law's, with h below
10⁻³³ a coordinate. A sum of shares is discrete Gaussian up to such a factor too (docs/accounting-proofs.md,
section 12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from dpbandits._checks import non_negative, positive, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._gaussian import gaussian_noise_ratio
from dpbandits.privacy.accounting._integer_sum import IntegerSum
from dpbandits.privacy.accounting._wide_gaussian import (
    SMOOTHING,
    rounded_delta,
    rounded_epsilon,
    rounding_slack,
    smoothed_ratio,
)

_MOST_TIMES = 10**9


@dataclass(frozen=True, kw_only=True)
class BallSum:
    """A release of `coordinates` sums with `shares` discrete Gaussians of `scale` on each.

    No two clients differ by more than `distance` in ℓ2, all `releases` taken together. Some two differ by
    `reachable` along one axis, in each of the releases: the lower bound is theirs. If it is not given, it is
    what remains of the distance when rounding may have moved either client by one level in every coordinate.
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
        if not SMOOTHING**2 < self._noise.variance < math.inf:
            raise InvalidValue("scale", self.scale, f"a finite total deviation above {SMOOTHING:g} levels")
        if self.reachable is not None:
            most = math.floor(self.distance / math.sqrt(self.releases) * (1 + 1e-9))
            whole(0, most, reachable=self.reachable)

    @property
    def _noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(scale=self.scale, shares=self.shares)

    @property
    def noise_ratio(self) -> float:
        """Of the continuous noise before it is rounded."""
        return smoothed_ratio(self._noise.variance, self.distance)

    @property
    def slack(self) -> float:
        """h: by how much the logarithms of the two laws' probabilities differ at most."""
        return rounding_slack(self._noise, self.coordinates)

    @property
    def along_one_axis(self) -> int:
        """By how much two clients can differ in one coordinate of a release, at least."""
        if self.reachable is not None:
            return self.reachable
        moved = self.distance - 2 * math.sqrt(self.coordinates)
        return max(0, math.floor(moved / math.sqrt(self.releases)))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Below: two clients that differ along one axis."""
        upper = self.delta(epsilon)
        lower = 0.0 if self.axis is None else self.axis.delta_bounds(epsilon)[0]
        return min(lower, upper), upper

    @cached_property
    def axis(self) -> IntegerSum | None:
        """The release as two clients see it that differ along one axis."""
        if self.along_one_axis == 0:
            return None
        return IntegerSum(noise=self._noise, coordinates=self.releases, shift=self.along_one_axis)

    def delta(self, epsilon: float) -> float:
        """e^h·δ(ε − 2h) of the continuous law."""
        return rounded_delta(non_negative(epsilon=epsilon), self.noise_ratio, self.slack)

    def epsilon(self, delta: float) -> float:
        """The inverse of δ(ε)."""
        return math.inf if delta == 0 else rounded_epsilon(delta, self.noise_ratio, self.slack)

    def repeated(self, times: int) -> BallSum:
        """Several releases are one of more coordinates."""
        more = whole(1, _MOST_TIMES, times=times)
        if more == 1:
            return self
        return replace(
            self,
            coordinates=self.coordinates * more,
            distance=self.distance * math.sqrt(more),
            reachable=self.along_one_axis,
            releases=self.releases * more,
        )

    def group(self, size: int) -> BallSum:
        """The distance grows with the number of clients."""
        more = whole(1, _MOST_TIMES, size=size)
        if more == 1:
            return self
        return replace(self, distance=self.distance * more, reachable=self.along_one_axis * more)


def least_ball_scale(
    epsilon: float, delta: float, coordinates: int, distance: float, shares: int = 1
) -> float:
    """The scale of one share for which (ε, δ) is proved; no less will do but for parts in a million."""
    # ε and δ less what the factors of e^h take; h is far below these margins on any grid that is used.
    ratio = gaussian_noise_ratio(epsilon * (1 - 1e-7), delta * (1 - 1e-7))
    scale = math.sqrt(((ratio * distance) ** 2 + SMOOTHING**2) / shares)
    event = BallSum(scale=scale, shares=shares, coordinates=coordinates, distance=distance)
    if event.delta(epsilon) > delta:
        raise InvalidValue("scale", scale, "a finer grid: a share of noise must be above two levels")
    return scale
