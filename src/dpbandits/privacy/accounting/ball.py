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

from dpbandits.checks import non_negative, positive, probability, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting.discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_noise_ratio
from dpbandits.privacy.accounting.integer_sum import IntegerSum

SMOOTHING = 2.0


@dataclass(frozen=True, kw_only=True)
class BallSum:
    """A release of `coordinates` sums with `shares` discrete Gaussians of `scale` on each."""

    scale: float
    shares: int
    coordinates: int
    distance: float

    accountant = "rounded Gaussian"
    pure_epsilon = math.inf

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        positive(distance=self.distance)
        whole(1, shares=self.shares)
        whole(1, coordinates=self.coordinates)
        if self.shares * self.scale**2 <= SMOOTHING**2:
            raise InvalidValue("scale", self.scale, f"a total deviation above {SMOOTHING:g} levels")

    @property
    def noise_ratio(self) -> float:
        """Of the continuous noise before it is rounded."""
        return math.sqrt(self.shares * self.scale**2 - SMOOTHING**2) / self.distance

    @property
    def slack(self) -> float:
        """h: by how much the logarithms of the two laws' probabilities differ at most."""
        return self.coordinates * (
            4 * _unevenness(SMOOTHING) + 3 * (self.shares - 1) * _unevenness(self.scale / math.sqrt(2))
        )

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Below: a client that moves along one axis."""
        return self._along_one_axis.delta_bounds(epsilon)[0], self.delta(epsilon)

    @cached_property
    def _along_one_axis(self) -> IntegerSum:
        noise = DiscreteGaussian(scale=self.scale, shares=self.shares)
        return IntegerSum(noise=noise, coordinates=1, shift=max(1, math.floor(self.distance)))

    def delta(self, epsilon: float) -> float:
        """e^h·δ(ε − 2h) of the continuous law."""
        left = non_negative(epsilon=epsilon) - 2 * self.slack
        return 1.0 if left < 0 else min(1.0, math.exp(self.slack) * gaussian_delta(left, self.noise_ratio))

    def epsilon(self, delta: float) -> float:
        """The inverse of δ(ε)."""
        if delta == 0:
            return math.inf
        allowed = probability(delta=delta) * math.exp(-self.slack)
        return gaussian_epsilon(allowed, self.noise_ratio) + 2 * self.slack

    def repeated(self, times: int) -> BallSum:
        """Several releases are one of more coordinates."""
        more = whole(1, times=times)
        return replace(self, coordinates=self.coordinates * more, distance=self.distance * math.sqrt(more))

    def group(self, size: int) -> BallSum:
        """The distance grows with the number of clients."""
        return replace(self, distance=self.distance * whole(1, size=size))


def _unevenness(deviation: float) -> float:
    """By which share a sum of a normal density over the lattice depends on where it is centred, at most.

    Poisson's summation formula gives 2·Σ_j exp(−2π²·deviation²·j²); its terms fall faster than geometrically.
    """
    return 2.1 * math.exp(-2 * (math.pi * deviation) ** 2)


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
