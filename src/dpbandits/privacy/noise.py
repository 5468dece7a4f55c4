"""Where noise comes from: an argument, never a global.

`SimulatedNoise` draws from a seeded NumPy generator. It is fast and reproducible, and therefore fit for
a simulation only: its floating-point outputs leak, and whoever knows the seed can subtract the noise.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BitArray = NDArray[np.uint8]


class NoiseSource(Protocol):
    """What the randomizers, the shuffler and the analyzers may draw."""

    @property
    def simulated(self) -> bool:
        """True when the draws must not leave a simulation."""
        ...

    def gaussian(self, scale: float, shape: tuple[int, ...]) -> FloatArray:
        """Independent N(0, scale²) variables."""
        ...

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """Independent Bin(trials, probability) variables."""
        ...

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """One coin for each probability."""
        ...

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Each row in an order of its own, uniform and independent of the others."""
        ...


class SimulatedNoise:
    """NumPy's generator: for simulations and nothing else."""

    simulated = True

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def gaussian(self, scale: float, shape: tuple[int, ...]) -> FloatArray:
        """Independent N(0, scale²) variables."""
        return self._rng.normal(scale=scale, size=shape)

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """Independent Bin(trials, probability) variables."""
        return self._rng.binomial(trials, probability, size=shape)

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """One coin for each probability."""
        return (self._rng.random(probabilities.shape) < probabilities).astype(np.int64)

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Each row in an order of its own."""
        return self._rng.permuted(bits, axis=1)
