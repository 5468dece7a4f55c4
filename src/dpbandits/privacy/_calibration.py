"""From a request to a mechanism: the entry point, and what the trust models' calibrations share.

Each trust model calibrates its own mechanisms (trust/). `paper` takes the constants as printed; the
mechanism's `event` states what they really give. `tight` takes the least noise for which the stated (ε, δ)
is proved.
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

# Rounding to the grid may have this share of the noise's variance, where finer grids cost nothing and
# where they cost communication.
FINE, COARSE = 0.005, 0.04
# A ball has at least so many levels for each √coordinates, and a share of its noise so many levels.
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
    """Return the mechanism that gives a request its privacy.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: Numbers in one report.
        cohort: Clients that are asked.
        bound: Each number is clipped to [−bound, bound], or each report to the ball of that radius.
        shape: "box" or "ball".
        minimum_reports: The fewest reports that are released; by default `request.minimum_share` of the
            cohort.

    Returns:
        A mechanism of the request's trust model.

    Raises:
        InvalidValue: A value is outside its range, or the request cannot be clipped to a ball.
        OutsideTheorem: The paper's theorem does not hold for this ε or δ.
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
    """Whether clients may clip in ℓ2: that is accounted for with discrete Gaussian noise alone."""
    accounted = request.trust_model.gaussian_noise
    if accounted is None or request.preset != "tight" or request.pure:
        return False
    return request.noise in (None, accounted)


def in_ball(request: PrivacyRequest) -> PrivacyRequest:
    """The same request with the noise that a ball needs, where it names none."""
    if not may_use_ball(request):
        raise InvalidValue("shape", "ball", "box; or tight, with δ > 0 and discrete Gaussian noise")
    return replace(request, noise=request.trust_model.gaussian_noise)


def levels_and_scale(
    request: PrivacyRequest, coordinates: int, values: int, *, shape: str, shares: int, rounding: float
) -> tuple[int, float]:
    """Return the levels of a grid, and the scale of one share of noise on it.

    Args:
        request: The privacy that `shares` shares of noise together must give.
        coordinates: Numbers in one report.
        values: How many values are rounded for each time that noise is added.
        shape: "box" or "ball".
        shares: How many shares of noise are in the sum at least.
        rounding: The share of the noise's variance that rounding may add.

    Returns:
        (levels, scale in levels)
    """
    grid = _ball_grid if shape == "ball" else _box_grid
    return grid(request, coordinates, values, shares=shares, rounding=rounding)


def _box_grid(
    request: PrivacyRequest, coordinates: int, values: int, *, shares: int, rounding: float
) -> tuple[int, float]:
    noise, epsilon, delta = request.mechanism_noise, request.epsilon, request.delta
    if noise == "k-norm":
        deviation = math.sqrt((coordinates + 1) * (coordinates + 2) / 3) / epsilon
    elif noise in ("laplace", "polya"):
        deviation = math.sqrt(2) * coordinates / epsilon
    else:
        deviation = accounting.gaussian_noise_ratio(epsilon, delta) * math.sqrt(coordinates)
    levels = enough_levels(deviation_per_level=deviation, reports=values, share=rounding)
    if noise == "k-norm":  # radii are bounded with s levels to spare, which so fine a grid makes little of
        levels = max(levels, 2 ** math.ceil(math.log2(max(1.0, 4 * coordinates * epsilon))))
    return levels, _scale(noise, epsilon, delta, coordinates, levels, shares)


def _ball_grid(
    request: PrivacyRequest, coordinates: int, values: int, *, shares: int, rounding: float
) -> tuple[int, float]:
    """The same for a ball. Rounding lengthens distances a little, and a share must not be too small."""
    ratio = accounting.gaussian_noise_ratio(request.epsilon, request.delta)
    levels = enough_levels(deviation_per_level=ratio, reports=values, share=rounding)
    finest = max(_LENGTHENED * math.sqrt(coordinates), _LEAST_SHARE * math.sqrt(shares) / ratio)
    levels = max(levels, 1 << math.ceil(math.log2(finest)))
    distance = encoded_distance(levels, coordinates)
    return levels, accounting.least_ball_scale(request.epsilon, request.delta, coordinates, distance, shares)


@lru_cache(maxsize=4096)
def _scale(noise: str, epsilon: float, delta: float, coordinates: int, levels: int, shares: int) -> float:
    """The least scale of one of `shares` shares for which (ε, δ) is proved."""
    if noise == "k-norm":
        return accounting.discrete_laplace_scale(epsilon, 1, levels)
    if noise in ("laplace", "polya"):
        if delta == 0:
            return accounting.discrete_laplace_scale(epsilon, coordinates, levels)
        return accounting.least_discrete_laplace_scale(epsilon, delta, coordinates, levels)
    if noise == "skellam":
        variance = accounting.least_skellam_variance(epsilon, delta, coordinates, levels) / shares
        return math.sqrt(variance + 2**-31)  # the mean of a share is rounded to a multiple of 2⁻³²
    if shares == 1:
        # On a fine grid the analytic Gaussian's scale is right but for parts in ten thousand.
        near = accounting.gaussian_noise_ratio(epsilon, delta) * math.sqrt(coordinates) * levels * (1 + 1e-4)
        if GaussianLaw(scale=near).event(coordinates, levels).delta(epsilon) <= delta:
            return near
    return accounting.least_discrete_gaussian_sigma(epsilon, delta, coordinates, levels, shares=shares)


def typical_deviation(
    request: PrivacyRequest, *, coordinates: int, clients: int, bound: float, shape: str = "box"
) -> float:
    """Return the standard deviation that privacy adds to each mean, good to a few percent.

    It comes from the noise's formula. A mechanism that a request names, and a trust model without a formula,
    is calibrated instead.
    """
    model = request.trust_model
    if not model.private:
        return 0.0
    if model.typical_error is None or model.named(request.mechanism_noise) is not None:
        mechanism = calibrate(request, coordinates=coordinates, cohort=clients, bound=bound, shape=shape)
        return mechanism.error_deviation(clients)
    noise, diameter = request.mechanism_noise, 2 * bound
    if shape == "ball":
        on_sum = diameter * accounting.gaussian_noise_ratio(request.epsilon, request.delta)
    elif noise == "k-norm":
        on_sum = diameter * math.sqrt((coordinates + 1) * (coordinates + 2) / 3) / request.epsilon
    elif noise in ("laplace", "polya"):
        on_sum = diameter * math.sqrt(2) * coordinates / request.epsilon
    else:
        distance = diameter * math.sqrt(coordinates)
        on_sum = distance * accounting.gaussian_noise_ratio(request.epsilon, request.delta)
    return model.typical_error(request, on_sum, clients)
