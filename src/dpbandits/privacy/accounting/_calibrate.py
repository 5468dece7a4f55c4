"""Calibration: the least noise for a given (ε, δ), for each noise distribution.

A release consists of `coordinates` sums, and one client can change each of them by up to `shift`. The search
starts from the variance of the Gaussian of the same (ε, δ). Every returned value was itself evaluated with
the rigorous upper bound and meets δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpbandits._checks import positive, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._gaussian import gaussian_noise_ratio
from dpbandits.privacy.accounting._integer_sum import IntegerSum
from dpbandits.privacy.accounting._least_argument import least, log_excess
from dpbandits.privacy.accounting._noise_pmf import Binomial, DiscreteLaplace, Noise
from dpbandits.privacy.accounting._skellam import Skellam

# Relative width of the final bracket, in variance.
_CLOSE = 2e-4
# The search gives up when its step exceeds this factor: no noise distribution needs that much more variance
# than the Gaussian.
_LARGEST_STEP = 1e9


def gaussian_variance(epsilon: float, delta: float, coordinates: int, shift: int) -> float:
    """Return the variance of the (ε, δ)-private Gaussian, whose ℓ2 sensitivity is shift·√coordinates."""
    ratio = gaussian_noise_ratio(epsilon, delta)
    return ratio**2 * whole(1, coordinates=coordinates) * whole(1, shift=shift) ** 2


def _least_variance(
    law: Callable[[float], Noise],
    epsilon: float,
    delta: float,
    coordinates: int,
    shift: int,
    *,
    unit: float = 0.0,
    start: float | None = None,
) -> float:
    """Return the least variance at which δ is met, in multiples of `unit` unless `unit` is zero.

    Args:
        law: Builds the noise distribution of a given variance.
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        coordinates: The number of sums.
        shift: The largest change of one sum by one client.
        unit: The step between admissible variances; 0 if every variance is admissible.
        start: A variance known to be close to the result. If None, the search starts at the variance of the
            Gaussian.
    """
    scale = unit or 1.0

    def delta_at(amount: float) -> float:
        return IntegerSum(noise=law(amount * scale), coordinates=coordinates, shift=shift).delta(epsilon)

    # The logarithm of δ is nearly linear in the variance, which suits the secant search.
    excess = log_excess(delta_at, delta)
    # A given start is known to be close. The Gaussian's variance is within a few percent.
    step = 1.01 if start is None else 1 + _CLOSE
    if start is None:
        start = gaussian_variance(epsilon, delta, coordinates, shift) / scale
    first = max(1.0, round(start)) if unit else start
    low, high = _bracket(excess, first, step, whole_steps=bool(unit))
    if low != high:
        high = least(excess, low, high, lambda width, near: width <= _CLOSE * near, whole=bool(unit))
    return high * scale


def _bracket(
    excess: Callable[[float], float], start: float, step: float, *, whole_steps: bool
) -> tuple[float, float]:
    """Return two amounts near `start`; the lower one fails and the higher one passes.

    The steps widen: each is the square of the one before. Both amounts are equal if the smallest possible
    amount passes.
    """
    passes = excess(start) <= 0
    low = high = start
    while True:
        if passes:
            low = max(1.0, math.floor(high / step)) if whole_steps else high / step
            if excess(low) > 0 or low == high:
                return low, high
            high = low
        else:
            high = max(low + 1, math.ceil(low * step)) if whole_steps else low * step
            if excess(high) <= 0:
                return low, high
            low = high
        # Squaring keeps the first steps short, because the start is close, and still reaches any amount.
        step = step**2
        if step > _LARGEST_STEP:
            raise InvalidValue("noise", f"{high:g} without success", "an (ε, δ) that this noise can meet")


def least_binomial_bits(epsilon: float, delta: float, coordinates: int, shift: int) -> int:
    """Return the least number of fair bits per coordinate, summed over all clients.

    Args:
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        coordinates: The number of sums that are released.
        shift: The largest change of one sum by one client.

    Returns:
        The number of bits. Up to 5000 it is exact; above, it is at most 0.02 % too large.

    Raises:
        InvalidValue: If an argument is out of range or no amount of noise meets the guarantee.
    """
    # A fair bit has variance 1/4.
    needed = _least_variance(
        lambda v: Binomial(bits=round(4 * v)), epsilon, delta, coordinates, shift, unit=0.25
    )
    return round(4 * needed)


def least_skellam_variance(epsilon: float, delta: float, coordinates: int, shift: int) -> float:
    """Return the least variance of Skellam noise.

    Args:
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        coordinates: The number of sums that are released.
        shift: The largest change of one sum by one client.

    Returns:
        The variance, at most 0.02 % too large.

    Raises:
        InvalidValue: If an argument is out of range or no amount of noise meets the guarantee.
    """
    return _least_variance(lambda v: Skellam(variance=v), epsilon, delta, coordinates, shift)


def least_discrete_gaussian_sigma(
    epsilon: float, delta: float, coordinates: int, shift: int, *, shares: int = 1
) -> float:
    """Return the least scale of discrete Gaussian noise that is added in equal shares.

    Args:
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        coordinates: The number of sums that are released.
        shift: The largest change of one sum by one client.
        shares: The number of independent discrete Gaussians that are summed.

    Returns:
        The scale of one share, at most 0.01 % too large.

    Raises:
        InvalidValue: If an argument is out of range or no amount of noise meets the guarantee.
    """
    shares = whole(1, shares=shares)

    def law(variance: float) -> Noise:
        return DiscreteGaussian(scale=math.sqrt(variance / shares), shares=shares)

    start = None
    if shares > 1:
        # A sum of shares is nearly one discrete Gaussian of the same variance, for which δ is much faster to
        # compute. So that solution is the start.
        start = least_discrete_gaussian_sigma(epsilon, delta, coordinates, shift) ** 2
    # The square root is taken exactly as in `law`, so the returned scale is the one that was evaluated.
    variance = _least_variance(law, epsilon, delta, coordinates, shift, start=start)
    return math.sqrt(variance / shares)


def least_discrete_laplace_scale(epsilon: float, delta: float, coordinates: int, shift: int) -> float:
    """Return the least scale of discrete Laplace noise for δ > 0.

    Args:
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee, above 0.
        coordinates: The number of sums that are released.
        shift: The largest change of one sum by one client.

    Returns:
        The scale, at most 0.01 % too large and never more than the scale for δ = 0.

    Raises:
        InvalidValue: If an argument is out of range.
    """

    def delta_at(scale: float) -> float:
        noise = DiscreteLaplace(scale=scale)
        return IntegerSum(noise=noise, coordinates=coordinates, shift=shift).delta(epsilon)

    excess = log_excess(delta_at, delta)
    # The scale for δ = 0 meets every δ > 0; halve it until δ is exceeded.
    high = discrete_laplace_scale(epsilon, coordinates, shift)
    low = high / 2
    while excess(low) <= 0:
        low, high = low / 2, low
    return least(excess, low, high, lambda width, near: width <= _CLOSE / 2 * near)


def discrete_laplace_scale(epsilon: float, coordinates: int, shift: int) -> float:
    """Return the least scale of discrete Laplace noise for δ = 0: coordinates·shift/ε, rounded up.

    Args:
        epsilon: The ε of the guarantee.
        coordinates: The number of sums that are released.
        shift: The largest change of one sum by one client.

    Returns:
        The scale. In exact arithmetic, scale·ε ≥ coordinates·shift.

    Raises:
        InvalidValue: If an argument is out of range.

    Example:
        >>> from dpbandits.privacy.accounting import discrete_laplace_scale
        >>> discrete_laplace_scale(2.0, coordinates=4, shift=100)
        200.0
    """
    moved = whole(1, coordinates=coordinates) * whole(1, shift=shift)
    return DiscreteLaplace(scale=pure_scale(epsilon, moved)).scale


def pure_scale(epsilon: float, distance: float) -> float:
    """Return the least scale of noise whose log density is 1/scale-Lipschitz: distance/ε, rounded up.

    Args:
        epsilon: The ε of the guarantee.
        distance: The largest distance by which one client moves what is released.

    Returns:
        The scale. In exact arithmetic, scale·ε ≥ distance.

    Raises:
        InvalidValue: If an argument is out of range.
    """
    scale = positive(distance=distance) / positive(epsilon=epsilon)
    # Float division may round down, and then ε would be exceeded by a rounding error.
    while Fraction(scale) * Fraction(epsilon) < Fraction(distance):
        scale = math.nextafter(scale, math.inf)
    return scale
