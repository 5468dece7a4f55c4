"""The Skellam distribution: the difference of two Poisson(scale²/2) variables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import between
from dpbandits.privacy import accounting
from dpbandits.privacy.noise._law import CumulantLaw
from dpbandits.privacy.noise._ranges import LEAST_SCALE, MOST
from dpbandits.privacy.noise._sources import NoiseSource
from dpbandits.privacy.tails import skellam_exceeded


@dataclass(frozen=True, kw_only=True)
class SkellamLaw(CumulantLaw):
    """The difference of two Poisson variables; a sum of shares has the same distribution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(LEAST_SCALE, math.sqrt(2 * MOST), scale=self.scale)  # each Poisson mean is at most 2⁴⁰

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return Chernoff's bound, summed over both signs and all coordinates."""
        return 2 * coordinates * skellam_exceeded(2 * self.mean, largest + 1)

    @property
    def pole(self) -> float:
        """A practical limit. The cumulant is finite everywhere, but larger arguments do not help."""
        return 4.0

    @property
    def mean(self) -> float:
        """The mean of each Poisson variable, rounded to a multiple of 2⁻³² as the samplers do."""
        return max(1, round(self.scale**2 / 2 * 2**32)) / 2**32

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent shares."""
        return self._difference(self.mean, (rows, coordinates), noise)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw the sum at once: Poisson variables sum to a Poisson variable."""
        return self._difference(rows * self.mean, (coordinates,), noise)

    def draws_of_a_total(self, rows: int) -> int:  # noqa: ARG002
        """Return 1: the sum is drawn at once."""
        return 1

    @staticmethod
    def _difference(mean: float, shape: tuple[int, ...], noise: NoiseSource) -> IntArray:
        return noise.poisson(mean, shape) - noise.poisson(mean, shape)

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Return the exact event, per coordinate."""
        law = accounting.Skellam(variance=self.shares * 2 * self.mean)
        return accounting.IntegerSum(noise=law, coordinates=coordinates, shift=shift)

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """Return twice the Poisson mean."""
        return 2 * self.mean

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return 2·mean·(cosh t − 1)."""
        # 4·sinh²(t/2) = 2·(cosh t − 1) does not cancel for small t.
        return np.asarray(4 * self.mean * np.sinh(argument / 2) ** 2)
