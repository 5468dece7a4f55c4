"""The least noise for (ε, δ) on `coordinates` sums, each of which a client can move by `shift`.

The search starts from the Gaussian of the same (ε, δ) and deals in variances. Whatever is returned
has itself been evaluated, with the rigorous upper bound, and meets δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from dpbandits._checks import positive, probability, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._gaussian import gaussian_noise_ratio
from dpbandits.privacy.accounting._integer_sum import IntegerSum
from dpbandits.privacy.accounting._least_argument import least
from dpbandits.privacy.accounting._noise_pmf import Binomial, DiscreteLaplace, Noise
from dpbandits.privacy.accounting._skellam import Skellam

# Relative width of the final bracket, in variance.
_CLOSE = 2e-4
# No noise needs the Gaussian's variance multiplied by this.
_LARGEST_STEP = 1e9


def gaussian_variance(epsilon: float, delta: float, coordinates: int, shift: int) -> float:
    """The variance of the (ε, δ)-private Gaussian, whose sensitivity is shift·√coordinates."""
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
    """The least variance, in multiples of `unit` unless that is zero, at which δ is met."""
    target = math.log(probability(delta=delta))
    scale = unit or 1.0

    @cache
    def excess(amount: float) -> float:
        noisy = IntegerSum(noise=law(amount * scale), coordinates=coordinates, shift=shift)
        return math.log(max(noisy.delta(epsilon), 1e-300)) - target

    # A start that is given is known to be close; the Gaussian is so within some percent.
    step = 1.01 if start is None else 1 + _CLOSE
    if start is None:
        start = gaussian_variance(epsilon, delta, coordinates, shift) / scale
    first = max(1.0, round(start)) if unit else start
    low, high = _bracket(excess, first, step, whole_steps=bool(unit))
    if low == high:
        return high * scale
    found = least(excess, low, high, lambda width, near: width <= _CLOSE * near, whole=bool(unit))
    return found * scale


def _bracket(
    excess: Callable[[float], float], start: float, step: float, *, whole_steps: bool
) -> tuple[float, float]:
    """Amounts near `start`, the lower of which fails and the higher passes, by widening steps.

    Both are the same when the smallest amount there is passes already.
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
        step = step**2
        if step > _LARGEST_STEP:
            raise InvalidValue("noise", f"{high:g} times the least", "a target that such noise can meet")


def least_binomial_bits(epsilon: float, delta: float, coordinates: int, shift: int) -> int:
    """The least number of fair bits in total per coordinate; above 5000, within 0.02 % of it."""
    found = _least_variance(_fair_bits, epsilon, delta, coordinates, shift, unit=0.25)
    return round(4 * found)


def _fair_bits(variance: float) -> Noise:
    return Binomial(bits=round(4 * variance))


def least_skellam_variance(epsilon: float, delta: float, coordinates: int, shift: int) -> float:
    """The least variance of Skellam noise, within 0.02 %."""
    return _least_variance(lambda v: Skellam(variance=v), epsilon, delta, coordinates, shift)


def least_discrete_gaussian_sigma(
    epsilon: float, delta: float, coordinates: int, shift: int, *, shares: int = 1
) -> float:
    """The least scale of each of `shares` discrete Gaussians that sum to it, to 0.01 %."""
    shares = whole(1, shares=shares)

    def law(variance: float) -> Noise:
        return DiscreteGaussian(scale=math.sqrt(variance / shares), shares=shares)

    start = None
    if shares > 1:
        # A sum of shares is all but one discrete Gaussian, which is much faster to account for.
        start = least_discrete_gaussian_sigma(epsilon, delta, coordinates, shift) ** 2
    # The square root is taken here as in `law`: the scale returned is the one that was evaluated.
    variance = _least_variance(law, epsilon, delta, coordinates, shift, start=start)
    return math.sqrt(variance / shares)


def least_discrete_laplace_scale(epsilon: float, delta: float, coordinates: int, shift: int) -> float:
    """The least scale of discrete Laplace noise for δ > 0, to 0.01 %; never more than for δ = 0."""
    target = math.log(probability(delta=delta))

    def excess(scale: float) -> float:
        event = IntegerSum(noise=DiscreteLaplace(scale=scale), coordinates=coordinates, shift=shift)
        return math.log(max(event.delta(epsilon), 1e-300)) - target

    high = discrete_laplace_scale(epsilon, coordinates, shift)
    low = high / 2
    while excess(low) <= 0:
        low, high = low / 2, low
    return least(excess, low, high, lambda width, near: width <= _CLOSE / 2 * near)


def discrete_laplace_scale(epsilon: float, coordinates: int, shift: int) -> float:
    """The least scale of discrete Laplace noise for δ = 0: coordinates·shift/ε, rounded up."""
    epsilon = positive(epsilon=epsilon)
    moved = whole(1, coordinates=coordinates) * whole(1, shift=shift)
    scale = moved / epsilon
    while Fraction(scale) * Fraction(epsilon) < moved:
        scale = math.nextafter(scale, math.inf)
    return DiscreteLaplace(scale=scale).scale
