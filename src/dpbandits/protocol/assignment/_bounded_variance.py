"""Errors of means if single rewards have a known variance: Bernstein's bounds in place of sub-Gaussian ones.

Let single rewards lie in [−B, B] and have a variance of at most v around the mean of their client. For the
noise X of one reward, |X| ≤ b = 2B, and for all λ

    log E exp(λX) ≤ v·φ(|λ|·b)·λ²/2,   φ(x) = 2(eˣ − 1 − x)/x²,

which tends to the cumulant of a normal variable of variance v for small λ (docs/theory.md). Example: clicks
at a rate of at most 3 % have v = .03 if rewards are 0 and 1, where a sub-Gaussian bound needs .13.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.protocol._clipping import MARGIN
from dpbandits.protocol.assignment._everyone import CohortErrors

if TYPE_CHECKING:
    from dpbandits.protocol._study import Study

_LARGEST = 30.0  # arguments of φ above this would overflow; φ is then so large that no bound is useful
_HALVINGS = 40
_ROUNDS = 12
_SAFETY = 2.0  # how far a rate λ may exceed the best one of a bound, because bounds search on a grid


def growth(argument: FloatArray | float) -> FloatArray:
    """Return φ(x) = 2(eˣ − 1 − x)/x² for x ≥ 0, infinite for x above 30."""
    x = np.clip(np.asarray(argument, dtype=np.float64), 1e-4, _LARGEST)
    # Below 10⁻⁴ the quotient loses digits; φ increases, so its value there is an upper bound.
    found = 2 * (np.expm1(x) - x) / x**2 * (1 + 1e-7)
    return np.asarray(np.where(np.asarray(argument) > _LARGEST, np.inf, found), dtype=np.float64)


def proxy_of_average(study: Study, fewest: float) -> float:
    """Return the number a for which a/T can serve as a variance proxy in the bounds on clipping.

    It is the proxy of one client's average of T ≥ `fewest` rewards. The bounds on clipping need the moment
    generating function of a reported number at one rate only: `MARGIN` divided by its standard deviation.

    Args:
        study: The study. Without a `reward_variance` the result is 1.
        fewest: The fewest plays of an action in a phase.
    """
    variance = study.reward_variance
    if variance is None:
        return 1.0
    reach = MARGIN * 2 * study.bound / math.sqrt(fewest)

    def enough(proxy: float) -> bool:
        return proxy >= variance * float(growth(reach / math.sqrt(proxy)))

    if not enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if middle > 0 and enough(middle) else (middle, high)
    return high


class BoundedVarianceErrors(CohortErrors):
    """The errors of means over one cohort, if single rewards have a known variance and range."""

    @cached_property
    def _variance(self) -> float:
        variance = self.study.reward_variance
        assert variance is not None
        return min(1.0, variance)

    @cached_property
    def variances(self) -> FloatArray:
        """v/(n·T(x)) + s_n²: these choose the weights of least squares, and any weights are valid."""
        own = self.evidence.plan.asked_mechanism.error_deviation(self.evidence.reports) ** 2
        return np.asarray(self._variance / (self.evidence.reports * self.weights) + own, dtype=np.float64)

    def factor(self, coefficients: FloatArray) -> FloatArray:
        """Return a factor of the covariance with the variance v in place of 1, for best guesses."""
        plan, reports = self.evidence.plan, self.evidence.reports
        averages = coefficients if plan.mixing_matrix is None else coefficients @ plan.mixing_matrix
        own = plan.asked_mechanism.error_deviation(reports)
        scaled = averages * math.sqrt(self._variance) / np.sqrt(reports * self.weights)
        return np.hstack([scaled, own * coefficients])

    def radius(
        self, coefficients: FloatArray, directions: FloatArray, *, confidence: float | None = None
    ) -> FloatArray:
        """Return a radius by Chernoff's bound, plus the clipping bias.

        The noise of the plays has the cumulant of a normal variable with the proxy V·φ(λ·b·w), V its variance
        and w the largest weight of a single reward, for every rate up to λ. A bound that a radius r attains
        uses rates of at most r/proxy, up to the grid. So λ is increased until it is at least 2·r/proxy.
        """
        study, reports, chance = self.study, self.evidence.reports, confidence or self.study.bound_failure
        plan = self.evidence.plan
        averages = coefficients if plan.mixing_matrix is None else coefficients @ plan.mixing_matrix
        weights = np.abs(averages) / (reports * self.weights)
        spread, largest = (averages**2) @ (1 / (reports * self.weights)), weights.max(axis=1)
        others = self.common * np.einsum("ij,ij->i", directions, directions)
        plain = super().radius(coefficients, directions, confidence=chance) - self.pull(coefficients)
        rates = 2 * np.sqrt(2 * math.log(1 / chance) / np.maximum(self._variance * spread, 1e-300))
        found, reach = plain, 2 * study.bound * largest
        for _ in range(_ROUNDS):
            proxies = np.minimum(self._variance * growth(rates * reach), 1.0) * spread + others
            radius = plan.asked_mechanism.error_radius(coefficients, proxies, chance, reports)
            needed = _SAFETY * radius / np.maximum(proxies, 1e-300)
            valid = (needed <= rates) | (proxies >= spread + others)
            found = np.where(valid, np.minimum(found, radius), found)
            if valid.all():
                break
            rates = np.where(valid, rates, 1.5 * np.maximum(rates, needed))
        return np.asarray(found + self.pull(coefficients), dtype=np.float64)

    def norm_radius(
        self, coefficients: FloatArray, directions: FloatArray, *, confidence: float | None = None
    ) -> float:
        """Return the bound for 1-sub-Gaussian rewards: a bound on a length needs all rates."""
        plain = CohortErrors(self.study, self.evidence)
        return plain.norm_radius(coefficients, directions, confidence=confidence)

    def proxies(self, coefficients: FloatArray, directions: FloatArray) -> FloatArray | None:  # noqa: ARG002
        """Return None: the errors are not sub-Gaussian with a proxy that uses the variance."""
        return None

    def factors(
        self,
        map_in_span: FloatArray,  # noqa: ARG002
        covariance: FloatArray,  # noqa: ARG002
    ) -> tuple[float, float] | None:
        """Return None: every width is computed."""
        return None
