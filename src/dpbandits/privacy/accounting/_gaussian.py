"""The analytic Gaussian mechanism: exact δ(ε) and its inverses (Balle and Wang, ICML 2018, Theorem 8).

With noise of standard deviation σ on a query of ℓ2 sensitivity Δ, and ρ = σ/Δ (the `noise ratio`),

    δ(ε) = Φ(1/(2ρ) − ερ) − e^ε Φ(−1/(2ρ) − ερ).

The two terms can agree in all digits, so the code does not compute this difference. Let y = ερ − 1/(2ρ) and x
= ερ + 1/(2ρ). Because (x² − y²)/2 = ε, the densities satisfy φ(y) = e^ε φ(x). With the Mills ratio R(t) =
Φ(−t)/φ(t),

    δ(ε) = φ(y) · (R(y) − R(x)),        −R'(t) = 1 − t·R(t) > 0,

so for a small x − y the difference is the integral of a positive function.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from dpbandits._checks import non_negative, positive, probability

# If y is above _FARTHEST, its square overflows. A ratio below _LEAST_RATIO hides nothing: δ is 1.
_FARTHEST, _LEAST_RATIO = 1e150, 1e-150
_LARGEST_EPSILON = 1e290

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def _mills(points: np.ndarray) -> np.ndarray:
    """Return the Mills ratio R(t) = Φ(−t)/φ(t) = √(π/2)·erfcx(t/√2)."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(points / math.sqrt(2)), dtype=np.float64)


def _log_density(point: float) -> float:
    """Return the logarithm of the standard normal density."""
    return -0.5 * point * point - 0.5 * math.log(2 * math.pi)


def gaussian_log_delta(epsilon: float, noise_ratio: float) -> float:
    """Return the logarithm of the least δ for which the Gaussian mechanism is (ε, δ)-private, or −∞."""
    epsilon = non_negative(epsilon=epsilon)
    ratio = positive(noise_ratio=noise_ratio)
    width = 1 / max(ratio, _LEAST_RATIO)
    lower, upper = epsilon * ratio - width / 2, epsilon * ratio + width / 2
    if lower > _FARTHEST:
        return -math.inf
    if lower < 0 and width >= 0.5:
        # Φ(−y) ≥ ½ and x − y ≥ ½, so the difference is at least a fifth of the first term: little cancels.
        second = math.exp(_log_density(lower)) * float(_mills(np.array(upper)))
        return math.log(float(ndtr(-lower)) - second)
    if width < 0.5:
        # R(y) − R(x) as an integral of 1 − tR(t) by a 20-point Gauss rule. Every term is positive, so nothing
        # cancels.
        points = lower + width * (_NODES + 1) / 2
        difference = float(_WEIGHTS @ (1 - points * _mills(points))) * width / 2
    else:
        difference = float(_mills(np.array(lower)) - _mills(np.array(upper)))
    # For y above 10⁷ the difference may cancel to zero, but there the density is below e^(−10¹³).
    return _log_density(lower) + math.log(max(difference, 1e-300))


def gaussian_delta(epsilon: float, noise_ratio: float) -> float:
    """Return the least δ for which the Gaussian mechanism is (ε, δ)-private.

    For ε < 0 it returns the hockey-stick divergence at e^ε < 1, which is 1 − e^ε·(1 − δ(−ε)). This follows
    because for any two distributions Σ(P − αQ)₊ = 1 − α + α·Σ(Q − P/α)₊, and the two Gaussians are mirror
    images of each other.

    Args:
        epsilon: Any real number.
        noise_ratio: The standard deviation of the noise divided by the ℓ2 sensitivity.

    Returns:
        The exact δ, to about 10⁻¹² relative error.

    Raises:
        InvalidValue: If `noise_ratio` is not positive.
    """
    if epsilon < 0:
        return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(-epsilon, noise_ratio)
    return math.exp(gaussian_log_delta(epsilon, noise_ratio))


@lru_cache(maxsize=1024)
def gaussian_noise_ratio(epsilon: float, delta: float) -> float:
    """Return the least ratio σ/Δ₂ for which the Gaussian mechanism is (ε, δ)-private.

    Args:
        epsilon: The ε of the guarantee, at least 0.
        delta: The δ of the guarantee, strictly between 0 and 1.

    Returns:
        The ratio. The returned value was itself verified to meet δ.

    Raises:
        InvalidValue: If an argument is out of range.
    """
    epsilon = non_negative(epsilon=epsilon)
    target = math.log(probability(delta=delta))

    def excess(log_ratio: float) -> float:
        return gaussian_log_delta(epsilon, math.exp(log_ratio)) - target

    # Start near 1/√(2ε), the ratio for large ε, and widen the bracket until the excess changes sign in it.
    low = high = -0.5 * math.log(2 * epsilon + 1)
    while excess(low) <= 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
    log_ratio = float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    # The evaluation has a relative error of about 10⁻¹². Increase the ratio until the margin exceeds that.
    while excess(log_ratio) > -1e-11:
        log_ratio += 1e-13 * max(1.0, abs(log_ratio))
    return math.exp(log_ratio)


def gaussian_epsilon(delta: float, noise_ratio: float) -> float:
    """Return the least ε for which the Gaussian mechanism is (ε, δ)-private.

    Args:
        delta: The δ of the guarantee, strictly between 0 and 1.
        noise_ratio: The standard deviation of the noise divided by the ℓ2 sensitivity.

    Returns:
        The ε, to about 10⁻¹², or infinity if it is above 10²⁹⁰.

    Raises:
        InvalidValue: If an argument is out of range.
    """
    target = math.log(probability(delta=delta))

    def excess(epsilon: float) -> float:
        return gaussian_log_delta(epsilon, noise_ratio) - target

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > _LARGEST_EPSILON:
            return math.inf
    # Add more than the tolerance of the root search, so that the result errs on the safe side.
    return float(brentq(excess, 0.0, high, xtol=1e-13)) + 1e-12


def classical_noise_ratio(epsilon: float, delta: float) -> float:
    """Return the ratio of the classical Gaussian mechanism, √(2 ln(1.25/δ))/ε.

    It is proved for ε < 1 only, and it is *not* private for large ε and δ. It exists for comparison with the
    paper.

    Args:
        epsilon: The ε of the guarantee, above 0.
        delta: The δ of the guarantee, strictly between 0 and 1.

    Returns:
        The standard deviation of the noise divided by the ℓ2 sensitivity.

    Raises:
        InvalidValue: If an argument is out of range.
    """
    epsilon = positive(epsilon=epsilon)
    return math.sqrt(2 * math.log(1.25 / probability(delta=delta))) / epsilon
