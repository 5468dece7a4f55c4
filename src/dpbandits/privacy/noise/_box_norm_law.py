"""K-norm noise for the ℓ∞ ball: P(z) ∝ exp(−‖z‖∞/scale) on Z^s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import accounting, tails
from dpbandits.privacy.noise._law import NoiseLaw
from dpbandits.privacy.noise._max_norm_radius import radius_exceeded
from dpbandits.privacy.noise._sources import NoiseSource
from dpbandits.privacy.tails import Cubes, Spread


@dataclass(frozen=True, kw_only=True)
class BoxNormLaw(NoiseLaw):
    """The K-norm mechanism of the box on the lattice: pure privacy, for the ℓ∞ distance.

    z has P(z) ∝ q^‖z‖∞, q = e^(−1/scale). As q^r = Σ_(m ≥ r) (1 − q)q^m, z is uniform on {−m … m}^s given a
    radius m of weight ∝ q^m(2m + 1)^s. A shift of z by at most g in every coordinate changes log P by at most
    g/scale.
    """

    independent_coordinates = False
    tails = "common"

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent rows."""
        return noise.box_norm(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return the tail of the negative binomial variable that bounds the radius in `_radius_steps`."""
        return radius_exceeded(self.scale, coordinates, largest) * (1 + 1e-9)

    def event(self, coordinates: int, shift: int) -> accounting.Event:  # noqa: ARG002
        """Return the pure event with ε = shift/scale, for any number of coordinates."""
        return accounting.PureEvent.ratio(shift, self.scale)

    def variance(self, coordinates: int) -> float:
        """Return E m(m + 1)/3, with the radius m replaced by a variable that is never smaller.

        That is s plus a negative binomial variable N of s + 1 successes: E N = (s + 1)·q/(1 − q), and
        E N(N − 1) = (s + 1)(s + 2)·(q/(1 − q))².
        """
        s, odds = coordinates, (1 - self._stop) / self._stop
        first, second = (s + 1) * odds, (s + 1) * (s + 2) * odds**2
        return (s * (s + 1) + 2 * (s + 1) * first + second) / 3

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return a mixture bound over the radius of one row, or Chernoff's bound for a sum of rows.

        Given the radius, uniform noise is sub-Gaussian with its own variance. With few coordinates its tail
        is lighter, and the bound is shortened.
        """
        coordinates, norms = coefficients.shape[1], tails.squared_norms(coefficients)
        if rows > 1:
            return tails.cube_sum_radius(
                coefficients, other_variance, confidence, cubes=self._cubes(coordinates), rows=rows
            )
        chances, radii = _radius_steps(self._stop, coordinates, confidence / 1e3)
        variances = other_variance[:, None] + norms[:, None] * (radii * (radii + 1) / 3)
        found = tails.mixture_radius(variances, chances, confidence)
        if coordinates > tails.FEW_COORDINATES:
            return found
        return tails.shortened_radius(found, coefficients, variances, (chances, radii), confidence)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """Return bounds on the radius, as multiples of the total standard deviation.

        The radius of one row increases in the variance of every part of the mixture, and those are linear in
        the error's share of the total variance V. So the extremes are at the two ends of that share.
        """
        if rows > 1:
            return tails.cube_sum_factors(spread, confidence, cubes=self._cubes(coordinates), rows=rows)
        shares = np.array([[spread.least], [spread.most]])
        chances, radii = _radius_steps(self._stop, coordinates, confidence / 1e3)
        parts = 1 + shares * (radii * (radii + 1) / 3 / self.variance(coordinates) - 1)
        ends = np.stack([parts.min(axis=0), parts.max(axis=0)])
        low, high = tails.mixture_radius(ends, chances, confidence)
        low *= tails.SHORTEST if coordinates <= tails.FEW_COORDINATES else 1.0
        return float(low), float(high)

    def _cubes(self, coordinates: int) -> Cubes:
        """Return the moments of the radius, for sums of rows."""
        moments = _radius_moments(self.scale, coordinates)
        return Cubes(
            coordinates=coordinates,
            moments=moments,
            stop=self._stop,
            variance=self.variance(coordinates),
        )

    @property
    def _stop(self) -> float:
        """The success probability 1 − q of the negative binomial variable."""
        return -math.expm1(-1 / self.scale)


@lru_cache(maxsize=256)  # a study needs the same steps in every phase, and computing them is slow
def _radius_steps(stop: float, coordinates: int, tail: float) -> tuple[FloatArray, FloatArray]:
    """Split the range of the radius into parts.

    It returns the probability of each part, which sum to 1 − tail, and an upper bound on the radius in each
    part. (2m + 1)^s / (m(m − 1)⋯(m − s + 1)) decreases in m, so the radius is stochastically at most s plus a
    negative binomial variable of s + 1 successes.
    """
    exceeded = np.concatenate([np.linspace(1, 0.05, 40), np.geomspace(0.045, tail, 90)])
    quantiles = _negative_binomial_quantiles(exceeded[1:], coordinates + 1, stop)
    chances, radii = -np.diff(exceeded), quantiles * (1 + 1e-9) + 1 + coordinates
    chances.flags.writeable = radii.flags.writeable = False
    return chances, np.asarray(radii, dtype=np.float64)


@lru_cache(maxsize=256)
def _radius_moments(scale: float, coordinates: int) -> FloatArray:
    """Return E (p·N/2)^(2k)/(2k)! for k = 0 … `tails.TERMS`, N = 2m + 1, p = 1 − q.

    Σ_m q^m·(2m + 1)^s is B_s(q)/(1 − q)^(s + 1), see _max_norm_radius.py, so E N^j is
    B_(s + j)(q)/(B_s(q)·(1 − q)^j). The coefficients of B_s sum to 2^s·s!. Divided by that, they are the
    distribution after s steps of a walk that goes from k to k + 1 with probability (2s + 1 − 2k)/(2s + 2) in
    step s + 1, and otherwise stays. So the quotient of two values at q is between q^j and 1.
    """
    walk, values = np.ones(1), list[float]()
    for order in range(coordinates + 2 * tails.TERMS + 1):
        places = np.arange(order + 1)
        values.append(float(walk @ np.exp(-places / scale)))
        stays, climbs = walk * (2 * places + 1), walk * (2 * (order - places) + 1)
        walk = (np.append(stays, 0.0) + np.append(0.0, climbs)) / (2 * order + 2)
    found = np.array(values[coordinates::2])
    if found[0] < np.finfo(float).tiny:  # a tiny scale and many coordinates: use the bound 1
        found = np.ones_like(found)
    counts = [math.comb(coordinates + 2 * order, 2 * order) for order in range(tails.TERMS + 1)]
    return np.array([count * one for count, one in zip(counts, found / found[0], strict=True)])


def _negative_binomial_quantiles(chances: FloatArray, successes: int, stop: float) -> FloatArray:
    """Return the least whole numbers that a negative binomial variable exceeds with at most these chances.

    The variable counts the failures before the given number of successes, each of probability `stop`. This
    function replaces `scipy.stats.nbinom.isf`: importing `scipy.stats` takes longer than computing a plan.
    """
    from scipy.special import betaincc  # imported here, because clients run without SciPy

    low, high = np.full(len(chances), -1.0), np.full(len(chances), np.ceil(2 * successes / stop))
    while (short := betaincc(successes, high + 1, stop) > chances).any():
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    while ((high - low) > np.maximum(1.0, 1e-12 * high)).any():
        middle = np.floor((low + high) / 2)
        short = betaincc(successes, middle + 1, stop) > chances
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(high, dtype=np.float64)
