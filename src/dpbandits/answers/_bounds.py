"""Confidence intervals of mean rewards and of their differences, from the widths that the study proves.

The active options of phase l are fixed by earlier releases. Given these, ⟨θ̃_l − θ*, v⟩ exceeds its radius at
β with probability at most β, for each direction v in the span of the active options. A family of statements
has M_l directions in phase l, fixed before that phase. Each is used on both sides at β_l = failure/(2·L·M_l),
where L is the number of cohorts that were planned, or the most that fit into the horizon. So all intervals of
a family hold in all phases at once with a probability of at least 1 − failure. It does not matter that the
leader and the runner-up are chosen from the same data, because the family contains all candidates:

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
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.protocol import LinearFit, PhaseEvidence, State, Study, best_estimate, fitted

Interval = tuple[float, float]
Ends = tuple[FloatArray, FloatArray]
"""The lower and the upper ends of some intervals."""
_IN_SPAN = 1e-9  # largest part of a direction outside the span, relative to the direction


class Knowledge(Enum):
    """What is known about the rewards of one person."""

    MODEL = "model"
    """The assumptions of docs/theory.md hold, with the study's heterogeneity."""
    BOUNDED = "bounded"
    """Every reward lies in the range. Nothing is known about how the rewards of one person depend on each
    other."""


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
    active: NDArray[np.bool_]
    estimate: FloatArray
    basis: FloatArray

    @property
    def options(self) -> int:
        return int(self.active.sum())

    def spans(self, directions: FloatArray) -> NDArray[np.bool_]:
        """Return for each direction whether it lies in the span of the active options."""
        outside = directions - (directions @ self.basis) @ self.basis.T
        sizes = np.maximum(1.0, np.linalg.norm(directions, axis=1))
        return np.asarray(np.linalg.norm(outside, axis=1) <= _IN_SPAN * sizes)


class Bounds:
    """Intervals after a study, each family at the same level.

    Args:
        states: The state before each phase that asked people, in order, and the state at the end.
        knowledge: What is known about the people.
        failure: The probability with which a family of intervals may miss the truth.

    Raises:
        InvalidValue: The reward model is not linear, clients clip rewards that are not bounded at the bound,
            or the horizon is so short that the failure probability of the study's own bounds exceeds
            `failure`.
    """

    def __init__(self, states: Sequence[State], *, knowledge: Knowledge, failure: float) -> None:
        self._end, self._knowledge = states[-1], knowledge
        self._study = self._end.study
        if self._study.model != "linear":
            raise InvalidValue("model", self._study.model, "linear: other reward models have no intervals")
        if not self._study.learning.recentred and not self._study.bounded_rewards:
            # Clients clip at the bound, and nothing limits how far this moves the means.
            raise InvalidValue("bounded_rewards", False, "true in a study whose clients clip at the bound")
        self._cohorts = planned_cohorts(self._study)
        self._failure = left_for_widths(self._study, knowledge, failure)
        self._phases = [
            self._phase(state, one) for state, one in zip(states, self._end.history, strict=False)
        ]

    def _phase(self, before: State, evidence: PhaseEvidence) -> _Phase:
        fit = fitted(self._study, evidence)
        assert isinstance(fit, LinearFit)
        basis = np.linalg.svd(fit.map, full_matrices=False)[0][:, : evidence.plan.rank]
        active = np.zeros(self._study.actions.count, dtype=bool)
        active[before.active_actions] = True
        return _Phase(evidence=evidence, active=active, estimate=fit.estimate, basis=basis)

    @cached_property
    def estimate(self) -> FloatArray:
        """The estimate of θ* from all phases together, by which the study chooses its leader."""
        return best_estimate(self._end)

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of `estimate` for fixed designs: the inverse of the sum of all precisions."""
        total = sum(fitted(self._study, one).precision for one in self._end.history)
        return np.asarray(np.linalg.pinv(total, hermitian=True), dtype=np.float64)

    def means(self, options: Sequence[int]) -> Ends:
        """Return the intervals of the mean rewards of some options."""
        places = np.asarray(options)
        used = [(one, one.options, one.active[places]) for one in self._phases]
        return self._narrowest(self._study.actions.matrix[places], used, self._study.bound)

    def leads(self, option: int, over: Sequence[int]) -> Ends:
        """Return the intervals of the differences of an option's mean reward to those of others."""
        places = np.asarray(over)
        used = [
            (one, math.comb(one.options, 2), one.active[places] & one.active[option] & (places != option))
            for one in self._phases
        ]
        low, high = self._narrowest(self._differences(option, places), used, 2 * self._study.bound)
        same = places == option
        return np.where(same, 0.0, low), np.where(same, 0.0, high)

    def lead_over_fixed(self, option: int, fixed: int) -> Interval:
        """Return the interval of the lead over an option that was named before the study."""
        if option == fixed:
            return (0.0, 0.0)
        direction = self._differences(option, np.array([fixed]))
        used = [
            (one, one.options, one.active[[option]] & (one.active[[fixed]] | one.spans(direction)))
            for one in self._phases
        ]
        low, high = self._narrowest(direction, used, 2 * self._study.bound)
        return float(low[0]), float(high[0])

    def along(self, directions: FloatArray) -> Ends:
        """Return the intervals of ⟨θ*, v⟩ for each row v of some directions fixed before the study."""
        used = [(one, len(directions), one.spans(directions)) for one in self._phases]
        return self._narrowest(directions, used, math.inf)

    def _differences(self, option: int, over: NDArray[Any]) -> FloatArray:
        matrix = self._study.actions.matrix
        return np.asarray(matrix[option] - matrix[over], dtype=np.float64)

    def _narrowest(
        self, directions: FloatArray, used: list[tuple[_Phase, int, NDArray[np.bool_]]], largest: float
    ) -> Ends:
        """Return for each direction the narrowest interval of the usable phases, within ±largest."""
        lows, highs = np.full(len(directions), -np.inf), np.full(len(directions), np.inf)
        for phase, family, usable in used:
            if not usable.any():
                continue
            low, high = lows.copy(), highs.copy()
            low[usable], high[usable] = self._interval(phase, directions[usable], family)
            narrower = high - low < highs - lows
            lows, highs = np.where(narrower, low, lows), np.where(narrower, high, highs)
        # Mean rewards lie in [−bound, bound] by assumption, also where single rewards do not.
        return np.clip(lows, -largest, largest), np.clip(highs, -largest, largest)

    def _interval(self, phase: _Phase, directions: FloatArray, family: int) -> Ends:
        chance = self._failure / (2 * self._cohorts * family)
        radius = radii(self._study, phase.evidence, directions, chance, self._knowledge)
        centre = directions @ phase.estimate
        return centre - radius, centre + radius

    def consistent(self, options: Sequence[int]) -> bool:
        """Return whether the intervals of each mean reward in different phases have a number in common.

        If mean rewards are linear in the features, this is false with a probability of at most `failure`.

        Args:
            options: The options whose mean rewards are compared.
        """
        places = np.asarray(options)
        rows = self._study.actions.matrix[places]
        highest, lowest = np.full(len(places), -np.inf), np.full(len(places), np.inf)
        for one in self._phases:
            active = one.active[places]
            if active.any():
                low, high = self._interval(one, rows[active], one.options)
                highest[active] = np.maximum(highest[active], low)
                lowest[active] = np.minimum(lowest[active], high)
        return bool(np.all(highest <= lowest))


def planned_cohorts(study: Study) -> int:
    """Return L: the number of planned cohorts, or of the phases that may ask clients within the horizon."""
    cohorts = study.schedule.cohorts
    return study.schedule.reporting_phases(study.horizon) if cohorts is None else len(cohorts)


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
    cohorts = planned_cohorts(study)
    if 3 * cohorts / study.horizon >= failure:
        expected = f"more than {math.ceil(3 * cohorts / failure):,} for this level"
        raise InvalidValue("horizon", f"{study.horizon:,}", expected)
    return failure - 3 * cohorts / study.horizon
