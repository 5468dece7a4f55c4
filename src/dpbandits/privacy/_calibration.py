"""Calibration: `calibrate` turns a privacy request into a mechanism with enough noise.

Each trust model calibrates its own mechanisms (trust/). This file has the entry point and the functions that
several trust models use. There are two presets:

    tight   the least noise for which the requested (ε, δ) is proved
    paper   the constants as printed; the mechanism's `event` states the (ε, δ) that they actually give
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._lattice import enough_levels
from dpbandits.privacy._limits import checked_bound, checked_cohort, checked_coordinates
from dpbandits.privacy._mechanism import SHAPES, Mechanism
from dpbandits.privacy._noisy_lattice import encoded_distance
from dpbandits.privacy.noise import GaussianLaw

# Upper bounds on the variance of rounding to the grid, as a share of the variance of the noise. FINE is for
# mechanisms in which a finer grid costs nothing, COARSE for those in which it costs communication.
FINE, COARSE = 0.005, 0.04
# In a ball, a grid has at least _LENGTHENED·√coordinates levels, and the standard deviation of one client's
# share of the noise is at least _LEAST_SHARE levels.
_LENGTHENED, _LEAST_SHARE = 256, 2.5


def calibrate(
    request: PrivacyRequest,
    *,
    coordinates: int,
    cohort: int,
    bound: float,
    shape: str = "box",
    minimum_reports: int | None = None,
) -> Mechanism:
    """Return a mechanism that satisfies a privacy request.

    Example: `calibrate(PrivacyRequest(trust="local"), coordinates=60, cohort=1000, bound=1.0)`.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        cohort: The number of clients that are asked.
        bound: Each value is clipped to [−bound, bound], or each report to the ball of that radius.
        shape: "box" or "ball".
        minimum_reports: The fewest reports in a release. The default is `request.minimum_share` of the
            cohort.

    Returns:
        A mechanism that belongs to the request's trust model.

    Raises:
        InvalidValue: If a value is out of range, or if `shape` is "ball" and the request does not allow it.
        OutsideTheorem: If preset paper is requested and its theorem does not hold for this ε or δ.
    """
    if one_of(SHAPES, shape=shape) == "ball":
        request = in_ball(request)
    checked_coordinates(coordinates)
    checked_cohort(cohort)
    checked_bound(bound)
    model = request.trust_model
    if not model.private:
        minimum_reports = 1
    least = request.minimum_reports(cohort) if minimum_reports is None else minimum_reports
    whole(1, cohort, minimum_reports=least)
    named = model.named(request.mechanism_noise) if model.private else None
    if named is not None:
        return named.calibrated(request, coordinates=coordinates, cohort=cohort, bound=bound, least=least)
    return model.calibrate(
        request, coordinates=coordinates, cohort=cohort, bound=bound, shape=shape, least=least
    )


def may_use_ball(request: PrivacyRequest) -> bool:
    """Whether clients may clip their report to an ℓ2 ball.

    Only discrete Gaussian noise is accounted for in a ball. So the request must have preset tight and δ > 0,
    and must name either no noise or the trust model's discrete Gaussian noise.

    Args:
        request: The privacy request.

    Returns:
        True if `calibrate` accepts `shape="ball"` with this request.
    """
    accounted = request.trust_model.gaussian_noise
    if accounted is None or request.preset != "tight" or request.pure:
        return False
    return request.noise in (None, accounted)


def in_ball(request: PrivacyRequest) -> PrivacyRequest:
    """Return the request with discrete Gaussian noise, which a ball needs.

    Raises:
        InvalidValue: If the request does not allow a ball (see `may_use_ball`).
    """
    if not may_use_ball(request):
        raise InvalidValue("shape", "ball", "box, or preset tight with δ > 0 and discrete Gaussian noise")
    return replace(request, noise=request.trust_model.gaussian_noise)


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
    deviation = _deviation(request, coordinates, shape)
    levels = enough_levels(deviation_per_level=deviation, reports=values, share=rounding)
    if shape == "ball":  # rounding increases distances a little, and shares must be wide
        finest = max(_LENGTHENED * math.sqrt(coordinates), _LEAST_SHARE * math.sqrt(shares) / deviation)
        levels = max(levels, 1 << math.ceil(math.log2(finest)))
        distance = encoded_distance(levels, coordinates)
        return levels, accounting.least_ball_scale(epsilon, delta, coordinates, distance, shares)
    if noise == "k-norm":  # the noise covers s extra levels of radius; on a fine grid they are negligible
        levels = max(levels, 2 ** math.ceil(math.log2(max(1.0, 4 * coordinates * epsilon))))
    return levels, _scale(noise, epsilon, delta, coordinates, levels, shares)


def _deviation(request: PrivacyRequest, coordinates: int, shape: str, diameter: float = 1.0) -> float:
    """Return nearly the standard deviation of the noise that a sum of values needs.

    The diameter is that of the range of each value, or that of the ball.
    """
    noise, epsilon = request.mechanism_noise, request.epsilon
    if shape == "box" and noise == "k-norm":
        return diameter * math.sqrt((coordinates + 1) * (coordinates + 2) / 3) / epsilon
    if shape == "box" and noise in ("laplace", "polya"):
        return diameter * math.sqrt(2) * coordinates / epsilon
    distance = diameter if shape == "ball" else diameter * math.sqrt(coordinates)
    return distance * accounting.gaussian_noise_ratio(epsilon, request.delta)


@lru_cache(maxsize=4096)
def _scale(noise: str, epsilon: float, delta: float, coordinates: int, levels: int, shares: int) -> float:
    """Return the least scale of each of `shares` shares of noise for which (ε, δ) is proved."""
    if noise == "k-norm":
        return accounting.discrete_laplace_scale(epsilon, 1, levels)
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


def typical_deviation(
    request: PrivacyRequest, *, coordinates: int, clients: int, bound: float, shape: str = "box"
) -> float:
    """Return the standard deviation that privacy adds to each released mean, accurate to a few percent.

    It is computed from a formula for the noise, which is fast enough for planning. If the request names a
    mechanism, or the trust model has no formula, the mechanism is calibrated instead.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        clients: The number of clients that report.
        bound: The clipping bound.
        shape: "box" or "ball".

    Returns:
        The standard deviation, in the units of the rewards; 0 without privacy.
    """
    model = request.trust_model
    if not model.private:
        return 0.0
    if model.typical_error is None or model.named(request.mechanism_noise) is not None:
        mechanism = calibrate(request, coordinates=coordinates, cohort=clients, bound=bound, shape=shape)
        return mechanism.error_deviation(clients)
    return model.typical_error(request, _deviation(request, coordinates, shape, 2 * bound), clients)
