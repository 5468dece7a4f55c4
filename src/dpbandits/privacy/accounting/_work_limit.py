"""Limits on the work of one account, so that hostile parameters cannot keep a server busy.

The limits allow about one second of processor time for δ at one ε. Every mechanism made by calibration is
within them. An account that would need more is computed for less noise instead. The δ of less noise is an
upper bound, because more noise never reduces privacy (docs/accounting-proofs.md, section 3). If that is not
possible either, the result is δ ≤ 1.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._noise_pmf import Binomial, Noise
from dpbandits.privacy.accounting._skellam import Skellam

MOST_OUTCOMES = 1 << 22
"""The largest total number of listed outcomes, over the pairs of all coordinates."""
MOST_POINTS = 3 * 10**7
"""The largest total number of grid points, over the transforms of all sign patterns."""
MOST_SPLITS = 20_000
"""The largest number of sign patterns."""

# One step of the Skellam recurrence takes as long as several outcomes. The time of a convolution of shares
# grows with the square of the number of outcomes.
_STEPS = 0.3
_MOST_CONVOLVED = 30_000


class TooCostlyError(Exception):
    """The account would exceed the work limit."""


def affordable(noise: Noise, span: int, log_tail: float, most: int) -> Noise:
    """Return the noise, or less noise if the given noise has more than `most` outcomes.

    The given noise is the returned noise plus independent noise. `span` is the distance between the farthest
    encoded ends.
    """
    # A pair lists 2·(reach + span) outcomes and a few more for rounding.
    reach = (most - 2 * span) / 2 - 2
    if reach <= log_tail:
        raise TooCostlyError
    if isinstance(noise, Binomial):
        return replace(noise, bits=min(noise.bits, max(1, math.floor(2 * reach * reach / log_tail))))
    if isinstance(noise, Skellam):
        # Solve reach = √(2vL) + L/3 for v, with L = log_tail.
        largest = (min(reach, _STEPS * most) - log_tail / 3) ** 2 / (2 * log_tail)
        return replace(noise, variance=min(noise.variance, largest))
    if isinstance(noise, DiscreteGaussian):
        return _fewer_shares(noise, reach, log_tail)
    return noise


def _fewer_shares(noise: DiscreteGaussian, reach: float, log_tail: float) -> DiscreteGaussian:
    """Return the distribution with as many shares as can be listed or, where necessary, convolved."""
    if not noise.nearly_one:
        reach = min(reach, _MOST_CONVOLVED / 2)
        log_tail += 50  # a convolution needs more outcomes than are requested
    shares = math.floor(min((reach / noise.scale) ** 2 / (2 * log_tail), noise.shares))
    if shares < 1:
        raise TooCostlyError
    return replace(noise, shares=shares)


def is_wide(noise: Noise, span: int, log_tail: float) -> bool:
    """Return whether there are too many outcomes to list, but a closed form applies."""
    if not isinstance(noise, DiscreteGaussian) or not noise.nearly_one:
        return False
    return 2 * (noise.reach(log_tail) + span + 2) > MOST_OUTCOMES
