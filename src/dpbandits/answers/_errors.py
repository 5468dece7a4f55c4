"""Radii of the errors of one phase, for one direction or for several at once.

The error of ⟨θ̃, v⟩ is the sum of X_v, of G_v, and of a bounded pull by clipping. X_v has a known
distribution: the noise of the mechanism and, for a normal population, everything that the people contribute.
G_v is the rest. Given X, G_v exceeds z·√q_v with probability at most τ_v(z), a function that does not
increase. If only a variance proxy q_v is known, τ_v(z) = exp(−z²/2) (`privacy.tails`). So for radii
r_v = c·s_v + pull_v with fixed scales s_v

    P(some error exceeds its radius) ≤ E h(c, X),   h(c, X) = min(1, Σ_v τ_v((c·s_v − X_v)/√q_v)),

where a term is 1 if X_v ≥ c·s_v. The expectation is computed from N independent draws X_1, …, X_N of the
known distribution. c is chosen such that (1 + Σ_i h(c, X_i))/(N + 1) ≤ β.

Theorem. Over the draws and the study together, some error exceeds its radius with probability at most β.

Proof. Let X_0 be what the study drew, and c' the least c with Σ_(i=0…N) h(c, X_i)/(N + 1) ≤ β. c' is a
symmetric function of X_0, …, X_N, which are exchangeable. So E h(c', X_0) = E Σ_i h(c', X_i)/(N + 1) ≤ β. As
h ≤ 1, our c is at least c', and h does not increase in c. So E h(c, X_0) ≤ β. ∎

This is a Monte Carlo test (Barnard 1963). The statement holds for every N; with few draws the radii vary
more. The seed of the draws is computed from the mechanism and, for normal people, from the plan. So the same
state always gives the same answer. Mechanism and plan are fixed before the study draws its noise.

Without noise X = 0, and c is chosen such that h(c, 0) ≤ β. In two cases the radii are those of `radii` at β
divided by the number of directions: if the distribution of the noise is not known, and if there is no noise
and no better tail than exp(−z²/2) is known.
"""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.answers._directions import MergedDirections, differences
from dpbandits.answers._radii import Knowledge, radii
from dpbandits.privacy import Mechanism, SimulatedNoise
from dpbandits.privacy.tails import SubGaussianTail, Tail, squared_norms, tail_of_bounded, tail_of_people
from dpbandits.protocol import CohortErrors, LinearFit, PhaseEvidence, Study, clipping_factor, fitted

_DRAWS = 4000
_LEAST_EXPECTED = 5  # β·(N + 1) below which draws are not used: radii would rest on too few of them
_MOST_DIRECTIONS = 600  # more directions at once would need much memory
_STEPS = 12  # of the bisection; the upper end is used
_HIGHEST = 12.0  # standard deviations that a radius from draws may have
_MOST_KEPT = 100
_FACTORS: dict[tuple[Any, ...], FloatArray] = {}  # a cache for this process: computing factors is slow


class PhaseErrors:
    """The errors of the estimate of one phase.

    Args:
        study: The study.
        evidence: The phase.
        knowledge: What is known about the people.
        clipping: The probability with which clipping may move the means further than radii from draws allow.
            At 0, the study's own bound on clipping is used.
        independent: Whether bounds on sums over people may use that people are independent. They then have a
            better tail than exp(−z²/2), even if only a variance proxy is known.
    """

    def __init__(
        self,
        study: Study,
        evidence: PhaseEvidence,
        knowledge: Knowledge,
        *,
        clipping: float = 0.0,
        independent: bool = False,
    ) -> None:
        self._study, self._evidence, self._knowledge = study, evidence, knowledge
        self._clipping, self._independent = clipping, independent
        fit = fitted(study, evidence)
        assert isinstance(fit, LinearFit)
        self._fit = fit
        # The errors of one cohort; None if each action has a cohort of its own.
        self._cohort = fit.errors if isinstance(fit.errors, CohortErrors) else None

    def each(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return radii, each of which is exceeded with probability at most `chance`, on each side.

        Args:
            directions: One direction per row.
            chance: The probability.
        """
        if not self.draws_suffice(len(directions), chance):
            return self.bound(directions, chance)
        return self._computed(directions, chance)

    def joint(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return radii such that any of them is exceeded, on one side, with probability at most `chance`.

        Args:
            directions: One direction per row.
            chance: The probability.
        """
        if not self.at_once(len(directions), chance):
            return self.bound(directions, chance / max(1, len(directions)))
        merged = MergedDirections.of(directions, chance)
        factor = self._factors(merged.units, merged.weights, chance, jointly=True)
        return factor * merged.weights[merged.places] * self._scales(directions) + self._pull(directions)

    def at_once(self, directions: int, chance: float) -> bool:
        """Return whether radii for this number of directions are computed at once, without a union bound.

        Args:
            directions: The number of directions.
            chance: The probability with which one of the radii may be exceeded.
        """
        few = 0 < directions <= _MOST_DIRECTIONS
        return self.draws_suffice(directions, chance) or (self._only_people and few)

    def pairs_suffice(self, rows: FloatArray, chance: float) -> bool:
        """Return whether leads use joint radii of all differences of rows, instead of those to the best row.

        They do if radii are computed from draws, or if most differences are parallel to others. Like
        `draws_suffice`, this depends on the plan and not on the release.

        Args:
            rows: One option per row.
            chance: The probability with which one of the radii may be exceeded.
        """
        pairs = len(rows) * (len(rows) - 1)
        if self.draws_suffice(pairs, chance) or not self.at_once(pairs, chance):
            return self.draws_suffice(pairs, chance)
        return len(MergedDirections.of(differences(rows), chance).units) <= pairs / 2

    def _computed(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return a radius for each direction alone."""
        factors = self._factors(directions, np.ones(len(directions)), chance, jointly=False)
        return factors * self._scales(directions) + self._pull(directions)

    def _factors(
        self, directions: FloatArray, weights: FloatArray, chance: float, *, jointly: bool
    ) -> FloatArray:
        """Return c for scales that are multiplied by weights: one for all directions, or one for each."""
        about = (self._evidence.plan.digest, self._evidence.reports, self._knowledge, self._independent)
        key = (*about, self._study.heterogeneity, directions.tobytes(), weights.tobytes(), chance, jointly)
        if key not in _FACTORS:
            while len(_FACTORS) >= _MOST_KEPT:
                del _FACTORS[next(iter(_FACTORS))]
            known = np.zeros((1, len(directions))) if self._draws is None else self._draws @ directions.T
            # Each direction alone is a group of one; all of them together are one group.
            draws = known[:, None, :] if jointly else known[:, :, None]
            scales = (weights * self._scales(directions)).reshape((1, -1) if jointly else (-1, 1))
            # Without noise X has a single value, and the expectation is exact.
            spare = 0 if self._only_people else 1
            _FACTORS[key] = _least(
                draws, self._tail(directions), scales, chance * (len(known) + spare) - spare
            )
        return _FACTORS[key]

    def joint_of(self, directions: FloatArray, chance: float, wanted: IntArray) -> FloatArray:
        """Return some of the radii that `joint` returns for all directions.

        Args:
            directions: One direction per row.
            chance: The probability.
            wanted: The rows whose radii are returned. If there are many rows, the others are not computed.
        """
        if self.at_once(len(directions), chance):
            return self.joint(directions, chance)[wanted]
        return self.bound(directions[wanted], chance / max(1, len(directions)))

    def bound(self, directions: FloatArray, chance: float) -> FloatArray:
        """Return radii without draws, each of which is exceeded with probability at most `chance`.

        Args:
            directions: One direction per row.
            chance: The probability.
        """
        if not self._only_people:
            return radii(self._study, self._evidence, directions, chance, self._knowledge)
        parts = np.split(directions, range(_MOST_DIRECTIONS, len(directions), _MOST_DIRECTIONS))
        return np.concatenate([self._computed(one, chance) for one in parts])

    @cached_property
    def _only_people(self) -> bool:
        """Whether there is no noise, and a better tail than exp(−z²/2) is known."""
        if not self._bounded_rewards and not self._by_person:
            return False
        return self._evidence.plan.asked_mechanism.error_deviation(self._evidence.reports) == 0

    @property
    def _bounded_rewards(self) -> bool:
        """Whether rewards lie in [−1, 1], so that their sums have a better tail than exp(−z²/2)."""
        study = self._study
        if self._cohort is None:
            return False
        independent = study.bounded_rewards and study.bound <= 1 and study.heterogeneity == 0
        return self._knowledge.only_range or (self._knowledge is Knowledge.MODEL and independent)

    @property
    def _by_person(self) -> bool:
        """Whether the error is a sum over independent people, each with the same variance proxy."""
        if self._cohort is None:
            return False
        known = self._knowledge is Knowledge.MODEL and self._study.reward_variance is None
        return self._independent and known

    def _tail(self, directions: FloatArray) -> Tail | SubGaussianTail:
        """Return the tail of G."""
        plan, reports = self._evidence.plan, self._evidence.reports
        if not self._bounded_rewards and self._by_person:
            return tail_of_people(self._proxies(directions), reports)
        if not self._bounded_rewards:
            return SubGaussianTail(units=np.sqrt(self._proxies(directions)))
        coefficients = directions @ self._fit.map
        rounding = plan.asked_mechanism.rounding_proxy(reports) * squared_norms(coefficients)
        if self._knowledge.only_range:  # the sum of a person's rewards lies in ±Σ|a_x|
            if self._independent and plan.asked_mechanism.bound <= self._study.bound:
                rounding = np.zeros_like(rounding)  # rounded reports lie in the same range
            reach = self._study.bound * np.abs(coefficients).sum(axis=1, keepdims=True)
            people = np.array([float(reports)])
            return tail_of_bounded(reach, people, rounding, replaced=self._knowledge is Knowledge.BOUNDED)
        averages = coefficients if plan.mixing_matrix is None else coefficients @ plan.mixing_matrix
        return tail_of_bounded(averages, reports * np.array(plan.plays, dtype=np.float64), rounding)

    def draws_suffice(self, directions: int, chance: float) -> bool:
        """Return whether radii for this number of directions at once are computed from draws.

        This depends on the plan and not on the release, so the choice between two kinds of radii may use it.

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
        errors, evidence, plan = self._cohort, self._evidence, self._evidence.plan
        if errors is None:
            return None
        if self._study.reward_variance is not None:  # its bounds hold only for limited rates λ, see theory.md
            return None
        mechanism, normal = plan.asked_mechanism, self._knowledge is Knowledge.NORMAL
        if not normal and mechanism.error_deviation(evidence.reports) == 0:
            return None
        drawn = _noise_draws(mechanism, evidence.reports)
        if drawn is None:
            return None
        if not normal:
            return np.asarray(drawn @ self._fit.map.T)
        rng = _generator(f"people|{plan.digest}|{evidence.reports}")
        plays = rng.standard_normal((len(drawn), len(plan.plays)))
        plays /= np.sqrt(evidence.reports * errors.weights)
        drawn = drawn + (plays if plan.mixing_matrix is None else plays @ plan.mixing_matrix.T)
        people = rng.standard_normal((len(drawn), self._study.actions.dimension)) * np.sqrt(errors.common)
        return np.asarray(drawn @ self._fit.map.T + people)

    def _proxies(self, directions: FloatArray) -> FloatArray:
        """Return the proxies q of G."""
        errors, reports = self._cohort, self._evidence.reports
        assert errors is not None
        coefficients = directions @ self._fit.map
        proxies = self._evidence.plan.asked_mechanism.rounding_proxy(reports) * squared_norms(coefficients)
        if self._knowledge is Knowledge.MODEL:
            proxies = proxies + errors.sampling_variances(coefficients, directions)
        elif self._knowledge.only_range:
            proxies = proxies + (self._study.bound * np.abs(coefficients).sum(axis=1)) ** 2 / reports
        return np.asarray(proxies)

    def _scales(self, directions: FloatArray) -> FloatArray:
        """Return the scales s, which must not depend on the draws."""
        scales = np.sqrt(self._proxies(directions) + squared_norms(directions @ self._root))
        return np.maximum(scales, np.finfo(float).tiny)

    @cached_property
    def _root(self) -> FloatArray:
        """A factor of the covariance of X. Only scales use it, so radii hold even if it is inexact."""
        own = self._evidence.plan.asked_mechanism.error_deviation(self._evidence.reports)
        errors, size = self._fit.errors, len(self._fit.map)
        if self._knowledge is not Knowledge.NORMAL:
            return np.asarray(own * self._fit.map)
        return np.hstack([errors.factor(self._fit.map), np.sqrt(errors.common) * np.eye(size)])

    def _pull(self, directions: FloatArray) -> FloatArray:
        """Return how far clipping and a misfit of the model may have moved the estimate.

        The study's bound on clipping fails with probability β (`Study.bound_failure`). Here it may fail with
        a larger probability, so it is shortened.
        """
        errors, off = self._cohort, self._fit.misfit_along(directions)
        assert errors is not None
        if self._knowledge.only_range:  # clipping at the range loses nothing
            return off
        each = self._clipping / max(1, len(self._evidence.clipping_bias))
        factor = clipping_factor(self._evidence.reports, self._study.bound_failure, each)
        return errors.pull(directions @ self._fit.map) * factor + off


@lru_cache(maxsize=8)
def _noise_draws(mechanism: Mechanism, reports: int) -> FloatArray | None:
    """Draw the noise of a mechanism. This is slow, and many studies and phases have the same mechanism."""
    noise = SimulatedNoise(_generator(f"{mechanism!r}|{reports}"))
    return mechanism.noise_draws(_DRAWS, reports, noise)


def _generator(text: str) -> np.random.Generator:
    seed = hashlib.sha256(f"dpbandits error draws|{text}".encode()).digest()
    return np.random.default_rng(list(seed))


def _least(known: FloatArray, tail: Tail | SubGaussianTail, scales: FloatArray, allowed: float) -> FloatArray:
    """Return the least c for each group of directions, rounded up; infinite if it exceeds `_HIGHEST`.

    Args:
        known: Draws × groups × directions in a group.
        tail: The tail of G in each direction.
        scales: Groups × directions.
        allowed: The largest allowed Σ h(c, X) over all draws.
    """
    groups = known.shape[1]
    units = np.maximum(tail.units.reshape(scales.shape), 1e-9 * scales)

    def enough(factors: FloatArray) -> BoolArray:
        missed = tail((factors[:, None] * scales - known) / units).sum(axis=2)
        return np.asarray(np.minimum(missed, 1.0).sum(axis=0) <= allowed)

    low, high = np.zeros(groups), np.full(groups, _HIGHEST)
    found = enough(high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        good = enough(middle)
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.where(found, high, np.inf)
