"""The Skellam distribution: the difference of two independent Poisson variables of equal mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import positive
from dpbandits.privacy.accounting._noise_pmf import UNIT_ROUNDOFF, LogWeights, running_sum, support_size


@dataclass(frozen=True, kw_only=True)
class Skellam:
    """P(Z = z) = e^{−v}·I_{|z|}(v), where v is the variance.

    A sum of independent Skellam variables is exactly a Skellam variable, so noise can be added in shares.

    Attributes:
        variance: The variance v.
    """

    variance: float
    centre, symmetric = 0.0, True

    def __post_init__(self) -> None:
        positive(variance=self.variance)

    def reach(self, log_tail: float) -> float:
        """Return √(2vL) + L/3, by Bernstein's inequality, where L is `log_tail`.

        log E e^{λZ} = v(cosh λ − 1) ≤ vλ²/(2(1 − λ/3)) for 0 ≤ λ < 3, since 2·3^{k−2} ≤ k! for k ≥ 2. So Z is
        sub-gamma on both sides (Boucheron, Lugosi and Massart 2013, Section 2.4).
        """
        return math.sqrt(2 * self.variance * log_tail) + log_tail / 3

    def log_weights(self, low: int, high: int) -> LogWeights:
        """Return the sums of log(I_k/I_{k−1}), k = 1, 2, …, outwards from zero."""
        support_size(low, high)
        last = max(abs(low), abs(high))
        excess, errors = _excesses(self.variance, last)
        sums, summing = running_sum(-np.log1p(excess))
        values = sums[np.abs(np.arange(low, high + 1))]
        error = float(np.sum(errors / (1 + excess))) - float(sums[-1]) * (summing + 3 * UNIT_ROUNDOFF)
        return LogWeights(values=values, error=error)


def _excesses(variance: float, last: int) -> tuple[FloatArray, FloatArray]:
    """Return e_k = I_{k−1}(v)/I_k(v) − 1 for k = 1 … last, and bounds on their absolute errors.

    I_{k−1} − I_{k+1} = (2k/v)·I_k gives, with d_{k+1} = 1 − I_{k+1}/I_k = e_{k+1}/(1 + e_{k+1}),

        e_k = 2k/v − d_{k+1}.

    The recurrence runs downwards, where it forgets its starting value: the derivative of d_k with respect to
    e_k is (1 + e_k)⁻². The error of e_k is the sum of the error E of d_{k+1}, u·2k/v from the quotient and
    u·e_k from the difference. On the way to d_k it shrinks by (1 + e_k)², and 2u·d_k is added. The start is
    so far above `last` that its own error, bounded by Amos, has shrunk by e^{−40}. Second-order terms change
    a bound E by a factor 1 + O(E) per step; doubling the result covers them.
    """
    # log(1 + e_k) is about asinh(k/v), so 20/asinh((last + 1)/v) steps above `last` shrink the error by about
    # e^{−40}. The exact factor is `forgotten` below.
    start = last + math.ceil(20 / math.asinh((last + 1) / variance)) + 1
    # Bounds on I_{k+1}(v)/I_k(v) at the start k: v/(k + ½ + √((k + 1 ± ½)² + v²)) (Amos 1974).
    below, above = (variance / (start + 0.5 + math.hypot(start + c, variance)) for c in (1.5, 0.5))
    shortfall, found = 1 - above, []
    for quotient in (2 * np.arange(start, 0, -1) / variance).tolist():
        excess = quotient - shortfall
        found.append(excess)
        shortfall = excess / (1 + excess)
    excesses = np.array(found[::-1])
    forgotten = math.exp(-2 * float(np.log1p(excesses[last:]).sum()))
    errors = (above - below + 8 * UNIT_ROUNDOFF) * forgotten + _added_errors(excesses, variance)[:last]
    return excesses[:last], 2 * errors


def _added_errors(excesses: FloatArray, variance: float) -> FloatArray:
    """Return what the rounding errors of all steps from the start down to k contribute at k.

    As e_k ≤ 2k/v and d_k ≤ e_k, step j adds at most 12u·j/v. Errors shrink by a_j = (1 + e_j)⁻² ≤ a_k for j ≥
    k, which leaves at most 12u/v times Σ_j j·a_k^{j−k} = k/(1 − a_k) + a_k/(1 − a_k)². Without shrinking, the
    bound is 12u/v·Σ_j j.
    """
    orders = np.arange(1, len(excesses) + 1, dtype=np.float64)
    kept = (1 + excesses) ** -2.0
    lost = excesses * (2 + excesses) * kept
    shrinking = orders / lost + kept / (lost * lost)
    plain = (len(orders) * (len(orders) + 1.0) - orders * (orders - 1)) / 2
    return np.asarray(12 * UNIT_ROUNDOFF / variance * np.minimum(shrinking, plain), dtype=np.float64)
