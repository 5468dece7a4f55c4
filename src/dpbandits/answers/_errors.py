"""Radii of the errors of one phase, for one direction or for several at once.

The error of ⟨θ̃, v⟩ is X_v + G_v + a pull of clipping that is bounded. X_v has a known distribution: the noise
of the mechanism and, for a normal population, everything that the people contribute. G_v is the rest. Given X
it is sub-Gaussian with proxy q_v. So for radii r_v = c·s_v + pull_v, with scales s_v that are fixed,

    P(some error exceeds its radius) ≤ E h(c, X),   h(c, X) = min(1, Σ_v exp(−(c·s_v − X_v)₊²/(2q_v))),

where a term is 1 if X_v ≥ c·s_v. The expectation is computed from N independent draws X_1, …, X_N of the
known distribution. c is chosen such that (1 + Σ_i h(c, X_i))/(N + 1) ≤ β.

Theorem. Over the draws and the study together, some error exceeds its radius with probability at most β.

Proof. Let X_0 be what the study drew, and c' the least c with Σ_(i=0…N) h(c, X_i)/(N + 1) ≤ β. c' is a
symmetric function of X_0, …, X_N, which are exchangeable. So E h(c', X_0) = E Σ_i h(c', X_i)/(N + 1) ≤ β. As
h ≤ 1, our c is at least c', and h does not increase in c. So E h(c, X_0) ≤ β. ∎

This is a Monte Carlo test (Barnard 1963): N need not be large for the statement to hold; with few draws the
radii vary more. The draws have a seed that is computed from the plan, so an answer is always the same. The
plan is fixed before the study draws its noise.

Without a known distribution, X = 0, and the radii are those of `radii` at β divided by the number of
directions.
"""

from __future__ import annotations

import hashlib
import math
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray
from dpbandits.privacy import SimulatedNoise
from dpbandits.privacy.tails import squared_norms
from dpbandits.protocol import MARGIN, CohortErrors, LinearFit, PhaseEvidence, Study, fitted

_DRAWS = 4000
_LEAST_EXPECTED = 5  # β·(N + 1) below which draws are not used: radii would rest on too few of them
_MOST_DIRECTIONS = 600  # more directions at once would need much memory
_STEPS = 12  # of the bisection; the upper end is used
_HIGHEST = 12.0  # standard deviations that a radius from draws may have
_MOST_KEPT = 100
_FACTORS: dict[tuple[Any, ...], FloatArray] = {}  # factors that were computed in this process; they are slow


class Knowledge(Enum):
    """What is known about the rewards of one person."""

    MODEL = "model"
    """The assumptions of docs/theory.md hold, with the study's heterogeneity."""
    BOUNDED = "bounded"
    """Every reward lies in the range. Nothing is known about how the rewards of one person depend on each
    other."""
    NORMAL = "normal"
    """The assumptions of docs/theory.md hold with normal distributions: the noise of a reward is N(0, 1), and
    the people's own parameters are N(θ*, σ²I), σ being the study's heterogeneity."""


def radii(
    study: Study, evidence: PhaseEvidence, directions: FloatArray, chance: float, knowledge: Knowledge
) -> FloatArray:
    """Return radii that the errors of ⟨θ̃, v⟩ exceed, on each side, with probability at most `chance`.

    If only the range of rewards is known, a person contributes ⟨a, y⟩ with a = A'v and y in [−1, 1] in each
    coordinate. This lies in an interval of length 2‖a‖₁, so by Hoeffding's lemma the mean of n people has the
    variance proxy ‖a‖₁²/n, however the rewards of one person depend on each other. It also holds for people
    who are drawn from a finite table without replacement (Hoeffding 1963).

    If each person reports on one option, the n(x) rewards of option x lie in [−1, 1], and the means of
    different options are independent. So the proxy is Σ a_x²/n(x), which is the one of the model with σ = 0.

    Args:
        study: The study.
        evidence: One phase.
        directions: One direction v per row.
        chance: The probability.
        knowledge: What is known about the people.
    """
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    coefficients, off = directions @ fit.map, misfit_of(study, fit, directions)
    if knowledge is not Knowledge.BOUNDED or evidence.counts:
        return fit.errors.radius(coefficients, directions, confidence=chance) + off
    proxies = (study.bound * np.abs(coefficients).sum(axis=1)) ** 2 / evidence.reports
    mechanism = evidence.plan.asked_mechanism
    return mechanism.error_radius(coefficients, proxies, chance, evidence.reports) + off


def misfit_of(study: Study, fit: LinearFit, directions: FloatArray) -> FloatArray:
    """Return how far the study's misfit m may move the estimate of each direction from a mean reward.

    It is m·(Σ|c_i| + 2), where c are the coefficients of the averages. The 2 allows for a difference of two
    actions, neither of which has the mean reward that is linear in its features.

    Args:
        study: The study.
        fit: The fit of one phase.
        directions: Features of actions, or differences of the features of two actions.
    """
    if not study.misfit:
        return np.zeros(len(directions))
    moved = np.abs(fit.on_averages(directions)).sum(axis=1)
    return np.asarray(study.misfit * (moved + 2), dtype=np.float64)


class PhaseErrors:
    """The errors of the estimate of one phase.

    Args:
        study: The study.
        evidence: The phase.
        knowledge: What is known about the people.
        clipping: The probability with which clipping may move the means further than radii from draws allow.
            By default it is the study's own.
    """

    def __init__(
        self, study: Study, evidence: PhaseEvidence, knowledge: Knowledge, *, clipping: float = 0.0
    ) -> None:
        self._study, self._evidence, self._knowledge = study, evidence, knowledge
        self._clipping = clipping
        fit = fitted(study, evidence)
        assert isinstance(fit, LinearFit)
        self._fit = fit

    def each(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return radii, each of which is exceeded with probability at most `chance`, on each side.

        Args:
            directions: One direction per row.
            chance: The probability.
        """
        if not self.draws_suffice(len(directions), chance):
            return self.bound(directions, chance)
        return self._from_draws(directions, chance, jointly=False)

    def joint(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return radii of which any is exceeded with probability at most `chance`, on one side.

        Args:
            directions: One direction per row.
            chance: The probability.
        """
        if not self.draws_suffice(len(directions), chance):
            return self.bound(directions, chance / max(1, len(directions)))
        return self._from_draws(directions, chance, jointly=True)

    def _from_draws(self, directions: FloatArray, chance: float, *, jointly: bool) -> FloatArray:
        known, proxies, scales = self._parts(directions)
        about = (self._evidence.plan.digest, self._evidence.reports, self._knowledge)
        key = (*about, self._study.heterogeneity, directions.tobytes(), chance, jointly)
        if key not in _FACTORS:
            while len(_FACTORS) >= _MOST_KEPT:
                del _FACTORS[next(iter(_FACTORS))]
            # Each direction alone is a group of one; all of them together are one group.
            draws = known[:, None, :] if jointly else known[:, :, None]
            shape = (1, -1) if jointly else (-1, 1)
            _FACTORS[key] = _least(draws, proxies.reshape(shape), scales.reshape(shape), chance)
        off = misfit_of(self._study, self._fit, directions)
        return _FACTORS[key] * scales + self._pull(directions) + off

    def joint_of(self, directions: FloatArray, chance: float, wanted: NDArray[np.int64]) -> FloatArray:
        """Return some of the radii that `joint` returns for all directions.

        Args:
            directions: One direction per row.
            chance: The probability.
            wanted: The rows whose radii are returned. If there are many rows, the others are not computed.
        """
        if self.draws_suffice(len(directions), chance):
            return self.joint(directions, chance)[wanted]
        return self.bound(directions[wanted], chance / max(1, len(directions)))

    def bound(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return radii without draws, each of which is exceeded with probability at most `chance`."""
        return radii(self._study, self._evidence, directions, chance, self._knowledge)

    def draws_suffice(self, directions: int, chance: float) -> bool:
        """Return whether radii for this number of directions at once are computed from draws.

        This depends on the plan and not on the release, so statements may be chosen by it.

        Args:
            directions: The number of directions.
            chance: The probability with which one of the radii may be exceeded.
        """
        if not 0 < directions <= _MOST_DIRECTIONS or self._draws is None:
            return False
        return chance * (len(self._draws) + 1) >= _LEAST_EXPECTED

    @cached_property
    def _draws(self) -> FloatArray | None:
        """Draws of the known part of θ̃ − θ*, one per row; None if nothing is known, or nothing is random."""
        errors, evidence, plan = self._fit.errors, self._evidence, self._evidence.plan
        if not isinstance(errors, CohortErrors) or evidence.counts:
            return None
        if self._study.reward_variance is not None:  # its bounds hold for limited rates only
            return None
        mechanism, normal = plan.asked_mechanism, self._knowledge is Knowledge.NORMAL
        if not normal and mechanism.error_deviation(evidence.reports) == 0:
            return None
        seed = hashlib.sha256(f"dpbandits error draws|{plan.digest}|{evidence.reports}".encode()).digest()
        rng = np.random.default_rng(list(seed))
        drawn = mechanism.noise_draws(_DRAWS, evidence.reports, SimulatedNoise(rng))
        if drawn is None:
            return None
        if not normal:
            return np.asarray(drawn @ self._fit.map.T)
        plays = rng.standard_normal((len(drawn), len(plan.plays)))
        plays /= np.sqrt(evidence.reports * errors.weights)
        drawn = drawn + (plays if plan.mixing_matrix is None else plays @ plan.mixing_matrix.T)
        people = rng.standard_normal((len(drawn), self._study.actions.dimension)) * np.sqrt(errors.common)
        return np.asarray(drawn @ self._fit.map.T + people)

    def _parts(self, directions: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return draws of X, one column per direction; the proxies q of G; and the scales s."""
        assert self._draws is not None
        errors, reports = self._fit.errors, self._evidence.reports
        assert isinstance(errors, CohortErrors)
        coefficients = directions @ self._fit.map
        proxies = self._evidence.plan.asked_mechanism.rounding_proxy(reports) * squared_norms(coefficients)
        if self._knowledge is Knowledge.MODEL:
            proxies = proxies + errors.sampling_variances(coefficients, directions)
        elif self._knowledge is Knowledge.BOUNDED:
            proxies = proxies + (self._study.bound * np.abs(coefficients).sum(axis=1)) ** 2 / reports
        known = self._draws @ directions.T
        # The draws may not decide the scales, which have to be the same for all of them.
        scales = np.sqrt(proxies + squared_norms(directions @ self._root))
        return known, proxies, np.maximum(scales, np.finfo(float).tiny)

    @cached_property
    def _root(self) -> FloatArray:
        """A factor of a covariance of X: scales rest on it, and the validity of radii does not."""
        own = self._evidence.plan.asked_mechanism.error_deviation(self._evidence.reports)
        errors, size = self._fit.errors, len(self._fit.map)
        if self._knowledge is not Knowledge.NORMAL:
            return np.asarray(own * self._fit.map)
        return np.hstack([errors.factor(self._fit.map), np.sqrt(errors.common) * np.eye(size)])

    def _pull(self, directions: FloatArray) -> FloatArray:
        """Return how far clipping may have moved the estimate.

        The bound of docs/theory.md is proportional to log(1/β) + n·p, where p is at most 2·exp(−z²/2) for the
        least margin z. The study has β = 1/(kT); here β may be larger, so the bound is shortened. The
        quotient of the two increases in p, so the largest p is safe.
        """
        errors = self._fit.errors
        assert isinstance(errors, CohortErrors)
        if self._knowledge is Knowledge.BOUNDED:  # clipping at the range loses nothing
            return np.zeros(len(directions))
        return errors.pull(directions @ self._fit.map) * self._shortening

    @cached_property
    def _shortening(self) -> float:
        each = self._clipping / max(1, len(self._evidence.clipping_bias))
        if each <= self._study.bound_failure:
            return 1.0
        clipped = self._evidence.reports * 2 * math.exp(-(MARGIN**2) / 2)
        return (math.log(1 / each) + clipped) / (math.log(1 / self._study.bound_failure) + clipped)


def _least(known: FloatArray, proxies: FloatArray, scales: FloatArray, chance: float) -> FloatArray:
    """Return the least c for each group of directions, rounded up.

    Args:
        known: Draws × groups × directions in a group.
        proxies: Groups × directions.
        scales: The same.
        chance: β.
    """
    count, groups = known.shape[:2]
    roots = np.maximum(np.sqrt(2 * proxies), 1e-9 * scales)

    def enough(factors: FloatArray) -> NDArray[np.bool_]:
        beyond = np.maximum(factors[:, None] * scales - known, 0.0) / roots
        missed = np.exp(-(beyond**2)).sum(axis=2)
        return np.asarray(1 + np.minimum(missed, 1.0).sum(axis=0) <= chance * (count + 1))

    low, high = np.zeros(groups), np.full(groups, _HIGHEST)
    found = enough(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        good = enough(middle)
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.where(found, high, np.inf)
