"""From a request to a mechanism: how much noise, in which trust model, for which cohort.

`paper` takes the constants as printed; what they really give is told by the mechanism's `event`.
`tight` takes the least noise for which the stated (ε, δ) is proved.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue, OutsideTheorem
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._lattice import enough_levels
from dpbandits.privacy._limits import checked_bound, checked_cohort, checked_coordinates
from dpbandits.privacy._mechanism import SHAPES, Mechanism, by_name
from dpbandits.privacy._noisy_lattice import encoded_distance, least_largest
from dpbandits.privacy.accounting import (
    choose_encoding,
    classical_noise_ratio,
    discrete_laplace_scale,
    gaussian_noise_ratio,
    least_ball_scale,
    least_discrete_gaussian_sigma,
    least_discrete_laplace_scale,
    least_skellam_variance,
)
from dpbandits.privacy.noise import LAWS, GaussianLaw
from dpbandits.privacy.trust import (
    CentralGaussian,
    CentralLattice,
    LocalGaussian,
    LocalLattice,
    NoPrivacy,
    ShuffledBits,
    SummedShares,
    noisy_reports,
)

# Rounding to the grid may have this share of the noise's variance, where finer grids cost nothing and
# where they cost communication.
_FINE, _COARSE = 0.005, 0.04
# A ball has at least so many levels for each √coordinates, and a share of its noise so many levels.
_LENGTHENED, _LEAST_SHARE = 256, 2.5
# Reports that clients replace may add this share to δ; the noise is calibrated to what is left.
_REPLACED = 0.01
# The central model's grid is fine enough for cohorts of this size, so that one calibration serves them all.
_USUAL_COHORT = 2**16


def calibrate(
    request: PrivacyRequest,
    *,
    coordinates: int,
    cohort: int,
    bound: float,
    shape: str = "box",
    minimum_reports: int | None = None,
) -> Mechanism:
    """The mechanism for `cohort` clients that report `coordinates` averages each, in a box or a ball."""
    if one_of(SHAPES, shape=shape) == "ball":
        request = in_ball(request)
    checked_coordinates(coordinates)
    checked_cohort(cohort)
    checked_bound(bound)
    if request.trust == "none":
        return NoPrivacy(coordinates=coordinates, cohort=cohort, bound=bound)
    least = request.minimum_reports(cohort) if minimum_reports is None else minimum_reports
    whole(1, cohort, minimum_reports=least)
    named = by_name(request.trust).get(request.mechanism_noise)
    if named is not None:
        return named.calibrated(request, coordinates=coordinates, cohort=cohort, bound=bound, least=least)
    if request.mechanism_noise == "gaussian":
        return _continuous(request, coordinates, cohort, bound)
    if request.trust != "shuffle":
        return _single_party(request, coordinates, cohort, bound, shape)
    if request.mechanism_noise != "binomial":
        return _summed(request, coordinates, cohort, bound, least, shape)
    if request.preset == "paper":
        return algorithm_2(request, coordinates=coordinates, cohort=cohort, bound=bound, least=least)
    return _bits(request, coordinates, cohort, bound, least)


def _continuous(request: PrivacyRequest, coordinates: int, cohort: int, bound: float) -> Mechanism:
    formula = classical_noise_ratio if request.preset == "paper" else gaussian_noise_ratio
    kind = CentralGaussian if request.trust == "central" else LocalGaussian
    ratio = formula(request.epsilon, request.delta)
    return kind(coordinates=coordinates, cohort=cohort, bound=bound, noise_ratio=ratio)


def may_use_ball(request: PrivacyRequest) -> bool:
    """Whether clients may clip in ℓ2: that is accounted for with discrete Gaussian noise alone."""
    asked = request.noise in (None, "discrete-gaussian")
    return asked and request.trust != "none" and request.preset == "tight" and not request.pure


def in_ball(request: PrivacyRequest) -> PrivacyRequest:
    """The same request with the noise that a ball needs, where none was asked for."""
    if not may_use_ball(request):
        raise InvalidValue("shape", "ball", "box; or tight, with δ > 0 and discrete Gaussian noise")
    return replace(request, noise="discrete-gaussian")


def _single_party(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, shape: str
) -> Mechanism:
    kind = CentralLattice if request.trust == "central" else LocalLattice
    # How many values are rounded for each time that noise is added.
    values = max(cohort, _USUAL_COHORT) if request.trust == "central" else 1
    grid = _ball_grid if shape == "ball" else _levels_and_scale
    levels, scale = grid(request, coordinates, values, shares=1, rounding=_FINE)
    return kind(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        levels=levels,
        noise=request.mechanism_noise,
        scale=scale,
        shape=shape,
    )


def _summed(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int, shape: str
) -> Mechanism:
    shares = max(1, noisy_reports(least, request.silent_share))
    grid = _ball_grid if shape == "ball" else _levels_and_scale
    limited = request.mechanism_noise != "polya"
    exact = replace(request, delta=(1 - _REPLACED) * request.delta) if limited else request
    levels, scale = grid(exact, coordinates, cohort, shares=shares, rounding=_COARSE)
    return SummedShares(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        levels=levels,
        noise=request.mechanism_noise,
        scale=scale,
        least_reports=least,
        silent_share=request.silent_share,
        largest_share=_largest_share(request, coordinates, cohort, scale, shape) if limited else None,
        shape=shape,
    )


def _largest_share(request: PrivacyRequest, coordinates: int, cohort: int, scale: float, shape: str) -> int:
    """The least for which replaced reports add a hundredth of δ at most: (1 + e^ε)·cohort·chance."""
    # Cohorts of nearly the same size have the same; the last factor covers rounding.
    allowed = _REPLACED * request.delta / (1 + math.exp(min(request.epsilon, 600.0))) * (1 - 1e-6)
    law = LAWS[request.mechanism_noise](scale=scale)
    return least_largest(law, coordinates, shape, allowed / (1 << cohort.bit_length()))


def _bits(request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int) -> Mechanism:
    shares = max(1, noisy_reports(least, request.silent_share))
    chosen = _encoding(request.epsilon, request.delta, coordinates, shares)
    return ShuffledBits(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        reach=bound,
        levels=chosen[0],
        noise_bits=chosen[1],
        least_reports=least,
        silent_share=request.silent_share,
    )


def _levels_and_scale(
    request: PrivacyRequest, coordinates: int, values: int, *, shares: int, rounding: float
) -> tuple[int, float]:
    """A grid so fine that rounding `values` values hardly counts, and the scale of a share of noise on it."""
    noise, epsilon, delta = request.mechanism_noise, request.epsilon, request.delta
    if noise == "k-norm":
        deviation = math.sqrt((coordinates + 1) * (coordinates + 2) / 3) / epsilon
    elif noise in ("laplace", "polya"):
        deviation = math.sqrt(2) * coordinates / epsilon
    else:
        deviation = gaussian_noise_ratio(epsilon, delta) * math.sqrt(coordinates)
    levels = enough_levels(deviation_per_level=deviation, reports=values, share=rounding)
    if noise == "k-norm":  # radii are bounded with s levels to spare, which so fine a grid makes little of
        levels = max(levels, 2 ** math.ceil(math.log2(max(1.0, 4 * coordinates * epsilon))))
    return levels, _scale(noise, epsilon, delta, coordinates, levels, shares)


def _ball_grid(
    request: PrivacyRequest, coordinates: int, values: int, *, shares: int, rounding: float
) -> tuple[int, float]:
    """The same for a ball. Rounding lengthens distances a little, and a share must not be too small."""
    ratio = gaussian_noise_ratio(request.epsilon, request.delta)
    levels = enough_levels(deviation_per_level=ratio, reports=values, share=rounding)
    finest = max(_LENGTHENED * math.sqrt(coordinates), _LEAST_SHARE * math.sqrt(shares) / ratio)
    levels = max(levels, 1 << math.ceil(math.log2(finest)))
    distance = encoded_distance(levels, coordinates)
    return levels, least_ball_scale(request.epsilon, request.delta, coordinates, distance, shares)


@lru_cache(maxsize=4096)
def _scale(noise: str, epsilon: float, delta: float, coordinates: int, levels: int, shares: int) -> float:
    """The least scale of one of `shares` shares for which (ε, δ) is proved."""
    if noise == "k-norm":
        return discrete_laplace_scale(epsilon, 1, levels)
    if noise in ("laplace", "polya"):
        if delta == 0:
            return discrete_laplace_scale(epsilon, coordinates, levels)
        return least_discrete_laplace_scale(epsilon, delta, coordinates, levels)
    if noise == "skellam":
        variance = least_skellam_variance(epsilon, delta, coordinates, levels) / shares
        return math.sqrt(variance + 2**-31)  # the mean of a share is rounded to a multiple of 2⁻³²
    if shares == 1:
        # On a fine grid the analytic Gaussian's scale is right but for parts in ten thousand.
        near = gaussian_noise_ratio(epsilon, delta) * math.sqrt(coordinates) * levels * (1 + 1e-4)
        if GaussianLaw(scale=near).event(coordinates, levels).delta(epsilon) <= delta:
            return near
    return least_discrete_gaussian_sigma(epsilon, delta, coordinates, levels, shares=shares)


@lru_cache(maxsize=4096)
def _encoding(epsilon: float, delta: float, coordinates: int, shares: int) -> tuple[int, int]:
    chosen = choose_encoding(epsilon, delta, coordinates, shares)
    return chosen.levels, chosen.bits


def typical_deviation(
    request: PrivacyRequest, *, coordinates: int, clients: int, bound: float, shape: str = "box"
) -> float:
    """The error of each mean, by the mechanism's formula and not a calibration: good to a few percent."""
    if request.trust == "none":
        return 0.0
    if request.mechanism_noise in by_name(request.trust):  # one that was added by name: only it knows
        mechanism = calibrate(request, coordinates=coordinates, cohort=clients, bound=bound)
        return mechanism.error_deviation(clients)
    noise, diameter = "discrete-gaussian" if shape == "ball" else request.mechanism_noise, 2 * bound
    if noise == "k-norm":
        on_sum = diameter * math.sqrt((coordinates + 1) * (coordinates + 2) / 3) / request.epsilon
    elif noise in ("laplace", "polya"):
        on_sum = diameter * math.sqrt(2) * coordinates / request.epsilon
    else:
        distance = diameter if shape == "ball" else diameter * math.sqrt(coordinates)
        on_sum = distance * gaussian_noise_ratio(request.epsilon, request.delta)
    if request.trust == "local":
        return on_sum / math.sqrt(clients)
    shares = (1 - request.silent_share) * request.minimum_share if request.trust == "shuffle" else 1.0
    return on_sum / clients / math.sqrt(shares)


def algorithm_2(
    request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, least: int
) -> ShuffledBits:
    """The paper's Algorithm 2 (ε̂, g, b, p as printed), with g rounded up to an integer."""
    epsilon, delta = request.epsilon, request.delta
    if epsilon >= 15:
        raise OutsideTheorem(f"epsilon: got {epsilon:g}, expected < 15 (the paper's shuffle theorem)")
    if delta >= 0.5:
        raise OutsideTheorem(f"delta: got {delta:g}, expected < 0.5 (the paper's shuffle theorem)")
    scaled_epsilon = epsilon / (18 * math.sqrt(math.log(2 / delta)))  # ε̂
    log_term = math.log(4 * coordinates / delta)
    first = scaled_epsilon * math.sqrt(cohort) / (6 * math.sqrt(5 * log_term))
    levels = math.ceil(max(first, math.sqrt(coordinates), 10))
    ones = 90 * levels**2 * log_term / (scaled_epsilon**2 * cohort)
    noise_bits = math.ceil(2 * ones)
    return ShuffledBits(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        reach=bound * math.sqrt(coordinates),
        levels=levels,
        noise_bits=noise_bits,
        noise_probability=ones / noise_bits,
        least_reports=least,
        silent_share=request.silent_share,
    )
