"""Where noise comes from: an argument, never a global.

What leaves a machine is whole numbers: `SecureNoise` draws them exactly, from the operating system's
generator. `SimulatedNoise` draws the same distributions from a seeded NumPy generator. It is fast and
reproducible, and therefore fit for a simulation only: whoever knows the seed can subtract the noise.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import FloatingPointNoise
from dpbandits.privacy.noise._max_norm_radius import DIGITS, offset_distribution
from dpbandits.privacy.noise._ranges import (
    checked_count,
    checked_cube,
    checked_mean,
    checked_parts,
    checked_probabilities,
    checked_probability,
    checked_rows,
    checked_scale,
    checked_shape,
    checked_trials,
)

BitArray = NDArray[np.uint8]


class NoiseSource(Protocol):
    """What the randomizers, the shuffler and the analyzers may draw. All draws are independent."""

    @property
    def simulated(self) -> bool:
        """True when the draws must not leave a simulation."""
        ...

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """One coin, 0 or 1, for each probability."""
        ...

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """The number of heads among so many coins."""
        ...

    def poisson(self, mean: float, shape: tuple[int, ...]) -> IntArray:
        """Poisson variables, of a mean that is rounded to a multiple of 2⁻³²."""
        ...

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(x) ∝ exp(−x²/(2·scale²)) on the integers."""
        ...

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(x) ∝ exp(−|x|/scale) on the integers."""
        ...

    def polya(self, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(m) ∝ C(m + 1/parts − 1, m)·exp(−m/scale) on 0, 1, 2..

        The sum of `parts` of them minus another such sum is one `discrete_laplace(scale)`.
        """
        ...

    def box_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Rows z of so many coordinates, P(z) ∝ exp(−max|z|/scale)."""
        ...

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Each row in an order of its own, uniform and independent of the others."""
        ...


@final
class SimulatedNoise:
    """NumPy's generator: for simulations and nothing else; no `SecureNoise`."""

    __slots__ = ("_rng",)

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    @property
    def simulated(self) -> Literal[True]:
        """Never to leave a simulation."""
        return True

    def gaussian(self, scale: float, shape: tuple[int, ...]) -> FloatArray:
        """N(0, scale²) variables in floats, which no other source has."""
        return self._rng.normal(scale=scale, size=shape)

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """One coin, 0 or 1, for each probability."""
        wanted = checked_probabilities(probabilities)
        return (self._rng.random(wanted.shape) < wanted).astype(np.int64)

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """The number of heads among so many coins."""
        coins, chance = checked_trials(trials), checked_probability(probability)
        return self._rng.binomial(coins, chance, size=checked_shape(shape))

    def poisson(self, mean: float, shape: tuple[int, ...]) -> IntArray:
        """Poisson variables."""
        return self._rng.poisson(checked_mean(mean), size=checked_shape(shape))

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(x) ∝ exp(−x²/(2·scale²)) on the integers."""
        # From y ~ discrete Laplace of scale t, accepted with exp(−(|y| − σ²/t)²/(2σ²)): the product is
        # exp(−y²/(2σ²)) times a constant, and t near σ accepts most often (Canonne, Kamath, Steinke 2020).
        spread = checked_scale(scale)
        proposal_scale = np.floor(spread) + 1
        result = np.empty(checked_shape(shape), dtype=np.int64)
        flat, filled = result.reshape(-1), 0
        while filled < flat.size:
            proposals = self._laplace(proposal_scale, 3 * (flat.size - filled) // 2 + 16)
            distance = (np.abs(proposals) - spread**2 / proposal_scale) / spread
            accepted = proposals[self._rng.standard_exponential(proposals.size) >= distance**2 / 2]
            accepted = accepted[: flat.size - filled]
            flat[filled : filled + accepted.size] = accepted
            filled += accepted.size
        return result

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(x) ∝ exp(−|x|/scale) on the integers."""
        size = checked_shape(shape)
        return self._laplace(checked_scale(scale), math.prod(size)).reshape(size)

    def _laplace(self, scale: float, count: int) -> IntArray:
        # The floor of an exponential variable is geometric, P(≥ k) = exp(−k/scale), and keeps its low-order
        # bits at large scales. Two geometrics differ by a discrete Laplace.
        geometrics = np.floor(self._rng.exponential(scale, size=(2, count))).astype(np.int64)
        difference: IntArray = geometrics[0] - geometrics[1]
        return difference

    def polya(self, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(m) ∝ C(m + 1/parts − 1, m)·exp(−m/scale) on 0, 1, 2.."""
        return self.polya_sums(1, parts, scale, shape)

    def polya_sums(self, count: int, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Sums of `count` such variables each, for which no other source has a shorter way.

        One has the generating function ((1 − q)/(1 − qz))^(1/parts), q = exp(−1/scale). The sum's is a power
        of it, that of a negative binomial variable with count/parts in the place of 1/parts.
        """
        sharers = checked_parts(parts)
        failure = -np.expm1(-1 / checked_scale(scale, sharers))
        exponent = checked_count(count, sharers) / sharers
        return self._rng.negative_binomial(exponent, failure, size=checked_shape(shape))

    def box_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Rows z of so many coordinates, P(z) ∝ exp(−max|z|/scale)."""
        rows, coordinates = checked_cube(shape)
        cumulative = np.array(offset_distribution(checked_scale(scale), coordinates, DIGITS), dtype=float)
        offsets = np.searchsorted(cumulative, self._rng.random(rows), side="right")
        failure = -np.expm1(-1 / scale)
        radii = (offsets + self._rng.negative_binomial(coordinates + 1, failure, size=rows))[:, None]
        return self._rng.integers(-radii, radii, size=(rows, coordinates), endpoint=True)

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Each row in an order of its own."""
        return self._rng.permuted(checked_rows(bits), axis=1)


def simulated_only(noise: NoiseSource) -> SimulatedNoise:
    """The source itself, if it may draw floats; floating-point noise never leaves a simulation."""
    if not isinstance(noise, SimulatedNoise):
        raise FloatingPointNoise(
            "noise: got gaussian, expected discrete-gaussian: floating-point noise is for simulations only"
        )
    return noise
