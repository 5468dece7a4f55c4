"""Calibration: `calibrate` turns a privacy request into a mechanism with enough noise.

Each trust model calibrates its own mechanisms (trust/, _scales.py). This file has the entry point, the choice
of the noise, and predictions of the error of the noise. There are two presets:

    tight   the least noise for which the requested (ε, δ) is proved
    paper   the constants as printed; the mechanism's `event` states the (ε, δ) that they actually give
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._limits import checked_bound, checked_cohort, checked_coordinates
from dpbandits.privacy._mechanism import SHAPES, Mechanism
from dpbandits.privacy._scales import deviation_of_sum
from dpbandits.privacy.noise import LAWS
from dpbandits.privacy.tails import sub_gaussian_factor

CONFIDENCE = 1e-6
"""The failure probability at which noises are compared if the caller states none."""
_FINE_SCALE = 4096.0  # a scale in levels that is so large that the grid does not matter


def calibrate(
    request: PrivacyRequest,
    *,
    coordinates: int,
    cohort: int,
    bound: float,
    shape: str = "box",
    minimum_reports: int | None = None,
    confidence: float = CONFIDENCE,
) -> Mechanism:
    """Return a mechanism that satisfies a privacy request.

    If the request names no noise, the mechanism has the noise with the least predicted error.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        cohort: The number of clients that are asked.
        bound: Each value is clipped to [−bound, bound], or each report to the ball of that radius.
        shape: "box" or "ball".
        minimum_reports: The fewest reports in a release. The default is `request.minimum_share` of the
            cohort.
        confidence: The failure probability at which noises are compared.

    Returns:
        A mechanism that belongs to the request's trust model.

    Raises:
        InvalidValue: If a value is out of range, or if `shape` is "ball" and the request does not allow it.
        NotAvailable: If the trust model has no noise for this preset and δ.
        OutsideTheorem: If preset paper is requested and its theorem does not hold for this ε or δ.

    Example:
        >>> from dpbandits.privacy import PrivacyRequest, calibrate
        >>> request = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
        >>> mechanism = calibrate(request, coordinates=2, cohort=100, bound=1)
        >>> mechanism.kind, mechanism.event.delta(1.0) <= 1e-6
        ('central-lattice', True)
    """
    one_of(SHAPES, shape=shape)
    checked_coordinates(coordinates)
    checked_cohort(cohort)
    checked_bound(bound)
    request, model = request.of_members, request.trust_model
    if shape == "ball" or model.private:
        found = least_noise(
            request, coordinates=coordinates, clients=cohort, shape=shape, confidence=confidence
        )
        request = replace(request, noise=found)
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
    """Return whether clients may clip their report to an ℓ2 ball.

    The request must have preset tight, and one of its noises must be accounted for in a ball.

    Args:
        request: The privacy request.

    Returns:
        True if `calibrate` accepts `shape="ball"` with this request.
    """
    return bool(_in_ball(request))


def _fitting(request: PrivacyRequest, shape: str) -> tuple[str, ...]:
    """Return the noises of a request that are accounted for in this shape. There is at least one."""
    if shape == "box":
        return request.noises
    fitting = _in_ball(request)
    if not fitting:
        known = ", ".join(request.trust_model.ball_noises) or "none in this trust model"
        raise InvalidValue("shape", "ball", f"box, or preset tight with a noise for balls ({known})")
    return fitting


def _in_ball(request: PrivacyRequest) -> tuple[str, ...]:
    if request.preset != "tight" or not request.trust_model.private:
        return ()
    return tuple(noise for noise in request.noises if noise in request.trust_model.ball_noises)


def least_noise(
    request: PrivacyRequest,
    *,
    coordinates: int,
    clients: int,
    shape: str = "box",
    confidence: float = CONFIDENCE,
) -> str:
    """Return the noise with the least of the `noise_widths`, which describes the arguments and errors."""
    fitting = _fitting(request, shape)
    if len(fitting) == 1:
        return fitting[0]
    widths = noise_widths(
        request, coordinates=coordinates, clients=clients, bound=1.0, shape=shape, confidence=confidence
    )
    return min(widths, key=widths.__getitem__)


def noise_widths(
    request: PrivacyRequest,
    *,
    coordinates: int,
    clients: int,
    bound: float,
    shape: str = "box",
    confidence: float = CONFIDENCE,
) -> dict[str, float]:
    """Return the predicted error of each noise that a request allows.

    The error is roughly a radius that the error of one released number exceeds with probability `confidence`.
    It depends on public values only. Example: for one number, central trust and (1, 10⁻⁶), it is about a
    quarter smaller with Laplace noise than with Gaussian noise.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        clients: The number of clients that report.
        bound: The clipping bound.
        shape: "box" or "ball".
        confidence: The failure probability of the radius.

    Returns:
        The predicted error by the name of the noise, in the units of the bound.

    Raises:
        InvalidValue: If no noise of the request is accounted for in a ball, and `shape` is "ball".
    """
    found = _unit_widths(request.of_members, coordinates, clients, shape, confidence)
    return {noise: bound * width for noise, width in found}


@lru_cache(maxsize=4096)  # a search for a plan asks for the same widths thousands of times
def _unit_widths(
    request: PrivacyRequest, coordinates: int, clients: int, shape: str, confidence: float
) -> tuple[tuple[str, float], ...]:
    """Return the predicted error of each noise for a clipping bound of one."""
    return tuple(
        (noise, _width(replace(request, noise=noise), coordinates, clients, shape, confidence))
        for noise in _fitting(request, shape)
    )


def least_width(
    request: PrivacyRequest, *, coordinates: int, clients: int, bound: float, shape: str, confidence: float
) -> float:
    """Return the least predicted error of the noises that a request allows.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        clients: The number of clients that report.
        bound: The clipping bound.
        shape: "box" or "ball".
        confidence: The failure probability of the radius.

    Returns:
        The least value of `noise_widths`.
    """
    widths = noise_widths(
        request, coordinates=coordinates, clients=clients, bound=bound, shape=shape, confidence=confidence
    )
    return min(widths.values())


@lru_cache(maxsize=4096)
def _width(request: PrivacyRequest, coordinates: int, clients: int, shape: str, confidence: float) -> float:
    """Return the predicted error for a clipping bound of one."""
    if request.mechanism_noise in request.trust_model.quick_noises:
        mechanism = calibrate(request, coordinates=coordinates, cohort=clients, bound=1.0, shape=shape)
        diagonal = np.full((1, coordinates), coordinates**-0.5)
        return float(mechanism.error_radius(diagonal, np.zeros(1), confidence, clients)[0])
    deviation = typical_deviation(request, coordinates=coordinates, clients=clients, bound=1.0, shape=shape)
    draws = clients if request.trust_model.noise_per_client else 1
    return deviation * _tail_factor(request.mechanism_noise, coordinates, confidence, draws)


@lru_cache(maxsize=1024)
def _tail_factor(noise: str, coordinates: int, confidence: float, draws: int) -> float:
    """Return the radius of a sum of draws of noise in a diagonal direction, divided by its deviation."""
    if _tails_of(noise) == "normal":
        return sub_gaussian_factor(confidence)
    law = LAWS[LAWS[noise].law_of_sum or noise](scale=_FINE_SCALE)
    diagonal = np.full((1, coordinates), coordinates**-0.5)
    radius = law.radius(diagonal, np.zeros(1), confidence, draws)
    return float(radius[0]) / math.sqrt(draws * law.variance(coordinates))


def typical_deviation(
    request: PrivacyRequest,
    *,
    coordinates: int,
    clients: int,
    bound: float,
    shape: str = "box",
    confidence: float = CONFIDENCE,
) -> float:
    """Return the standard deviation that privacy adds to each released mean, accurate to a few percent.

    It is computed from a formula for the noise, which is fast enough for planning. The mechanism is
    calibrated instead if the request names a mechanism, if the trust model has no formula, or if calibrating
    its noise is quick.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        clients: The number of clients that report.
        bound: The clipping bound.
        shape: "box" or "ball".
        confidence: The failure probability at which noises are compared.

    Returns:
        The standard deviation, in the units of the rewards; 0 without privacy.
    """
    return _typical_deviation(request.of_members, coordinates, clients, bound, shape, confidence)


@lru_cache(maxsize=4096)
def _typical_deviation(
    request: PrivacyRequest, coordinates: int, clients: int, bound: float, shape: str, confidence: float
) -> float:
    model = request.trust_model
    if not model.private:
        return 0.0
    request = _with_noise(request, coordinates, clients, shape, confidence)
    noise = request.mechanism_noise
    if model.typical_error is None or noise in model.quick_noises or model.named(noise) is not None:
        mechanism = calibrate(request, coordinates=coordinates, cohort=clients, bound=bound, shape=shape)
        return mechanism.error_deviation(clients)
    return model.typical_error(request, deviation_of_sum(request, coordinates, shape, 2 * bound), clients)


def _with_noise(
    request: PrivacyRequest, coordinates: int, clients: int, shape: str, confidence: float
) -> PrivacyRequest:
    """Return the request with the noise that a mechanism for it will have."""
    found = least_noise(request, coordinates=coordinates, clients=clients, shape=shape, confidence=confidence)
    return replace(request, noise=found)


def noise_tails(
    request: PrivacyRequest,
    *,
    coordinates: int,
    clients: int,
    shape: str = "box",
    confidence: float = CONFIDENCE,
) -> str:
    """Return how heavy the tails of the noise of a release are.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        coordinates: The number of values in one report.
        clients: The number of clients that report.
        shape: "box" or "ball".
        confidence: The failure probability at which noises are compared.

    Returns:
        One of the values of `NoiseLaw.tail_shape`. The sum of the noise of many clients is nearly normal. A
        single number that has noise of another shape has Laplace noise.
    """
    if not request.trust_model.private or request.trust_model.noise_per_client:
        return "normal"
    noise = _with_noise(request, coordinates, clients, shape, confidence).mechanism_noise
    tails = _tails_of(noise)
    return tails if tails == "normal" or coordinates > 1 else "each"


def _tails_of(noise: str) -> str:
    """Return `NoiseLaw.tail_shape`. Noises that are not a law of their own are bits, lists or normal."""
    return LAWS[noise].tail_shape if noise in LAWS else "normal"
