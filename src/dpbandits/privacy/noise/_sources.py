"""Noise sources: the interface, and the source for simulations. A source is an argument, never a global.

Only whole numbers leave a machine: `SecureNoise` draws them exactly, from the operating system's generator.
`SimulatedNoise` draws from the same distributions with a seeded NumPy generator. It is fast and reproducible,
so it is suitable for simulations only: anyone who knows the seed can subtract the noise.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.errors import FloatingPointNoise
from dpbandits.privacy.noise import _ranges as ranges
from dpbandits.privacy.noise._max_norm_radius import DIGITS, offset_distribution

BitArray = NDArray[np.uint8]


class NoiseSource(Protocol):
    """The draws that randomizers, the shuffler and the analyzers may request.

    All draws are independent. Arguments are checked by _ranges.py.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> from dpbandits.privacy import NoiseSource
        >>> noise: NoiseSource = dp.SimulatedNoise(np.random.default_rng(1))
        >>> noise.simulated, noise.discrete_laplace(2.0, (3,)).shape
        (True, (3,))
    """

    @property
    def simulated(self) -> bool:
        """True if the draws must not leave a simulation."""

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """Draw one coin, 0 or 1, for each probability.

        Args:
            probabilities: The probability of a one, in any shape.

        Returns:
            An array of the same shape.
        """

    def below(self, bound: int, shape: tuple[int, ...]) -> IntArray:
        """Draw uniform integers in {0 … bound − 1}.

        Args:
            bound: The number of possible values, between 1 and 2⁶².
            shape: The shape of the result.
        """

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """Draw the number of heads among several coins.

        Args:
            trials: The number of coins, at most 2⁴⁰.
            probability: The probability of heads.
            shape: The shape of the result.
        """

    def poisson(self, mean: float, shape: tuple[int, ...]) -> IntArray:
        """Draw Poisson variables.

        Args:
            mean: The mean, at most 2⁴⁰; it is rounded to a multiple of 2⁻³².
            shape: The shape of the result.
        """

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−x²/(2·scale²)) on the integers.

        Args:
            scale: The scale, between 2⁻¹⁰ and 2⁴⁰.
            shape: The shape of the result.
        """

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−|x|/scale) on the integers.

        Args:
            scale: The scale, between 2⁻¹⁰ and 2⁴⁰.
            shape: The shape of the result.
        """

    def polya(self, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(m) ∝ C(m + 1/parts − 1, m)·exp(−m/scale) on 0, 1, 2 …

        The sum of `parts` such draws minus another such sum is one `discrete_laplace(scale)`.

        Args:
            parts: The number of parties that share the noise, at most 2²².
            scale: The scale of the discrete Laplace variable.
            shape: The shape of the result.
        """

    def box_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Draw rows z with P(z) ∝ exp(−max|z|/scale).

        Args:
            scale: The scale, between 2⁻¹⁰ and 2⁴⁰.
            shape: The number of rows and the number of coordinates, at most 2¹¹ of the latter.
        """

    def ball_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Draw rows with density ∝ exp(−‖y‖₂/scale), each number rounded at random without bias.

        Args:
            scale: The scale, between 2⁻¹⁰ and 2⁴⁰.
            shape: The number of rows and the number of coordinates, at most 2¹¹ of the latter.
        """

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Permute each row uniformly and independently of the others.

        Args:
            bits: A matrix of bytes.

        Returns:
            A matrix with the same rows, each in a new order.
        """


@final
class SimulatedNoise:
    """Draws from a NumPy generator, for simulations only. It is not a `SecureNoise`.

    Args:
        rng: The generator.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> noise = dp.SimulatedNoise(np.random.default_rng(1))
        >>> noise.discrete_laplace(2.0, (5,))
        array([-1,  0,  9,  0, -1])
        >>> noise.simulated
        True
    """

    __slots__ = ("_rng",)

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    @property
    def simulated(self) -> Literal[True]:
        """Always true."""
        return True

    @property
    def generator(self) -> np.random.Generator:
        """The generator, for floating-point draws; no other source offers them."""
        return self._rng

    def gaussian(self, scale: float, shape: tuple[int, ...]) -> FloatArray:
        """Draw N(0, scale²) variables as floats; no other source offers floats.

        Args:
            scale: The standard deviation.
            shape: The shape of the result.
        """
        return self._rng.normal(scale=scale, size=shape)

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """Draw one coin, 0 or 1, for each probability."""
        wanted = ranges.checked_probabilities(probabilities)
        return (self._rng.random(wanted.shape) < wanted).astype(np.int64)

    def below(self, bound: int, shape: tuple[int, ...]) -> IntArray:
        """Draw uniform integers in {0 … bound − 1}."""
        return self._rng.integers(ranges.checked_integers(bound), size=ranges.checked_shape(shape))

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """Draw the number of heads among `trials` coins."""
        coins, chance = ranges.checked_trials(trials), ranges.checked_probability(probability)
        return self._rng.binomial(coins, chance, size=ranges.checked_shape(shape))

    def poisson(self, mean: float, shape: tuple[int, ...]) -> IntArray:
        """Draw Poisson variables."""
        return self._rng.poisson(ranges.checked_mean(mean), size=ranges.checked_shape(shape))

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−x²/(2·scale²)) on the integers."""
        # Accept y ~ discrete Laplace of scale t with probability exp(−(|y| − σ²/t)²/(2σ²)). The product is
        # exp(−y²/(2σ²)) times a constant, and t near σ accepts most often (Canonne, Kamath, Steinke 2020).
        spread, size = ranges.checked_scale(scale), ranges.checked_shape(shape)
        proposal_scale = np.floor(spread) + 1
        found = np.empty(0, dtype=np.int64)
        while (missing := math.prod(size) - found.size) > 0:
            proposals = self._laplace(proposal_scale, 3 * missing // 2 + 16)
            distance = (np.abs(proposals) - spread**2 / proposal_scale) / spread
            accepted = proposals[self._rng.standard_exponential(proposals.size) >= distance**2 / 2]
            found = np.concatenate([found, accepted[:missing]])
        return found.reshape(size)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−|x|/scale) on the integers."""
        size = ranges.checked_shape(shape)
        return self._laplace(ranges.checked_scale(scale), math.prod(size)).reshape(size)

    def _laplace(self, scale: float, count: int) -> IntArray:
        # The floor of an exponential variable is geometric, P(≥ k) = exp(−k/scale), and keeps its low-order
        # bits at large scales. The difference of two geometric variables is a discrete Laplace variable.
        geometrics = np.floor(self._rng.exponential(scale, size=(2, count))).astype(np.int64)
        return np.asarray(geometrics[0] - geometrics[1])

    def polya(self, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(m) ∝ C(m + 1/parts − 1, m)·exp(−m/scale) on 0, 1, 2 …"""
        return self.polya_sums(1, parts, scale, shape)

    def polya_sums(self, count: int, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw sums of `count` Pólya variables each, in one step; no other source offers this.

        One variable has the generating function ((1 − q)/(1 − qz))^(1/parts), q = exp(−1/scale). That of the
        sum is a power of it: a negative binomial variable with count/parts in place of 1/parts.

        Args:
            count: How many variables are summed.
            parts: As in `polya`.
            scale: As in `polya`.
            shape: The shape of the result.
        """
        sharers = ranges.checked_parts(parts)
        failure = -np.expm1(-1 / ranges.checked_scale(scale, sharers))
        exponent = ranges.checked_count(count, sharers) / sharers
        return self._rng.negative_binomial(exponent, failure, size=ranges.checked_shape(shape))

    def box_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Draw rows z with P(z) ∝ exp(−max|z|/scale); `shape` is (rows, coordinates)."""
        rows, coordinates = ranges.checked_cube(shape)
        distribution = offset_distribution(ranges.checked_scale(scale), coordinates, DIGITS)
        # Radius = offset + negative binomial (see _max_norm_radius.py); a simulation may round the
        # probabilities.
        offsets = np.searchsorted(np.array(distribution, dtype=float), self._rng.random(rows), side="right")
        failure = -np.expm1(-1 / scale)
        radii = (offsets + self._rng.negative_binomial(coordinates + 1, failure, size=rows))[:, None]
        return self._rng.integers(-radii, radii, size=(rows, coordinates), endpoint=True)

    def ball_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Draw rows with density ∝ exp(−‖y‖₂/scale), rounded at random; `shape` is (rows, coordinates)."""
        rows, coordinates = ranges.checked_cube(shape)
        # See BallNormLaw: normal noise whose variance has a chi-square distribution.
        lengths = ranges.checked_scale(scale) * np.sqrt(self._rng.chisquare(coordinates + 1, size=(rows, 1)))
        points = lengths * self._rng.standard_normal((rows, coordinates))
        return np.floor(points + self._rng.random((rows, coordinates))).astype(np.int64)

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Permute each row uniformly.

        Returns:
            The rows, each in a new order.
        """
        return self._rng.permuted(ranges.checked_rows(bits), axis=1)


def simulated_only(noise: NoiseSource) -> SimulatedNoise:
    """Return the source, or raise an error if it may not draw floats.

    Floating-point noise must not leave a simulation.

    Args:
        noise: A noise source.

    Returns:
        The same source.

    Raises:
        FloatingPointNoise: Unless the source is a `SimulatedNoise`.
    """
    if not isinstance(noise, SimulatedNoise):
        raise FloatingPointNoise(
            "noise: got gaussian, expected discrete-gaussian: floating-point noise is for simulations only"
        )
    return noise
