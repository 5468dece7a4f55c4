"""The discrete Laplace distribution, and Pólya shares that sum to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import accounting
from dpbandits.privacy.noise._law import CumulantLaw
from dpbandits.privacy.noise._ranges import checked_parts, checked_scale
from dpbandits.privacy.noise._sources import NoiseSource, SimulatedNoise


@dataclass(frozen=True, kw_only=True)
class LaplaceLaw(CumulantLaw):
    """The discrete Laplace: pure privacy, for the ℓ1 distance."""

    tail_shape = "each"

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return 2·coordinates·q^(largest + 1), q = e^(−1/scale).

        A Laplace variable is the difference of two variables ≥ 0, and each exceeds `largest` with probability
        q^(largest + 1).
        """
        return 2 * coordinates * math.exp(-(largest + 1) / self.scale)

    @property
    def pole(self) -> float:
        """The argument at which the cumulant becomes infinite."""
        return 1 / self.scale

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent shares."""
        return noise.discrete_laplace(self.scale, (rows, coordinates))

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Return the exact event, per coordinate; it is pure with ε = coordinates·shift/scale."""
        law = accounting.DiscreteLaplace(scale=self.scale)
        return accounting.IntegerSum(noise=law, coordinates=coordinates, shift=shift)

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """Return 2q/(1 − q)² with q = e^(−1/scale).

        At the smallest scales the variance underflows; the result is then a tiny number instead of 0.
        """
        return max((1 / math.sinh(1 / (2 * self.scale))) ** 2 / 2, 1e-300)

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return log E exp(tZ) = log((1 − q)²/((1 − q·e^t)(1 − q·e^(−t)))) for |t| < 1/scale."""
        # The inverse of the quotient is 1 − 2q(cosh t − 1)/(1 − q)² = 1 − (sinh(t/2)/sinh(1/(2·scale)))².
        ratio = np.sinh(argument / 2) / math.sinh(1 / (2 * self.scale))
        return np.asarray(-np.log1p(-np.minimum(ratio**2, 1 - 1e-12)))


@dataclass(frozen=True, kw_only=True)
class PolyaLaw(LaplaceLaw):
    """Differences of Pólya variables; `shares` of them sum to the discrete Laplace.

    A Pólya variable with parameters (1/shares, q) has the generating function ((1 − q)/(1 − qz))^(1/shares).
    """

    law_of_sum = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_scale(self.scale, checked_parts(self.shares))

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw one positive and one negative part per share."""
        shape = (rows, coordinates)
        return noise.polya(self.shares, self.scale, shape) - noise.polya(self.shares, self.scale, shape)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw the sums of all positive and of all negative parts at once, in a simulation only."""
        if not isinstance(noise, SimulatedNoise):
            return super().draw_total(rows, coordinates, noise)
        positive_parts, negative_parts = noise.polya_sums(rows, self.shares, self.scale, (2, coordinates))
        return np.asarray(positive_parts - negative_parts)

    def draws_of_a_total(self, rows: int) -> int:  # noqa: ARG002
        """Return 1: a simulation draws the sum at once."""
        return 1

    def variance(self, coordinates: int) -> float:
        """Return the discrete Laplace's variance divided by the number of shares."""
        return super().variance(coordinates) / self.shares

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return the discrete Laplace's cumulant divided by the number of shares."""
        return super().cumulant(argument) / self.shares
