"""Averages on an integer grid: a value in [−reach, reach] becomes one of 0 … levels, without bias.

Everything that leaves a machine is an integer on this grid, and so is the noise that is added to it:
floating-point noise has holes that tell inputs apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import between, whole
from dpbandits.privacy._limits import LARGEST, SMALLEST
from dpbandits.privacy.noise import NoiseSource

MOST_LEVELS = 2**20


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """`levels` steps over [−reach, reach]."""

    reach: float
    levels: int

    def __post_init__(self) -> None:
        between(SMALLEST, LARGEST, reach=self.reach)
        whole(1, MOST_LEVELS, levels=self.levels)

    @property
    def step(self) -> float:
        """What one level is worth."""
        return 2 * self.reach / self.levels

    def encode(self, clipped: FloatArray, noise: NoiseSource) -> IntArray:
        """Round to one of the two nearest levels at random, so that the mean is kept."""
        scaled = self.position(clipped)
        floor = np.minimum(np.floor(scaled), self.levels - 1)  # the upper end: levels − 1 and a sure coin
        # The difference is exact in floating point, and so in [0, 1].
        return floor.astype(np.int64) + noise.bernoulli(scaled - floor)

    def position(self, value: FloatArray) -> FloatArray:
        """Where a value lies on the grid before it is rounded."""
        scaled: FloatArray = (value + self.reach) * (self.levels / (2 * self.reach))
        return np.clip(scaled, 0, self.levels)

    def decode_mean(self, total: NDArray[Any], reports: int) -> FloatArray:
        """From the sum of `reports` encoded values to their mean."""
        return np.asarray(total * (self.step / reports) - self.reach, dtype=np.float64)

    def rounding_variance(self, reports: int) -> float:
        """Of the mean, at most: a coin has variance ¼ at most."""
        return self.step**2 / (4 * reports)


def enough_levels(*, deviation_per_level: float, reports: int, share: float) -> int:
    """A power of two for which rounding has at most `share` of the variance of the noise.

    `deviation_per_level` is the noise's deviation on the sum in units of the grid, divided by levels.
    """
    needed = math.sqrt(reports / (4 * share)) / deviation_per_level
    return min(MOST_LEVELS, max(16, 1 << math.ceil(math.log2(max(needed, 1)))))
