"""Integer noise laws as a mechanism needs them: how to draw them, what they cost, how far they reach.

Noise is added to encoded values, a row of coordinates at a time. It comes in `shares`: a law says what
one share is, and what it costs to reveal a sum in which so many shares are.

    discrete-gaussian   P(z) ∝ exp(−z²/(2·scale²))               sub-Gaussian with proxy scale²
    skellam             the difference of two Poisson(scale²/2)   variance scale²
    laplace             P(z) ∝ exp(−|z|/scale)                   pure
    polya               shares of which `shares` sum to laplace   pure
    k-norm              P(z) ∝ exp(−‖z‖∞/scale) on Z^s           pure, jointly over the coordinates
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import between, whole
from dpbandits.privacy import accounting
from dpbandits.privacy._limits import MOST_CLIENTS
from dpbandits.privacy.noise._max_norm_radius import radius_exceeded
from dpbandits.privacy.noise._ranges import LEAST_SCALE, MOST, checked_parts, checked_scale
from dpbandits.privacy.noise._sources import NoiseSource, SimulatedNoise
from dpbandits.privacy.tails import (
    FEW_COORDINATES,
    SHORTEST,
    Spread,
    chernoff_factor,
    chernoff_radius,
    gaussian_exceeded,
    mixture_radius,
    shortened_radius,
    skellam_exceeded,
    squared_norms,
    sub_gaussian_factor,
    sub_gaussian_radius,
)


@dataclass(frozen=True, kw_only=True)
class NoiseLaw(ABC):
    """One share of noise, of `shares` that are in the sum at least."""

    scale: float
    shares: int = 1

    def __post_init__(self) -> None:
        checked_scale(self.scale)
        whole(1, MOST_CLIENTS, shares=self.shares)

    @abstractmethod
    def exceeded(self, coordinates: int, largest: int) -> float:
        """The chance, at most, that any coordinate of one share is above `largest` in size."""

    @abstractmethod
    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """A row of noise for each of `rows` shares."""

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """The sum of `rows` shares, by a shorter way where there is one."""
        total: IntArray = self.draw(rows, coordinates, noise).sum(axis=0)
        return total

    @abstractmethod
    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """What it costs to reveal a sum that a client can move by `shift` in each coordinate."""

    @abstractmethod
    def variance(self, coordinates: int) -> float:
        """Of one coordinate of one share, at most."""

    @abstractmethod
    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """What ⟨a, sum of `rows` shares⟩ + G exceeds with probability at most `confidence`."""

    @abstractmethod
    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """What `radius` is at least and at most, as multiples of the root of all variance there is."""


@dataclass(frozen=True, kw_only=True)
class GaussianLaw(NoiseLaw):
    """The discrete Gaussian: sub-Gaussian with proxy scale² (Canonne, Kamath and Steinke 2020)."""

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Independent draws."""
        return noise.discrete_gaussian(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Chernoff's bound, for both directions of each."""
        return 2 * coordinates * gaussian_exceeded(self.scale, largest + 1)

    def longer(self, largest: int) -> float:
        """The chance, at most, that a share of s coordinates is longer than scale·√s + `largest` in ℓ2."""
        return gaussian_exceeded(self.scale, largest)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Discrete Gaussian again, but for about exp(−π²·scale²) of the mass, which is below 10⁻⁹ here."""
        if self.scale < 1.5:
            return super().draw_total(rows, coordinates, noise)
        return noise.discrete_gaussian(self.scale * math.sqrt(rows), (coordinates,))

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Exact, coordinate by coordinate."""
        law = accounting.DiscreteGaussian(scale=self.scale, shares=self.shares)
        return accounting.IntegerSum(noise=law, coordinates=coordinates, shift=shift)

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """At most scale²."""
        return self.scale**2

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Chernoff's bound."""
        own = rows * self.scale**2 * squared_norms(coefficients)
        return sub_gaussian_radius(other_variance + own, confidence)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:  # noqa: ARG002
        """One and the same."""
        return (sub_gaussian_factor(confidence),) * 2


class CumulantLaw(NoiseLaw):
    """A law whose moment generating function is known: its tail is Chernoff's bound."""

    @property
    @abstractmethod
    def pole(self) -> float:
        """The cumulant is used for arguments below this only."""

    @abstractmethod
    def cumulant(self, argument: FloatArray) -> FloatArray:
        """log E exp(argument·Z) for one share Z."""

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Chernoff's bound with the exact moment generating function."""
        return chernoff_radius(
            coefficients,
            other_variance,
            confidence,
            cumulant=lambda argument: rows * self.cumulant(argument),
            pole=self.pole,
            error_variance=rows * self.variance(coefficients.shape[1]),
        )

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:  # noqa: ARG002
        """No tail is lighter than a normal one's, for no cumulant here is below that of its variance."""
        variance = self.variance(coordinates)
        highest = chernoff_factor(
            confidence,
            cumulant=lambda argument: self.cumulant(argument) / variance,
            pole=self.pole,
            largest=spread.largest,
        )
        return sub_gaussian_factor(confidence), highest


@dataclass(frozen=True, kw_only=True)
class SkellamLaw(CumulantLaw):
    """The difference of two Poisson variables: shares add up to the same law."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(LEAST_SCALE, math.sqrt(2 * MOST), scale=self.scale)  # either mean is at most 2⁴⁰

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Chernoff's bound, for both directions of each."""
        return 2 * coordinates * skellam_exceeded(2 * self.mean, largest + 1)

    @property
    def pole(self) -> float:
        """The cumulant is finite everywhere; beyond this it is of no use."""
        return 4.0

    @property
    def mean(self) -> float:
        """Of either Poisson variable; a multiple of 2⁻³², as the samplers draw it."""
        return max(1, round(self.scale**2 / 2 * 2**32)) / 2**32

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Independent draws."""
        return self._difference(self.mean, (rows, coordinates), noise)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Poisson variables add up to a Poisson variable."""
        return self._difference(rows * self.mean, (coordinates,), noise)

    @staticmethod
    def _difference(mean: float, shape: tuple[int, ...], noise: NoiseSource) -> IntArray:
        return noise.poisson(mean, shape) - noise.poisson(mean, shape)

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Exact, coordinate by coordinate."""
        law = accounting.Skellam(variance=self.shares * 2 * self.mean)
        return accounting.IntegerSum(noise=law, coordinates=coordinates, shift=shift)

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """Twice the mean."""
        return 2 * self.mean

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """2·mean·(cosh t − 1)."""
        cumulant: FloatArray = 4 * self.mean * np.sinh(argument / 2) ** 2
        return cumulant


@dataclass(frozen=True, kw_only=True)
class LaplaceLaw(CumulantLaw):
    """The discrete Laplace: pure privacy, for the ℓ1 distance."""

    def exceeded(self, coordinates: int, largest: int) -> float:
        """It is the difference of two variables ≥ 0, each above `largest` with chance q^(largest + 1)."""
        return 2 * coordinates * math.exp(-(largest + 1) / self.scale)

    @property
    def pole(self) -> float:
        """Where the cumulant becomes infinite."""
        return 1 / self.scale

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Independent draws."""
        return noise.discrete_laplace(self.scale, (rows, coordinates))

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Exact, coordinate by coordinate; ε = coordinates·shift/scale is pure."""
        return accounting.IntegerSum(
            noise=accounting.DiscreteLaplace(scale=self.scale), coordinates=coordinates, shift=shift
        )

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """2q/(1 − q)² with q = e^(−1/scale); never 0, which it would be to floats at the least scales."""
        return max((1 / math.sinh(1 / (2 * self.scale))) ** 2 / 2, 1e-300)

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """log E exp(tZ) = log((1 − q)²/((1 − q·e^t)(1 − q·e^(−t)))) for |t| < 1/scale."""
        # The quotient inverted is 1 − 2q(cosh t − 1)/(1 − q)² = 1 − (sinh(t/2)/sinh(1/(2·scale)))².
        ratio = np.sinh(argument / 2) / math.sinh(1 / (2 * self.scale))
        cumulant: FloatArray = -np.log1p(-np.minimum(ratio**2, 1 - 1e-12))
        return cumulant


@dataclass(frozen=True, kw_only=True)
class PolyaLaw(LaplaceLaw):
    """Differences of Pólya variables, `shares` of which sum to the discrete Laplace.

    A Pólya variable with parameters (1/shares, q) has the generating function ((1 − q)/(1 − qz))^(1/shares).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_scale(self.scale, checked_parts(self.shares))

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """One positive and one negative part."""
        shape = (rows, coordinates)
        return noise.polya(self.shares, self.scale, shape) - noise.polya(self.shares, self.scale, shape)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """A simulation draws the sum of all positive and of all negative parts at once."""
        if not isinstance(noise, SimulatedNoise):
            return super().draw_total(rows, coordinates, noise)
        positive_parts, negative_parts = noise.polya_sums(rows, self.shares, self.scale, (2, coordinates))
        difference: IntArray = positive_parts - negative_parts
        return difference

    def variance(self, coordinates: int) -> float:
        """An equal part of the discrete Laplace's."""
        return super().variance(coordinates) / self.shares

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """An equal part of the discrete Laplace's."""
        return super().cumulant(argument) / self.shares


@dataclass(frozen=True, kw_only=True)
class BoxNormLaw(NoiseLaw):
    """The K-norm mechanism of the box on the lattice: pure privacy, for the ℓ∞ distance.

    z has P(z) ∝ q^‖z‖∞, q = e^(−1/scale). As q^r = Σ_(m ≥ r) (1 − q)q^m, z is uniform on {−m … m}^s given a
    radius m of weight ∝ q^m(2m + 1)^s. Moving z by at most g in every coordinate changes log P by at
    most g/scale.
    """

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Independent rows."""
        return noise.box_norm(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """By the law that `radius_quantile` bounds the radius with."""
        return radius_exceeded(self.scale, coordinates, largest) * (1 + 1e-9)

    def event(self, coordinates: int, shift: int) -> accounting.Event:  # noqa: ARG002
        """ε = shift/scale, whatever the number of coordinates."""
        return accounting.PureEvent.ratio(shift, self.scale)

    def variance(self, coordinates: int) -> float:
        """E m(m + 1)/3 with the radius m replaced by one that is never smaller."""
        return self._moments(coordinates, shift=coordinates)[0] / 3

    def _moments(self, coordinates: int, shift: int) -> tuple[float, float]:
        """The mean of Y and of Y², Y = m(m + 1), m = `shift` + a negative binomial of s + 1 successes."""
        # A negative binomial is a Poisson variable with a gamma mean, so E N(N − 1)⋯(N − j + 1) is
        # (q/(1 − q))^j·(s + 1)⋯(s + j); Stirling's numbers turn these into powers.
        odds = (1 - self._stop) / self._stop
        falling = [math.prod((coordinates + i) * odds for i in range(1, j + 1)) for j in range(5)]
        stirling = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 3, 1, 0], [0, 1, 7, 6, 1]]
        powers = np.array(stirling) @ np.array(falling)
        product = np.convolve([shift, 1], [shift + 1, 1])
        return float(product @ powers[:3]), float(np.convolve(product, product) @ powers)

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Given the radii, uniform noise is sub-Gaussian with its variance; of few coordinates, lighter."""
        coordinates, norms = coefficients.shape[1], squared_norms(coefficients)
        if rows == 1:
            chances, radii = self._radius_steps(coordinates, confidence / 1e3)
            variances = other_variance[:, None] + norms[:, None] * (radii * (radii + 1) / 3)
            found = mixture_radius(variances, chances, confidence)
            if coordinates > FEW_COORDINATES:
                return found
            return shortened_radius(found, coefficients, variances, (chances, radii), confidence)
        own = self.variance_quantile(coordinates, rows, confidence / 2)  # half of β pays for the radii
        return sub_gaussian_radius(other_variance + own * norms, confidence / 2)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """The radius increases in every part's variance, and those are linear in the error's share of V."""
        shares = np.array([[spread.least], [spread.most]])
        if rows == 1:
            chances, radii = self._radius_steps(coordinates, confidence / 1e3)
            parts = 1 + shares * (radii * (radii + 1) / 3 / self.variance(coordinates) - 1)
            ends = np.stack([parts.min(axis=0), parts.max(axis=0)])
            low, high = mixture_radius(ends, chances, confidence)
            low *= SHORTEST if coordinates <= FEW_COORDINATES else 1.0
        else:
            own = self.variance_quantile(coordinates, rows, confidence / 2)
            parts = 1 + shares[:, 0] * (own / (rows * self.variance(coordinates)) - 1)
            low, high = sub_gaussian_radius(np.sort(parts), confidence / 2)
        return float(low), float(high)

    def _radius_steps(self, coordinates: int, tail: float) -> tuple[FloatArray, FloatArray]:
        """Chances, summing to one less the tail, and radii that are not exceeded in each such part."""
        exceeded = np.concatenate([np.linspace(1, 0.05, 40), np.geomspace(0.045, tail, 90)])
        return -np.diff(exceeded), self._quantiles(coordinates, exceeded[1:])

    def radius_quantile(self, coordinates: int, tail: float) -> float:
        """The radius exceeds this with probability at most `tail`.

        (2m + 1)^s over m(m − 1)⋯(m − s + 1) decreases in m, so the radius is stochastically at most s plus a
        negative binomial variable of s + 1 successes.
        """
        return float(self._quantiles(coordinates, np.array([tail]))[0])

    def _quantiles(self, coordinates: int, tails: FloatArray) -> FloatArray:
        from scipy.stats import nbinom  # slow to import; a client that reports does not come here

        exceeded = nbinom.isf(tails, coordinates + 1, self._stop)
        return np.asarray(exceeded * (1 + 1e-9) + 1 + coordinates, dtype=np.float64)

    @property
    def _stop(self) -> float:
        return -math.expm1(-1 / self.scale)  # 1 − q

    def variance_quantile(self, coordinates: int, rows: int, tail: float) -> float:
        """Σ over rows of m(m + 1)/3 exceeds this with probability at most `tail`."""
        largest = self.radius_quantile(coordinates, tail / (2 * rows))
        highest = largest * (largest + 1)
        # No radius exceeds `largest`, at half of the tail; then Bernstein's inequality for the sum. Without
        # the shift, a negative binomial variable is never larger than the radius: this bounds the spread.
        mean, square = self._moments(coordinates, shift=coordinates)
        spread = max(0.0, square - self._moments(coordinates, shift=0)[0] ** 2)
        level = math.log(2 / tail)
        deviation = math.sqrt(2 * rows * spread * level + (highest * level / 3) ** 2) + highest * level / 3
        return min(rows * mean + deviation, rows * highest) / 3


LAWS: dict[str, type[NoiseLaw]] = {
    "discrete-gaussian": GaussianLaw,
    "skellam": SkellamLaw,
    "laplace": LaplaceLaw,
    "polya": PolyaLaw,
    "k-norm": BoxNormLaw,
}
