"""The discrete Gaussian distribution: P(z) ∝ exp(−z²/(2·scale²))."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import accounting, tails
from dpbandits.privacy.noise._law import NoiseLaw
from dpbandits.privacy.noise._sources import NoiseSource
from dpbandits.privacy.tails import Spread

_NARROW = 1.5  # the least scale at which a sum of shares counts as a discrete Gaussian


@dataclass(frozen=True, kw_only=True)
class GaussianLaw(NoiseLaw):
    """The discrete Gaussian: sub-Gaussian with proxy scale² (Canonne, Kamath and Steinke 2020)."""

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent shares."""
        return noise.discrete_gaussian(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return Chernoff's bound, summed over both signs and all coordinates."""
        return 2 * coordinates * tails.gaussian_exceeded(self.scale, largest + 1)

    def longer(self, largest: int) -> float:
        """Return a bound on the probability that the ℓ2 norm of a share exceeds scale·√s + `largest`.

        Args:
            largest: The limit; s is the number of coordinates.
        """
        return tails.gaussian_exceeded(self.scale, largest)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw a discrete Gaussian of the summed variance.

        The sum of shares differs from it by about exp(−π²·scale²) of the probability, which is below 10⁻⁹ for
        scale ≥ 1.5. Narrower shares are summed one by one.
        """
        if self.scale < _NARROW:
            return super().draw_total(rows, coordinates, noise)
        return noise.discrete_gaussian(self.scale * math.sqrt(rows), (coordinates,))

    def draws_of_a_total(self, rows: int) -> int:
        """Return 1, unless shares are summed one by one."""
        return rows if self.scale < _NARROW else 1

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Return the exact event, per coordinate."""
        law = accounting.DiscreteGaussian(scale=self.scale, shares=self.shares)
        return accounting.IntegerSum(noise=law, coordinates=coordinates, shift=shift)

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """Return scale², an upper bound."""
        return self.scale**2

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return Chernoff's bound."""
        own = rows * self.scale**2 * tails.squared_norms(coefficients)
        return tails.sub_gaussian_radius(other_variance + own, confidence)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:  # noqa: ARG002
        """Return the same factor twice: the radius is a fixed multiple of the total standard deviation."""
        return (tails.sub_gaussian_factor(confidence),) * 2
