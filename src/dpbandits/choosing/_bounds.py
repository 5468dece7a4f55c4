"""Confidence intervals of mean rewards and of their differences, from the widths that the study proves.

The active options of phase l are fixed by earlier releases. Given these, ⟨θ̃_l − θ*, v⟩ exceeds its radius at
β with probability at most β, for each direction v in the span of the active options. A family of statements
has M_l directions in phase l, fixed before that phase. Each is used on both sides at β_l = failure/(2·L·M_l),
where L is the number of cohorts that were planned. So all intervals of a family hold in all phases at once
with a probability of at least 1 − failure. It does not matter that the leader and the runner-up are chosen
from the same data, because the family contains all candidates:

    means                M_l = the number of active options
    leads                M_l = the number of pairs of active options
    leads over current   M_l = the number of active options; `current` is fixed before the study
    effects              M_l = the number of terms

The widths of the study also rest on bounds that fail with probability 3/T per phase: where clients clip, and
how far that moves the means (docs/theory.md). `Bounds` subtracts 3L/T from `failure` for these.

Of the intervals of several phases the narrowest is taken. Their intersection would hold as well, but it is
misleading if mean rewards are not quite linear: phases with different designs then estimate different
numbers, and the intersection becomes narrow. Phases that contradict each other are reported (`consistent`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.choosing._people import Knowledge
from dpbandits.errors import InvalidValue
from dpbandits.protocol import LinearFit, PhaseEvidence, State, Study, fitted

Interval = tuple[float, float]
_IN_SPAN = 1e-9  # largest part of a direction outside the span, relative to the direction


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
    coefficients = directions @ fit.map
    if knowledge is Knowledge.MODEL or evidence.counts:
        return fit.errors.radius(coefficients, directions, confidence=chance)
    proxies = np.abs(coefficients).sum(axis=1) ** 2 / evidence.reports
    mechanism = evidence.plan.asked_mechanism
    return mechanism.error_radius(coefficients, proxies, chance, evidence.reports)


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """One phase: its evidence, the options that were active before it, and a basis of their span."""

    evidence: PhaseEvidence
    active: frozenset[int]
    estimate: FloatArray
    basis: FloatArray

    def spans(self, direction: FloatArray) -> bool:
        outside = direction - self.basis @ (self.basis.T @ direction)
        return bool(np.linalg.norm(outside) <= _IN_SPAN * max(1.0, float(np.linalg.norm(direction))))


class Bounds:
    """Intervals after a study, each family at the same level.

    Args:
        states: The state before each phase that asked people, in order, and the state at the end.
        knowledge: What is known about the people.
        failure: The probability with which a family of intervals may miss the truth.

    Raises:
        InvalidValue: The horizon is so short that the failure probability of the study's own bounds exceeds
            `failure`.
    """

    def __init__(self, states: list[State], *, knowledge: Knowledge, failure: float) -> None:
        self._end, self._knowledge = states[-1], knowledge
        self._study = self._end.study
        self._cohorts = len(self._study.schedule.cohorts or ())
        self._failure = left_for_widths(self._study, knowledge, failure)
        self._phases = [
            self._phase(state, one) for state, one in zip(states, self._end.history, strict=False)
        ]

    def _phase(self, before: State, evidence: PhaseEvidence) -> _Phase:
        fit = fitted(self._study, evidence)
        assert isinstance(fit, LinearFit)
        basis = np.linalg.svd(fit.map, full_matrices=False)[0][:, : evidence.plan.rank]
        active = frozenset(before.active_actions.tolist())
        return _Phase(evidence=evidence, active=active, estimate=fit.estimate, basis=basis)

    @cached_property
    def estimate(self) -> FloatArray:
        """The estimate of θ* from all phases together, by which the study chooses its leader."""
        fits = [fitted(self._study, one) for one in self._end.history]
        if not self._study.learning.pooled:
            return fits[-1].estimate
        return self._study.reward_model.pool(fits)

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of `estimate` for fixed designs: the inverse of the sum of all precisions."""
        total = sum(fitted(self._study, one).precision for one in self._end.history)
        return np.asarray(np.linalg.pinv(total, hermitian=True), dtype=np.float64)

    def mean(self, option: int) -> Interval:
        """Return the interval of the mean reward of an option."""
        row = self._study.actions.matrix[option]
        return self._within(
            row, [(one, len(one.active)) for one in self._phases if option in one.active], 1.0
        )

    def lead(self, option: int, over: int) -> Interval:
        """Return the interval of the difference of two options' mean rewards."""
        if option == over:
            return (0.0, 0.0)
        used = [(one, math.comb(len(one.active), 2)) for one in self._phases if {option, over} <= one.active]
        return self._within(self._difference(option, over), used, 2.0)

    def lead_over_fixed(self, option: int, fixed: int) -> Interval:
        """Return the interval of the lead over an option that was named before the study."""
        if option == fixed:
            return (0.0, 0.0)
        direction = self._difference(option, fixed)
        used = [
            (one, len(one.active))
            for one in self._phases
            if option in one.active and (fixed in one.active or one.spans(direction))
        ]
        return self._within(direction, used, 2.0)

    def along(self, direction: FloatArray, family: int) -> Interval:
        """Return the interval of ⟨θ*, direction⟩ for one of `family` directions fixed before the study."""
        used = [(one, family) for one in self._phases if one.spans(direction)]
        return self._within(direction, used, math.inf)

    def _difference(self, option: int, over: int) -> FloatArray:
        matrix = self._study.actions.matrix
        return np.asarray(matrix[option] - matrix[over], dtype=np.float64)

    def _within(self, direction: FloatArray, used: list[tuple[_Phase, int]], largest: float) -> Interval:
        """Return the narrowest interval of some phases, within ±largest."""
        found = [self._interval(phase, direction, family) for phase, family in used]
        # Mean rewards lie in [−1, 1] by assumption, also where single rewards do not.
        low, high = min(found, key=lambda one: one[1] - one[0], default=(-largest, largest))
        return min(max(low, -largest), largest), max(min(high, largest), -largest)

    def _interval(self, phase: _Phase, direction: FloatArray, family: int) -> Interval:
        chance = self._failure / (2 * self._cohorts * family)
        radius = radii(self._study, phase.evidence, direction[None, :], chance, self._knowledge)[0]
        centre = float(phase.estimate @ direction)
        return centre - float(radius), centre + float(radius)

    @cached_property
    def consistent(self) -> bool:
        """Whether the intervals of each mean reward in different phases have a number in common.

        If mean rewards are linear in the features, this is false with a probability of at most `failure`.
        """
        for option, row in enumerate(self._study.actions.matrix):
            phases = [one for one in self._phases if option in one.active]
            found = [self._interval(one, row, len(one.active)) for one in phases]
            if max(low for low, _ in found) > min(high for _, high in found):
                return False
        return True


def left_for_widths(study: Study, knowledge: Knowledge, failure: float) -> float:
    """Return the failure probability that is left after the study's own bounds on clipping.

    Args:
        study: The study.
        knowledge: What is known about the people.
        failure: The probability with which a family of intervals may miss the truth.

    Raises:
        InvalidValue: Nothing is left.
    """
    if knowledge is Knowledge.BOUNDED:  # clipping at the range loses nothing
        return failure
    cohorts = len(study.schedule.cohorts or ())
    if 3 * cohorts / study.horizon >= failure:
        expected = f"more than {math.ceil(3 * cohorts / failure):,} for this level"
        raise InvalidValue("horizon", f"{study.horizon:,}", expected)
    return failure - 3 * cohorts / study.horizon
