"""Integer noise distributions for mechanisms: how to draw them, their privacy cost and their tails.

Noise is added to encoded values, one row of coordinates at a time. It comes in `shares`: a `NoiseLaw`
describes one share, and the privacy cost of revealing a sum that contains `shares` of them.

    discrete-gaussian   P(z) ∝ exp(−z²/(2·scale²))               sub-Gaussian with proxy scale²
    skellam             the difference of two Poisson(scale²/2)   variance scale²
    laplace             P(z) ∝ exp(−|z|/scale)                   pure
    polya               `shares` such shares sum to laplace       pure
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
    """The distribution of one share of noise.

    Attributes:
        scale: The scale, between 2⁻¹⁰ and 2⁴⁰ levels.
        shares: The least number of shares in the sum; the privacy cost is stated for this number.

    Raises:
        InvalidValue: If the scale or the number of shares is out of range.
    """

    scale: float
    shares: int = 1

    def __post_init__(self) -> None:
        checked_scale(self.scale)
        whole(1, MOST_CLIENTS, shares=self.shares)

    @abstractmethod
    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return an upper bound on the probability that any |coordinate| of a share exceeds `largest`.

        Args:
            coordinates: The number of coordinates of a share.
            largest: The limit.
        """

    @abstractmethod
    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw one row of noise per share.

        Args:
            rows: The number of shares.
            coordinates: The number of coordinates of a share.
            noise: The noise source.

        Returns:
            An array with `rows` rows and `coordinates` columns.
        """

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw the sum of `rows` shares, directly if the distribution of the sum is known.

        Args:
            rows: The number of shares.
            coordinates: The number of coordinates of a share.
            noise: The noise source.

        Returns:
            An array of `coordinates` sums.
        """
        total: IntArray = self.draw(rows, coordinates, noise).sum(axis=0)
        return total

    @abstractmethod
    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Return the privacy event of revealing the sum.

        Args:
            coordinates: The number of coordinates.
            shift: The largest change of one coordinate by one client.
        """

    @abstractmethod
    def variance(self, coordinates: int) -> float:
        """Return an upper bound on the variance of one coordinate of one share.

        Args:
            coordinates: The number of coordinates of a share.
        """

    @abstractmethod
    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return a value that ⟨a, sum of `rows` shares⟩ + G exceeds with probability at most `confidence`.

        Args:
            coefficients: One row a per direction.
            other_variance: The variance proxy of the independent sub-Gaussian variable G, per row.
            confidence: The allowed probability β of exceeding the radius.
            rows: The number of shares in the sum.

        Returns:
            One radius per row of `coefficients`.
        """

    @abstractmethod
    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """Return lower and upper bounds on `radius`, as multiples of the total standard deviation.

        Args:
            spread: Bounds that hold for all rows of coefficients.
            confidence: The allowed probability β of exceeding the radius.
            rows: The number of shares in the sum.
            coordinates: The number of coordinates of a share.
        """


@dataclass(frozen=True, kw_only=True)
class GaussianLaw(NoiseLaw):
    """The discrete Gaussian: sub-Gaussian with proxy scale² (Canonne, Kamath and Steinke 2020)."""

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent shares."""
        return noise.discrete_gaussian(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return Chernoff's bound, summed over both signs and all coordinates."""
        return 2 * coordinates * gaussian_exceeded(self.scale, largest + 1)

    def longer(self, largest: int) -> float:
        """Return a bound on the probability that the ℓ2 norm of a share exceeds scale·√s + `largest`.

        Args:
            largest: The limit; s is the number of coordinates.
        """
        return gaussian_exceeded(self.scale, largest)

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw a discrete Gaussian of the summed variance.

        The sum of shares differs from it by about exp(−π²·scale²) of the probability, which is below 10⁻⁹ for
        scale ≥ 1.5. Narrower shares are summed one by one.
        """
        if self.scale < 1.5:
            return super().draw_total(rows, coordinates, noise)
        return noise.discrete_gaussian(self.scale * math.sqrt(rows), (coordinates,))

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
        own = rows * self.scale**2 * squared_norms(coefficients)
        return sub_gaussian_radius(other_variance + own, confidence)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:  # noqa: ARG002
        """Return the same factor twice: the radius is exactly proportional."""
        return (sub_gaussian_factor(confidence),) * 2


class CumulantLaw(NoiseLaw):
    """A distribution with a known moment generating function; its tail bound is Chernoff's."""

    @property
    @abstractmethod
    def pole(self) -> float:
        """The upper limit of the arguments for which the cumulant is used."""

    @abstractmethod
    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return log E exp(argument·Z) for one share Z."""

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return Chernoff's bound with the exact moment generating function."""
        return chernoff_radius(
            coefficients,
            other_variance,
            confidence,
            cumulant=lambda argument: rows * self.cumulant(argument),
            pole=self.pole,
            error_variance=rows * self.variance(coefficients.shape[1]),
        )

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:  # noqa: ARG002
        """Return bounds on the radius, as multiples of the total standard deviation.

        The lower factor is the normal one: no cumulant here is below that of the normal distribution of the
        same variance.
        """
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
    """The difference of two Poisson variables; a sum of shares has the same distribution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(LEAST_SCALE, math.sqrt(2 * MOST), scale=self.scale)  # each Poisson mean is at most 2⁴⁰

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return Chernoff's bound, summed over both signs and all coordinates."""
        return 2 * coordinates * skellam_exceeded(2 * self.mean, largest + 1)

    @property
    def pole(self) -> float:
        """A practical limit; the cumulant is finite everywhere, but larger arguments give no better bound."""
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
        cumulant: FloatArray = 4 * self.mean * np.sinh(argument / 2) ** 2
        return cumulant


@dataclass(frozen=True, kw_only=True)
class LaplaceLaw(CumulantLaw):
    """The discrete Laplace: pure privacy, for the ℓ1 distance."""

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
        return accounting.IntegerSum(
            noise=accounting.DiscreteLaplace(scale=self.scale), coordinates=coordinates, shift=shift
        )

    def variance(self, coordinates: int) -> float:  # noqa: ARG002
        """Return 2q/(1 − q)² with q = e^(−1/scale).

        At the least scales a float cannot hold it; the result is then a tiny number instead of 0.
        """
        return max((1 / math.sinh(1 / (2 * self.scale))) ** 2 / 2, 1e-300)

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return log E exp(tZ) = log((1 − q)²/((1 − q·e^t)(1 − q·e^(−t)))) for |t| < 1/scale."""
        # The inverse of the quotient is 1 − 2q(cosh t − 1)/(1 − q)² = 1 − (sinh(t/2)/sinh(1/(2·scale)))².
        ratio = np.sinh(argument / 2) / math.sinh(1 / (2 * self.scale))
        cumulant: FloatArray = -np.log1p(-np.minimum(ratio**2, 1 - 1e-12))
        return cumulant


@dataclass(frozen=True, kw_only=True)
class PolyaLaw(LaplaceLaw):
    """Differences of Pólya variables; `shares` of them sum to the discrete Laplace.

    A Pólya variable with parameters (1/shares, q) has the generating function ((1 − q)/(1 − qz))^(1/shares).
    """

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
        difference: IntArray = positive_parts - negative_parts
        return difference

    def variance(self, coordinates: int) -> float:
        """Return the discrete Laplace's variance divided by the number of shares."""
        return super().variance(coordinates) / self.shares

    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return the discrete Laplace's cumulant divided by the number of shares."""
        return super().cumulant(argument) / self.shares


@dataclass(frozen=True, kw_only=True)
class BoxNormLaw(NoiseLaw):
    """The K-norm mechanism of the box on the lattice: pure privacy, for the ℓ∞ distance.

    z has P(z) ∝ q^‖z‖∞, q = e^(−1/scale). As q^r = Σ_(m ≥ r) (1 − q)q^m, z is uniform on {−m … m}^s given a
    radius m of weight ∝ q^m(2m + 1)^s. A shift of z by at most g in every coordinate changes log P by at most
    g/scale.
    """

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent rows."""
        return noise.box_norm(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return the tail of the negative binomial variable that bounds the radius in `radius_quantile`."""
        return radius_exceeded(self.scale, coordinates, largest) * (1 + 1e-9)

    def event(self, coordinates: int, shift: int) -> accounting.Event:  # noqa: ARG002
        """Return the pure event with ε = shift/scale, for any number of coordinates."""
        return accounting.PureEvent.ratio(shift, self.scale)

    def variance(self, coordinates: int) -> float:
        """Return E m(m + 1)/3, with the radius m replaced by a variable that is never smaller."""
        return self._moments(coordinates, shift=coordinates)[0] / 3

    def _moments(self, coordinates: int, shift: int) -> tuple[float, float]:
        """Return E Y and E Y², Y = m(m + 1), m = `shift` + a negative binomial of s + 1 successes."""
        # A negative binomial is a Poisson variable with a gamma-distributed mean, so its factorial moment E
        # N(N − 1)⋯(N − j + 1) is (q/(1 − q))^j·(s + 1)⋯(s + j). Stirling numbers of the second kind convert
        # factorial moments into powers.
        odds = (1 - self._stop) / self._stop
        falling = [math.prod((coordinates + i) * odds for i in range(1, j + 1)) for j in range(5)]
        stirling = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 3, 1, 0], [0, 1, 7, 6, 1]]
        powers = np.array(stirling) @ np.array(falling)
        product = np.convolve([shift, 1], [shift + 1, 1])
        return float(product @ powers[:3]), float(np.convolve(product, product) @ powers)

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return a mixture bound over the radii.

        Given the radii, uniform noise is sub-Gaussian with its own variance. With few coordinates its tail is
        lighter, and the bound is shortened.
        """
        coordinates, norms = coefficients.shape[1], squared_norms(coefficients)
        if rows == 1:
            chances, radii = self._radius_steps(coordinates, confidence / 1e3)
            variances = other_variance[:, None] + norms[:, None] * (radii * (radii + 1) / 3)
            found = mixture_radius(variances, chances, confidence)
            if coordinates > FEW_COORDINATES:
                return found
            return shortened_radius(found, coefficients, variances, (chances, radii), confidence)
        own = self.variance_quantile(coordinates, rows, confidence / 2)  # half of β covers the radii
        return sub_gaussian_radius(other_variance + own * norms, confidence / 2)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """Return bounds on the radius, as multiples of the total standard deviation.

        The radius increases in the variance of every part of the mixture, and those are linear in the error's
        share of the total variance V. So the extremes are at the two ends of that share.
        """
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
        """Split the range of the radius into parts.

        It returns the probability of each part, which sum to 1 − tail, and an upper bound on the radius in
        each part.
        """
        exceeded = np.concatenate([np.linspace(1, 0.05, 40), np.geomspace(0.045, tail, 90)])
        return -np.diff(exceeded), self._quantiles(coordinates, exceeded[1:])

    def radius_quantile(self, coordinates: int, tail: float) -> float:
        """Return a value that the radius exceeds with probability at most `tail`.

        (2m + 1)^s / (m(m − 1)⋯(m − s + 1)) decreases in m, so the radius is stochastically at most s plus a
        negative binomial variable of s + 1 successes.

        Args:
            coordinates: The number of coordinates, s.
            tail: The allowed probability.
        """
        return float(self._quantiles(coordinates, np.array([tail]))[0])

    def _quantiles(self, coordinates: int, tails: FloatArray) -> FloatArray:
        """Return `radius_quantile` for several tails."""
        from scipy.stats import nbinom  # slow to import; a client that reports does not come here

        exceeded = nbinom.isf(tails, coordinates + 1, self._stop)
        return np.asarray(exceeded * (1 + 1e-9) + 1 + coordinates, dtype=np.float64)

    @property
    def _stop(self) -> float:
        """The success probability 1 − q of the negative binomial variable."""
        return -math.expm1(-1 / self.scale)

    def variance_quantile(self, coordinates: int, rows: int, tail: float) -> float:
        """Return a value that Σ over rows of m(m + 1)/3 exceeds with probability at most `tail`.

        Args:
            coordinates: The number of coordinates.
            rows: The number of independent rows.
            tail: The allowed probability.
        """
        largest = self.radius_quantile(coordinates, tail / (2 * rows))
        highest = largest * (largest + 1)
        # Half of the tail covers the event that some radius exceeds `largest`. Otherwise Bernstein's
        # inequality bounds the sum. A negative binomial variable without the shift is never larger than the
        # radius, which gives an upper bound on the variance of m(m + 1).
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
