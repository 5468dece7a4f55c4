"""K-norm noise for the ℓ∞ ball: P(z) ∝ exp(−‖z‖∞/scale) on Z^s."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import accounting, tails
from dpbandits.privacy.noise._law import NoiseLaw
from dpbandits.privacy.noise._max_norm_radius import radius_exceeded
from dpbandits.privacy.noise._sources import NoiseSource
from dpbandits.privacy.tails import Spread


@dataclass(frozen=True, kw_only=True)
class BoxNormLaw(NoiseLaw):
    """The K-norm mechanism of the box on the lattice: pure privacy, for the ℓ∞ distance.

    z has P(z) ∝ q^‖z‖∞, q = e^(−1/scale). As q^r = Σ_(m ≥ r) (1 − q)q^m, z is uniform on {−m … m}^s given a
    radius m of weight ∝ q^m(2m + 1)^s. A shift of z by at most g in every coordinate changes log P by at most
    g/scale.
    """

    independent_coordinates = False

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent rows."""
        return noise.box_norm(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return the tail of the negative binomial variable that bounds the radius in `_quantiles`."""
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
        coordinates, norms = coefficients.shape[1], tails.squared_norms(coefficients)
        if rows == 1:
            chances, radii = self._radius_steps(coordinates, confidence / 1e3)
            variances = other_variance[:, None] + norms[:, None] * (radii * (radii + 1) / 3)
            found = tails.mixture_radius(variances, chances, confidence)
            if coordinates > tails.FEW_COORDINATES:
                return found
            return tails.shortened_radius(found, coefficients, variances, (chances, radii), confidence)
        own = self.variance_quantile(coordinates, rows, confidence / 2)  # half of β covers the radii
        return tails.sub_gaussian_radius(other_variance + own * norms, confidence / 2)

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
            low, high = tails.mixture_radius(ends, chances, confidence)
            low *= tails.SHORTEST if coordinates <= tails.FEW_COORDINATES else 1.0
        else:
            own = self.variance_quantile(coordinates, rows, confidence / 2)
            parts = 1 + shares[:, 0] * (own / (rows * self.variance(coordinates)) - 1)
            low, high = tails.sub_gaussian_radius(np.sort(parts), confidence / 2)
        return float(low), float(high)

    def _radius_steps(self, coordinates: int, tail: float) -> tuple[FloatArray, FloatArray]:
        """Split the range of the radius into parts.

        It returns the probability of each part, which sum to 1 − tail, and an upper bound on the radius in
        each part.
        """
        exceeded = np.concatenate([np.linspace(1, 0.05, 40), np.geomspace(0.045, tail, 90)])
        return -np.diff(exceeded), self._quantiles(coordinates, exceeded[1:])

    def _quantiles(self, coordinates: int, chances: FloatArray) -> FloatArray:
        """Return values that the radius exceeds with probability at most each of `chances`.

        (2m + 1)^s / (m(m − 1)⋯(m − s + 1)) decreases in m, so the radius is stochastically at most s plus a
        negative binomial variable of s + 1 successes.
        """
        exceeded = _negative_binomial_quantiles(chances, coordinates + 1, self._stop)
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
        largest = float(self._quantiles(coordinates, np.array([tail / (2 * rows)]))[0])
        highest = largest * (largest + 1)
        # Half of the tail covers the event that some radius exceeds `largest`. Otherwise Bernstein's
        # inequality bounds the sum. A negative binomial variable without the shift is never larger than the
        # radius, which gives an upper bound on the variance of m(m + 1).
        mean, square = self._moments(coordinates, shift=coordinates)
        spread = max(0.0, square - self._moments(coordinates, shift=0)[0] ** 2)
        level = math.log(2 / tail)
        deviation = math.sqrt(2 * rows * spread * level + (highest * level / 3) ** 2) + highest * level / 3
        return min(rows * mean + deviation, rows * highest) / 3


def _negative_binomial_quantiles(chances: FloatArray, successes: int, stop: float) -> FloatArray:
    """Return the least whole numbers that a negative binomial variable exceeds with at most these chances.

    The variable counts the failures before the given number of successes, each of probability `stop`. Like
    `scipy.stats.nbinom.isf`, whose import takes longer than a whole plan.
    """
    from scipy.special import betaincc  # a client that reports does not come here, and needs no SciPy

    low, high = np.full(len(chances), -1.0), np.full(len(chances), np.ceil(2 * successes / stop))
    while (short := betaincc(successes, high + 1, stop) > chances).any():
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    while ((high - low) > np.maximum(1.0, 1e-12 * high)).any():
        middle = np.floor((low + high) / 2)
        short = betaincc(successes, middle + 1, stop) > chances
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(high, dtype=np.float64)
