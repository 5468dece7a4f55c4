"""The Gaussian mechanism: exact δ(ε), its inverse, and the textbook formula that the paper uses.

`noise_ratio` is σ/Δ₂, the noise's standard deviation over the ℓ2 sensitivity; nothing else matters.
Balle and Wang (ICML 2018, Theorem 8) give, for every ε ≥ 0,

    δ(ε) = Φ(1/(2r) − εr) − e^ε·Φ(−1/(2r) − εr),    r = σ/Δ₂,

which is exact and decreases strictly in r, so the least noise for a stated (ε, δ) is a root.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

from dpbandits.checks import non_negative, positive, probability


def gaussian_delta(epsilon: float, noise_ratio: float) -> float:
    """The exact δ at ε of Gaussian noise with standard deviation `noise_ratio` × sensitivity."""
    return math.exp(_log_delta(non_negative(epsilon=epsilon), positive(noise_ratio=noise_ratio)))


def gaussian_noise_ratio(epsilon: float, delta: float) -> float:
    """The least σ/Δ₂ whose exact δ(ε) does not exceed `delta`."""
    non_negative(epsilon=epsilon)
    target = math.log(probability(delta=delta))

    def excess(log_ratio: float) -> float:
        return _log_delta(epsilon, math.exp(log_ratio)) - target

    low, high = 0.0, 0.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    root = float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13))
    # The root is known to about 1e-13; a step towards more noise puts the answer on the safe side.
    ratio = math.exp(root)
    while gaussian_delta(epsilon, ratio) > delta:
        ratio *= 1 + 1e-13
    return ratio


def classical_noise_ratio(epsilon: float, delta: float) -> float:
    """√(2 ln(1.25/δ))/ε, as in the paper's Gaussian mechanism; it is proved for ε < 1 only."""
    return math.sqrt(2 * math.log(1.25 / probability(delta=delta))) / positive(epsilon=epsilon)


def _log_delta(epsilon: float, ratio: float) -> float:
    """Log δ(ε). The difference of the two terms is taken in logarithms, so it cannot cancel to garbage."""
    first = float(log_ndtr(1 / (2 * ratio) - epsilon * ratio))
    second = epsilon + float(log_ndtr(-1 / (2 * ratio) - epsilon * ratio))
    if second >= first:  # only by rounding, when δ is far below the smallest float
        return -math.inf
    return first + math.log1p(-math.exp(second - first))
