"""Random scales of noise that has heavier tails than normal noise.

Laplace noise is normal noise with a random variance, which has an exponential distribution. Errors of four
standard deviations are fifty times as frequent as with normal noise, so a prediction with normal errors would
be too good. K-norm noise is a point of a cube with a random radius. Given the radius, its projections are
treated as normal. In a ball, it is normal noise whose variance has a chi-square distribution.

Large scales are rare and decide how often a guess is wrong. So half of the draws take them from a
distribution with a larger mean, and every draw has the weight (density) / (density of the draws), which is at
most 2. Weighted means have the right expectation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray

_LONGER = 4.0  # the factor of the mean of an exponential variance, in half of the draws
_WIDER = 1.5  # the factor of the radius of a cube, or of the variance in a ball, in half of the draws


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Drawn scales.

    Attributes:
        variances: One row per draw, with the variance of the noise of each number; its mean is 1.
        weights: The weight of each draw.
    """

    variances: FloatArray
    weights: FloatArray


def drawn_scales(tails: str, coordinates: int, count: int, rng: np.random.Generator) -> Scales:
    """Draw scales of noise.

    Args:
        tails: "each" if the noise of each number has its own exponential variance, "common" if the noise of
            all numbers has one radius, "ball" if it has one variance.
        coordinates: How many numbers a release has.
        count: How many draws to make.
        rng: The source of randomness.
    """
    plain = np.arange(count) % 2 == 0
    if tails == "each":
        variances = rng.standard_exponential((count, coordinates))
        chosen = rng.integers(coordinates, size=count)
        variances[np.arange(count), chosen] *= np.where(plain, 1.0, _LONGER)
        ratios = np.exp(variances * (1 - 1 / _LONGER)).mean(axis=1) / _LONGER
    elif tails == "ball":
        shape = (coordinates + 1) / 2
        common = rng.standard_gamma(shape, count) * np.where(plain, 1.0, _WIDER)
        variances = np.repeat(common[:, None] / shape, coordinates, axis=1)
        ratios = np.exp(common * (1 - 1 / _WIDER)) / _WIDER**shape
    else:
        radii = rng.standard_gamma(coordinates + 1, count) * np.where(plain, 1.0, _WIDER)
        second_moment = (coordinates + 1) * (coordinates + 2)
        variances = np.repeat(radii[:, None] ** 2 / second_moment, coordinates, axis=1)
        ratios = np.exp(radii * (1 - 1 / _WIDER)) / _WIDER ** (coordinates + 1)
    return Scales(variances=variances, weights=np.asarray(2 / (1 + ratios), dtype=np.float64))
