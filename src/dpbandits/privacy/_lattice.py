"""The integer grid of reports: a value in [−reach, reach] is rounded without bias to one of 0 … levels.

Everything that leaves a machine is an integer on this grid, and the noise is an integer too. Floating-point
noise would leak: some of its values are reachable from one input and not from another.
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
    """A grid of `levels` equal steps over [−reach, reach].

    Example: `Lattice(reach=1.0, levels=16)` has step 0.125. It encodes 0.3 as 10 with probability 0.6 and as
    11 with probability 0.4.
    """

    reach: float
    levels: int

    def __post_init__(self) -> None:
        between(SMALLEST, LARGEST, reach=self.reach)
        whole(1, MOST_LEVELS, levels=self.levels)

    @property
    def step(self) -> float:
        """The width of one level, in the units of the rewards."""
        return 2 * self.reach / self.levels

    def encode(self, clipped: FloatArray, noise: NoiseSource) -> IntArray:
        """Round each value at random to one of its two nearest levels, without changing its expectation."""
        scaled = self.position(clipped)
        # The value `reach` itself becomes levels − 1, and then 1 is added with probability 1.
        floor = np.minimum(np.floor(scaled), self.levels - 1)
        # The difference is exact in floating point, so it is a probability in [0, 1].
        return floor.astype(np.int64) + noise.bernoulli(scaled - floor)

    def position(self, value: FloatArray) -> FloatArray:
        """Return the position of a value on the grid before it is rounded, in levels."""
        return np.clip((value + self.reach) * (self.levels / (2 * self.reach)), 0, self.levels)

    def decode_mean(self, total: NDArray[Any], reports: int) -> FloatArray:
        """Return the mean of `reports` values, given the sum of their codes."""
        return np.asarray(total * (self.step / reports) - self.reach, dtype=np.float64)

    def rounding_variance(self, reports: int) -> float:
        """Return an upper bound on the variance that rounding adds to a mean: ¼ level² per report."""
        return self.step**2 / (4 * reports)


def enough_levels(*, deviation_per_level: float, reports: int, share: float) -> int:
    """Return a power of two of levels, such that rounding has at most `share` of the variance of the noise.

    Args:
        deviation_per_level: The standard deviation of the noise on the sum, in levels, divided by the number
            of levels.
        reports: The number of rounded values in the sum.
        share: The upper bound on the ratio of the variances.

    Returns:
        At least 16, and at most `MOST_LEVELS` even if `share` needs more.
    """
    needed = math.sqrt(reports / (4 * share)) / deviation_per_level
    return min(MOST_LEVELS, max(16, 1 << math.ceil(math.log2(max(needed, 1)))))
