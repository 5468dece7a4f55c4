"""The grid of reports that a request needs, and the scale of the noise; shared by several trust models."""

from __future__ import annotations

import math
from functools import lru_cache

from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._lattice import enough_levels
from dpbandits.privacy._noisy_lattice import encoded_distance
from dpbandits.privacy.noise import GaussianLaw, diagonal

# Upper bounds on the variance of rounding to the grid, as a share of the variance of the noise. FINE is for
# mechanisms in which a finer grid costs nothing, COARSE for those in which it costs communication.
FINE, COARSE = 0.005, 0.04
# In a ball, a grid has at least _LENGTHENED·√coordinates levels, and the standard deviation of one client's
# share of the noise is at least _LEAST_SHARE levels.
_LENGTHENED, _LEAST_SHARE = 256, 2.5


def levels_and_scale(
    request: PrivacyRequest, coordinates: int, values: int, *, shape: str, shares: int, rounding: float
) -> tuple[int, float]:
    """Return the number of levels of a grid, and the scale of one share of noise on it.

    Args:
        request: The privacy that `shares` shares of noise must provide together.
        coordinates: The number of values in one report.
        values: The number of rounded values per draw of noise. It is the cohort if the noise is
            calibrated to the sum, and 1 if each client adds all of its noise.
        shape: "box" or "ball".
        shares: The least number of shares of noise in the sum.
        rounding: The most variance that rounding may add, as a share of the variance of the noise.

    Returns:
        The number of levels, and the scale in levels.
    """
    noise, epsilon, delta = request.mechanism_noise, request.epsilon, request.delta
    deviation = deviation_of_sum(request, coordinates, shape)
    levels = enough_levels(deviation_per_level=deviation, reports=values, share=rounding)
    if shape == "ball":  # rounding increases distances a little, and shares must be wide
        finest = max(_LENGTHENED * math.sqrt(coordinates), _LEAST_SHARE * math.sqrt(shares) / deviation)
        levels = max(levels, 1 << math.ceil(math.log2(finest)))
        distance = encoded_distance(levels, coordinates)
        if noise == "ball-norm":
            return levels, accounting.pure_scale(epsilon, distance)
        return levels, accounting.least_ball_scale(epsilon, delta, coordinates, distance, shares)
    if noise == "k-norm":  # the noise covers s extra levels of radius; on a fine grid they are negligible
        levels = max(levels, 2 ** math.ceil(math.log2(max(1.0, 4 * coordinates * epsilon))))
    return levels, _scale(noise, epsilon, delta, coordinates, levels, shares)


def deviation_of_sum(request: PrivacyRequest, coordinates: int, shape: str, diameter: float = 1.0) -> float:
    """Return the approximate standard deviation of the noise that a sum of values needs.

    The diameter is that of the range of each value, or that of the ball.
    """
    noise, epsilon = request.mechanism_noise, request.epsilon
    if shape == "box" and noise == "k-norm":
        return diameter * math.sqrt((coordinates + 1) * (coordinates + 2) / 3) / epsilon
    if shape == "box" and noise in ("laplace", "polya"):
        return diameter * math.sqrt(2) * coordinates / epsilon
    distance = diameter if shape == "ball" else diameter * math.sqrt(coordinates)
    if noise == "ball-norm":
        return distance * math.sqrt(coordinates + 1) / epsilon
    return distance * accounting.gaussian_noise_ratio(epsilon, request.delta)


@lru_cache(maxsize=4096)
def _scale(noise: str, epsilon: float, delta: float, coordinates: int, levels: int, shares: int) -> float:
    """Return the least scale of each of `shares` shares of noise for which (ε, δ) is proved."""
    if noise == "k-norm":
        return accounting.discrete_laplace_scale(epsilon, 1, levels)
    if noise == "ball-norm":
        return accounting.pure_scale(epsilon, diagonal(levels, coordinates))
    if noise in ("laplace", "polya"):
        if delta == 0:
            return accounting.discrete_laplace_scale(epsilon, coordinates, levels)
        return accounting.least_discrete_laplace_scale(epsilon, delta, coordinates, levels)
    if noise == "skellam":
        variance = accounting.least_skellam_variance(epsilon, delta, coordinates, levels) / shares
        return math.sqrt(variance + 2**-31)  # the sampler rounds the mean of a share to a multiple of 2⁻³²
    if shares == 1:
        # On a fine grid the scale of the continuous Gaussian is correct to within 10⁻⁴. Try that first: one
        # evaluation of δ is much faster than a search.
        near = accounting.gaussian_noise_ratio(epsilon, delta) * math.sqrt(coordinates) * levels * (1 + 1e-4)
        if GaussianLaw(scale=near).event(coordinates, levels).delta(epsilon) <= delta:
            return near
    return accounting.least_discrete_gaussian_sigma(epsilon, delta, coordinates, levels, shares=shares)
