"""K-norm noise for the ℓ2 ball: a point with density ∝ exp(−‖y‖₂/scale), rounded to integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy import accounting, tails
from dpbandits.privacy.noise._law import NoiseLaw
from dpbandits.privacy.noise._sources import NoiseSource
from dpbandits.privacy.tails import NOTHING, Spread

_ROUNDING = 0.25  # the variance proxy of rounding a number at random to a neighbouring integer


@dataclass(frozen=True, kw_only=True)
class BallNormLaw(NoiseLaw):
    """The K-norm mechanism of the ball: pure privacy, for the ℓ2 distance.

    Y has a density ∝ exp(−‖y‖/scale), and z is Y with every coordinate rounded at random to a neighbouring
    integer, without bias. For integers c, c + z is c + Y rounded in the same way. So revealing c + z is
    processing of c + Y, whose log density changes by at most ‖c − c'‖/scale.

    Y is scale·√W·G, where G is standard normal and W has a chi-square distribution with s + 1 degrees of
    freedom.
    """

    independent_coordinates = False
    tail_shape = "ball"

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent rows."""
        return noise.ball_norm(self.scale, (rows, coordinates))

    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return P(‖Y‖ > largest), which is P(N < s) for a Poisson variable N of mean largest/scale."""
        mean = largest / self.scale
        logs = (i * math.log(max(mean, NOTHING)) - math.lgamma(i + 1) - mean for i in range(coordinates))
        return min(1.0, math.fsum(map(math.exp, logs)) * (1 + 1e-9))

    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Return the pure event for opposite corners of a box."""
        return self.ball_event(diagonal(shift, coordinates))

    def ball_event(self, distance: float) -> accounting.Event:
        """Return the pure event with ε = distance/scale.

        Args:
            distance: The largest ℓ2 distance by which one client moves the sum.
        """
        return accounting.PureEvent.ratio(distance, self.scale)

    def variance(self, coordinates: int) -> float:
        """Return (s + 1)·scale² plus ¼ for rounding."""
        return (coordinates + 1) * self.scale**2 + _ROUNDING

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return a mixture bound: given W, Y is normal. For a sum of rows, W is the sum over the rows."""
        norms = tails.squared_norms(coefficients)
        chances, squares = _steps(rows * (coefficients.shape[1] + 1), confidence / 1e3)
        rest = other_variance + rows * _ROUNDING * norms
        variances = rest[:, None] + self.scale**2 * norms[:, None] * squares
        return tails.mixture_radius(variances, chances, confidence)

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """Return bounds on the radius, as multiples of the total standard deviation.

        The radius increases in the variance of every part of the mixture, and those are linear in the share
        of Y in the total variance. So the extremes are at the two ends of that share.
        """
        freedom = rows * (coordinates + 1)
        chances, squares = _steps(freedom, confidence / 1e3)
        smooth = (coordinates + 1) * self.scale**2 / self.variance(coordinates)
        shares = smooth * np.array([[spread.least], [spread.most]])
        parts = 1 + shares * (squares / freedom - 1)
        ends = np.stack([parts.min(axis=0), parts.max(axis=0)])
        low, high = tails.mixture_radius(ends, chances, confidence)
        return float(low), float(high)


def diagonal(side: float, coordinates: int) -> float:
    """Return an upper bound on the diagonal of a cube.

    Args:
        side: The length of its sides.
        coordinates: The number of its dimensions.
    """
    return side * math.sqrt(coordinates) * (1 + 2**-50)


@lru_cache(maxsize=256)
def _steps(freedom: int, tail: float) -> tuple[FloatArray, FloatArray]:
    """Split the range of a chi-square variable into parts.

    It returns the probability of each part, which sum to 1 − tail, and an upper bound on the variable in each
    part.
    """
    from scipy.special import gammainccinv  # imported here, because clients run without SciPy

    exceeded = np.concatenate([np.linspace(1, 0.05, 40), np.geomspace(0.045, tail, 90)])
    squares = 2 * gammainccinv(freedom / 2, exceeded[1:]) * (1 + 1e-9)
    return np.asarray(-np.diff(exceeded), dtype=np.float64), np.asarray(squares, dtype=np.float64)
