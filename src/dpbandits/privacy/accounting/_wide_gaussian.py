"""Closed-form bounds on δ(ε) of wide discrete Gaussians.

Upper bound: up to a factor e^h at every point, a discrete Gaussian is a continuous Gaussian of slightly
smaller variance that was rounded at random. Lower bound: a discrete Gaussian plus a little continuous noise
is, up to such a factor, a continuous Gaussian of slightly larger variance. So the δ(ε) of two continuous
Gaussians bound the δ(ε) of the discrete one (docs/accounting-proofs.md, section 12).
"""

from __future__ import annotations

import math

from dpbandits._checks import probability
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian, unevenness
from dpbandits.privacy.accounting._gaussian import gaussian_delta, gaussian_epsilon

# The standard deviation, in levels, of the random rounding. At 2 levels κ is below 2·10⁻³⁴.
SMOOTHING = 2.0
_LARGEST_SLACK = 300.0
_LARGEST_RATIO = 1e300
_LEAST_DELTA = 1e-300


def rounded_delta(epsilon: float, noise_ratio: float, slack: float) -> float:
    """Return min(1, e^h·δ(ε − 2h)), where δ is that of the continuous Gaussian and h is the `slack`."""
    if not slack <= _LARGEST_SLACK:
        return 1.0
    return min(1.0, math.exp(slack) * gaussian_delta(epsilon - 2 * slack, noise_ratio))


def rounded_epsilon(delta: float, noise_ratio: float, slack: float) -> float:
    """Return an ε with rounded_delta(ε) ≤ δ, or infinity if there is none."""
    allowed = probability(delta=delta) * math.exp(-min(slack, _LARGEST_SLACK))
    if not slack <= _LARGEST_SLACK or allowed < _LEAST_DELTA:
        return math.inf
    return gaussian_epsilon(allowed, noise_ratio) + 2 * slack


def smoothed_ratio(variance: float, distance: float) -> float:
    """Return the noise ratio of the continuous Gaussian before rounding."""
    return min(math.sqrt(variance - SMOOTHING**2) / distance, _LARGEST_RATIO)


def rounding_slack(noise: DiscreteGaussian, coordinates: int) -> float:
    """Return h, a bound on the difference between the log-probabilities of the two distributions."""
    return coordinates * (4 * unevenness(SMOOTHING) + noise.share_error)


def wide_bounds(
    noise: DiscreteGaussian, coordinates: int, distance: float, epsilon: float
) -> tuple[float, float]:
    """Return (lower, upper) bounds on δ(ε) for two inputs at that ℓ2 distance."""
    ratio, slack = smoothed_ratio(noise.variance, distance), rounding_slack(noise, coordinates)
    upper = rounded_delta(epsilon, ratio, slack)
    # The lower bound adds continuous noise of deviation c = SMOOTHING; the lattice sum then has width at
    # least c/√2.
    slack = coordinates * (4 * unevenness(SMOOTHING / math.sqrt(2)) + noise.share_error)
    ratio = min(math.sqrt(noise.variance + SMOOTHING**2) / distance, _LARGEST_RATIO)
    lower = math.exp(-slack) * gaussian_delta(epsilon + 2 * slack, ratio) if slack < _LARGEST_SLACK else 0.0
    return min(lower, upper), upper
