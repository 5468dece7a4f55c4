"""The worst pair of one coordinate: the two distributions that an adversary must distinguish.

P is the distribution of noise plus the encoding of one end of the box, and Q that of noise plus the encoding
of the other end. docs/accounting-proofs.md (section 2) proves that these two are the worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting._noise_pmf import UNIT_ROUNDOFF, DiscreteLaplace, Noise

Law = tuple[tuple[int, float], ...]
"""A distribution on whole numbers, as (value, probability) pairs."""


def _checked(field: str, law: Law) -> Law:
    """Return a distribution on whole numbers, as sorted (value, probability) pairs that sum to one."""
    kept = tuple(sorted((int(value), float(chance)) for value, chance in law if chance != 0))
    values = [value for value, _ in kept]
    total = math.fsum(chance for _, chance in kept)
    positive = all(chance > 0 for _, chance in kept)
    if not positive or len(set(values)) < len(values) or not abs(total - 1) <= 1e-14:
        raise InvalidValue(field, law, "distinct values with probabilities that sum to 1")
    return kept


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The encodings of the two ends of the box, each a distribution on whole numbers.

    The likelihood ratio of `high` to `low` must not decrease in the value: high(i)·low(j) ≤ high(j)·low(i)
    for i < j.

    Attributes:
        low: The encoding of the lower end, as (value, probability) pairs.
        high: The encoding of the upper end.

    Raises:
        InvalidValue: If the probabilities do not sum to 1 or the likelihood ratio decreases.
    """

    low: Law
    high: Law

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _checked("low", self.low))
        object.__setattr__(self, "high", _checked("high", self.high))
        low, high = dict(self.low), dict(self.high)
        values = sorted(low | high)
        below, above = (np.array([law.get(value, 0.0) for value in values]) for law in (low, high))
        # Entry (i, j) with i < j is high(i)·low(j) − low(i)·high(j), which must not be positive.
        cross = np.triu(np.outer(above, below) - np.outer(below, above), 1)
        if (cross > 1e-15).any():
            expected = "a distribution whose likelihood ratio to `low` never decreases"
            raise InvalidValue("high", self.high, expected)

    @classmethod
    def whole(cls, shift: int) -> Ends:
        """Return the ends 0 and `shift`, without rounding.

        Args:
            shift: The upper end, at least 1.
        """
        return cls(low=((0, 1.0),), high=((whole(1, shift=shift), 1.0),))

    @classmethod
    def rounded(cls, low: float, high: float) -> Ends:
        """Return two positions, each rounded at random to a neighbouring whole number, without bias.

        Args:
            low: The lower position.
            high: The upper position, above `low`.

        Raises:
            InvalidValue: If a position is not finite or the positions are not in order.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidValue("high", high, f"a finite position above low = {low}")
        return cls(low=_rounding(low), high=_rounding(high))

    @property
    def mirrored(self) -> bool:
        """Whether a reflection of the axis exchanges the two ends."""
        total = self.low[0][0] + self.high[-1][0]
        return tuple((total - value, chance) for value, chance in reversed(self.low)) == self.high

    @property
    def distance(self) -> float:
        """The difference of the two means."""
        low = math.fsum(value * chance for value, chance in self.low)
        return math.fsum(value * chance for value, chance in self.high) - low


def _rounding(position: float) -> Law:
    """Return the distribution of a position rounded at random without bias."""
    floor = math.floor(position)
    return ((floor, floor + 1 - position), (floor + 1, position - floor))


@dataclass(frozen=True, kw_only=True)
class Pair:
    """log P and log Q on the listed outcomes.

    Attributes:
        log_p: The logarithms of P.
        log_q: The logarithms of Q; −∞ if an outcome is impossible under Q.
        missing: A bound on the P-mass of unlisted outcomes.
        error: A bound on the absolute error of each logarithm.
        swapped: A bound on the total-variation distance between the listed distributions and the exact ones.
    """

    log_p: FloatArray
    log_q: FloatArray
    missing: float
    error: float
    swapped: float

    @cached_property
    def finite(self) -> tuple[FloatArray, FloatArray]:
        """The losses log(P/Q) and the log-masses under P of outcomes possible under both."""
        both = np.isfinite(self.log_q)
        return self.log_p[both] - self.log_q[both], self.log_p[both]

    def certain(self) -> float:
        """Return the P-mass of listed outcomes that are impossible under Q: their loss is infinite."""
        return float(np.exp(self.log_p[~np.isfinite(self.log_q)]).sum())


def worst_pair(noise: Noise, first: Law, second: Law, log_tail: float) -> Pair:
    """Return P = noise + first and Q = noise + second, on all but 2e^{−log_tail} of P."""
    if isinstance(noise, DiscreteLaplace):
        return _laplace_pair(noise, first, second)
    reach = noise.reach(log_tail)
    start = math.floor(noise.centre - reach) + first[0][0]
    stop = math.ceil(noise.centre + reach) + first[-1][0] + 1
    # P at outcome y needs the noise at y − e for every encoded value e, and so does Q.
    lowest = start - max(first[-1][0], second[-1][0])
    weights = noise.log_weights(lowest, stop - 1 - min(first[0][0], second[0][0]))
    log_mass = weights.values - logsumexp(weights.values)
    log_p, log_q = (mixture(log_mass, law, start - lowest, stop - lowest) for law in (first, second))
    listed = np.isfinite(log_p)
    log_p, log_q = log_p[listed], log_q[listed]
    missing = 2 * math.exp(-log_tail)
    # The normalising sum lacks at most `missing` and inherits the error of the weights. A logarithm of size D
    # is rounded by u·D, and the exponentials and sums of the mixture add a few u.
    depth = -float(log_p.min()) + float(np.abs(log_q[np.isfinite(log_q)]).max(initial=0.0))
    error = 2 * weights.error + 2 * missing + UNIT_ROUNDOFF * (64 + 4 * depth)
    return Pair(log_p=log_p, log_q=log_q, missing=missing, error=error, swapped=weights.swapped)


def _laplace_pair(noise: DiscreteLaplace, first: Law, second: Law) -> Pair:
    """Return the pair for Laplace noise, on all outcomes.

    log P/Q is constant below the lowest encoded value, and constant above the highest. So each tail is one
    outcome, of 1/(1 − q) times the mass at its end, q = e^{−1/scale}.
    """
    lowest, highest = min(first[0][0], second[0][0]), max(first[-1][0], second[-1][0])
    span, places = highest - lowest, np.arange(lowest - highest, highest - lowest + 1)
    log_stop = math.log(-math.expm1(-1 / noise.scale))
    log_mass = -np.abs(places) / noise.scale + (log_stop - math.log1p(math.exp(-1 / noise.scale)))
    pair = []
    for law in (first, second):
        log_law = mixture(log_mass, tuple((v - lowest, p) for v, p in law), span, 2 * span + 1).copy()
        # The end points hold the whole geometric tails: 1/(1 − q) times their own mass.
        log_law[[0, -1]] -= log_stop
        pair.append(log_law)
    depth = span / noise.scale - 2 * log_stop
    error = UNIT_ROUNDOFF * (64 + 8 * depth)
    return Pair(log_p=pair[0], log_q=pair[1], missing=0.0, error=error, swapped=0.0)


def mixture(log_mass: FloatArray, law: Law, start: int, stop: int) -> FloatArray:
    """Return the logarithm of the distribution of noise plus `law` at start … stop − 1.

    Args:
        log_mass: The logarithms of the probabilities, or of weights, of the noise at 0, 1, 2 …
        law: The distribution that is added, as (value, probability) pairs.
        start: The first outcome; no value of `law` is above it.
        stop: The outcome after the last one.

    Returns:
        One logarithm per outcome.
    """
    rows = [log_mass[start - value : stop - value] for value, _ in law]
    if len(rows) == 1:
        return rows[0]
    if len(rows) == 2:
        (_, one), (_, other) = law
        return np.logaddexp(rows[0] + math.log(one), rows[1] + math.log(other))
    mixture = logsumexp(np.array(rows), axis=0, b=np.array([[chance] for _, chance in law]))
    return np.asarray(mixture, dtype=np.float64)


def loss_slack(pairs: Sequence[Pair], split: Sequence[int]) -> float:
    """Return a bound on |log(computed/true)| of the P- or Q-mass of any set of composed outcomes.

    Per coordinate it covers the error of the logarithms, the rounding of a loss and of its place in a grid
    cell, and the rounding of sums.
    """
    errors = (pair.error + UNIT_ROUNDOFF * (len(pair.log_p) + 64) for pair in pairs)
    return math.fsum(count * error for count, error in zip(split, errors, strict=True))


def swap_cost(pairs: Sequence[Pair], split: Sequence[int], epsilon: float) -> float:
    """Return how much δ(ε) can change when the listed distributions replace the exact ones.

    It is TV(P) + e^ε·TV(Q).
    """
    total = math.fsum(count * pair.swapped for count, pair in zip(split, pairs, strict=True))
    return min(total * (1 + math.exp(min(epsilon, 600.0))), 1.0)
