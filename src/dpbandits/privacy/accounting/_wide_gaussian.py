"""δ(ε) of wide discrete Gaussians in closed form, from above and below.

A discrete Gaussian is, up to a factor e^h at every point, a continuous one of a little less variance that was
rounded at random. With a little continuous noise added it is, up to such a factor, a continuous one of a
little more variance. So δ(ε) of the continuous law bounds it on either side (docs/accounting-proofs.md,
section 12).
"""

from __future__ import annotations

import math

from dpbandits._checks import probability
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian, unevenness
from dpbandits.privacy.accounting._gaussian import gaussian_delta, gaussian_epsilon

SMOOTHING = 2.0
_LARGEST_SLACK = 300.0
_LARGEST_RATIO = 1e300
_LEAST_DELTA = 1e-300


def rounded_delta(epsilon: float, noise_ratio: float, slack: float) -> float:
    """min(1, e^h·δ(ε − 2h)) of the continuous law of that noise ratio, h being `slack`."""
    if not slack <= _LARGEST_SLACK:
        return 1.0
    return min(1.0, math.exp(slack) * gaussian_delta(epsilon - 2 * slack, noise_ratio))


def rounded_epsilon(delta: float, noise_ratio: float, slack: float) -> float:
    """An ε with rounded_delta(ε) ≤ δ, infinite if there is none."""
    allowed = probability(delta=delta) * math.exp(-min(slack, _LARGEST_SLACK))
    if not slack <= _LARGEST_SLACK or allowed < _LEAST_DELTA:
        return math.inf
    return gaussian_epsilon(allowed, noise_ratio) + 2 * slack


def smoothed_ratio(variance: float, distance: float) -> float:
    """The noise ratio of the continuous Gaussian before it is rounded."""
    return min(math.sqrt(variance - SMOOTHING**2) / distance, _LARGEST_RATIO)


def rounding_slack(noise: DiscreteGaussian, coordinates: int) -> float:
    """h: by how much the logarithms of the two laws' probabilities differ at most."""
    return coordinates * (4 * unevenness(SMOOTHING) + noise.share_error)


def wide_bounds(
    noise: DiscreteGaussian, coordinates: int, distance: float, epsilon: float
) -> tuple[float, float]:
    """(lower, upper) around δ(ε) of two inputs at that ℓ2 distance."""
    upper = rounded_delta(
        epsilon, smoothed_ratio(noise.variance, distance), rounding_slack(noise, coordinates)
    )
    slack = coordinates * (4 * unevenness(SMOOTHING / math.sqrt(2)) + noise.share_error)
    ratio = min(math.sqrt(noise.variance + SMOOTHING**2) / distance, _LARGEST_RATIO)
    lower = math.exp(-slack) * gaussian_delta(epsilon + 2 * slack, ratio) if slack < _LARGEST_SLACK else 0.0
    return min(lower, upper), upper
