"""How much work an account may take, so that nobody can be kept busy by the parameters of a mechanism.

The limits allow about one second of processor time for δ at one ε. Every mechanism that calibration makes is
within them. An account that would need more is replaced by one for less noise, which is an upper bound, as
more noise never hurts (docs/accounting-proofs.md, section 3). If that is not possible, δ ≤ 1 is all that is
proved.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._noise_pmf import Binomial, Noise
from dpbandits.privacy.accounting._skellam import Skellam

MOST_OUTCOMES = 1 << 22
"""Outcomes of all coordinates' pairs that are listed, in all."""
MOST_POINTS = 3 * 10**7
"""Grid points of all sign patterns' transforms, in all."""
MOST_SPLITS = 20_000
"""Sign patterns that are looked at."""

# A step of Skellam's recurrence takes as long as several outcomes. The time of a convolution of shares grows
# with the square of its outcomes.
_STEPS = 0.3
_MOST_CONVOLVED = 30_000


class TooCostlyError(Exception):
    """The account would take too much work."""


def affordable(noise: Noise, span: int, log_tail: float, most: int) -> Noise:
    """A law of at most `most` outcomes to which independent noise is added to get the given one.

    It is the given law itself wherever that has so few. `span` is the distance of the farthest encoded ends.
    """
    reach = (most - 2 * span) / 2 - 2
    if reach <= log_tail:
        raise TooCostlyError
    if isinstance(noise, Binomial):
        return replace(noise, bits=min(noise.bits, max(1, math.floor(2 * reach * reach / log_tail))))
    if isinstance(noise, Skellam):
        largest = (min(reach, _STEPS * most) - log_tail / 3) ** 2 / (2 * log_tail)
        return replace(noise, variance=min(noise.variance, largest))
    if isinstance(noise, DiscreteGaussian):
        return _fewer_shares(noise, reach, log_tail)
    return noise


def _fewer_shares(noise: DiscreteGaussian, reach: float, log_tail: float) -> DiscreteGaussian:
    """As many shares as can be listed, or convolved where they have to be."""
    if not noise.nearly_one:
        reach = min(reach, _MOST_CONVOLVED / 2)
        log_tail += 50  # what a convolution needs beyond the outcomes that are asked for
    shares = math.floor(min((reach / noise.scale) ** 2 / (2 * log_tail), noise.shares))
    if shares < 1:
        raise TooCostlyError
    return replace(noise, shares=shares)


def is_wide(noise: Noise, span: int, log_tail: float) -> bool:
    """Whether the law has too many outcomes to be listed but is wide enough for a closed form."""
    if not isinstance(noise, DiscreteGaussian) or not noise.nearly_one:
        return False
    return 2 * (noise.reach(log_tail) + span + 2) > MOST_OUTCOMES
