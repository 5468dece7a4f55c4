"""Confidence intervals of mean rewards and of their differences, from the releases of a study.

The active options D of phase l are fixed by earlier releases, and so is the best of them, x*, although nobody
knows it. Given these, `PhaseErrors` has radii for the errors of ⟨θ̃, v⟩, for v in the span of D. Each kind of
interval has the failure probability α. Phase l gets the share α_l of it, see `_shares`. All statements about
the option w that the study recommends hold for any option of D, however it is chosen.

Means. These events fail with probability α_l in total:

    all options i of D:   ⟨θ̃, i⟩ − r_i ≤ μ_i                      (0.53 α_l, jointly)
    x*:                   μ* ≤ ⟨θ̃, x*⟩ + r'_x*                    (0.42 α_l, a single direction)
    all options i of D:   μ_i ≤ ⟨θ̃, i⟩ + r″_i                     (0.05 α_l, jointly)

As μ_i ≤ μ*, every mean is at most max_j (⟨θ̃, j⟩ + r'_j) over j in D. For the recommended option this is
usually the smallest upper bound, because r' is the radius of a single direction. With more than 5,000 active
options the second event is not used, and the third one gets its share.

Leads. If part of the errors has a known distribution, and there are few enough pairs of options for draws,
the differences of all pairs have joint radii at α_l, on both sides. The same holds for bounded rewards
without noise, if most differences are parallel to others, as in a grid. Otherwise these events fail with
probability at most 0.45 α_l each:

    all i of D:   μ* − μ_i ≤ ⟨θ̃, x* − i⟩ + r_(x*, i)     and     μ* − μ_i ≥ ⟨θ̃, x* − i⟩ − r_(x*, i).

r_(j, i) are radii that hold jointly for all i if j is x*. On the first event, applied to w, x* is w or one of
the rivals, the options j ≠ w with g_j = ⟨θ̃, j − w⟩ + r_(j, w) ≥ 0. If x* = j, then for each i

    μ_w − μ_i ≤ μ_j − μ_i ≤ ⟨θ̃, j − i⟩ + r_(j, i),
    μ_w − μ_i ≥ ⟨θ̃, w − i⟩ − r_(w, i)                                                 if j = w, and else
    μ_w − μ_i ≥ μ_w − μ_j ≥ −g_j   and   μ_w − μ_i = (μ_w − μ_j) + (μ_j − μ_i) ≥ −g_j + ⟨θ̃, j − i⟩ − r_(j, i).

The interval has the largest upper and the smallest lower end over w and all rivals j. The two events concern
2(|D| − 1) directions instead of |D|(|D| − 1). The remaining 0.1 α_l is for intervals of all pairs, which are
shorter for options far behind and for pairs of similar options. With more than 48 active options only the
intervals of all pairs are used.

Lead over `current`, which is fixed before the study: 0.55 α_l for the lower ends of all i of D jointly, and
0.45 α_l for the upper end of x*, which bounds those of all options. With more than 5,000 active options the
0.45 α_l is for the upper ends of all i of D jointly.

Effects. All terms jointly, α_l/2 on each side.

The widths of the study also depend on bounds about clipping: where clients clip, and how far that moves the
means (docs/theory.md). These bounds fail with probability 3kβ per phase, which is 3/T without a `confidence`.
`Bounds` subtracts 3kLβ from `failure` for them. It also subtracts 2 % from the share of each phase, for a
shorter bound on clipping (`PhaseErrors`). α_l above is the remaining probability.

In a study that pools (`Study.pools`), half of α is for intervals from all phases together. They hold at once
for the means of all k options, or for the differences of all pairs (docs/theory.md, Theorem 9). They are
computed only for options that were not dropped.

If several phases give an interval, the narrowest one is taken. The intersection would hold as well, but it is
misleading if mean rewards are not quite linear: phases with different designs then estimate different
numbers, and the intersection becomes narrow. `consistent` reports phases that contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import BoolArray, FloatArray
from dpbandits.answers._directions import differences
from dpbandits.answers._errors import PhaseErrors
from dpbandits.answers._radii import Knowledge
from dpbandits.errors import InvalidValue
from dpbandits.protocol import LinearFit, PhaseEvidence, State, Study, fitted, pooled_along

Interval = tuple[float, float]
Ends = tuple[FloatArray, FloatArray]
"""The lower and the upper ends of some intervals."""
_IN_SPAN = 1e-9  # largest part of a direction outside the span, relative to the direction
_MOST_COMPARED = 48  # active options up to which leads are taken from differences to the best one
_MOST_CAPPED = 5000  # active options up to which upper ends are derived from the one of x*
# How the failure probability of a phase is divided; see the docstring.
_LOWER, _BEST, _UPPER = 0.53, 0.42, 0.05
_TO_BEST, _PAIRS = 0.45, 0.1
_LOWER_OVER_FIXED, _BEST_OVER_FIXED = 0.55, 0.45
_CLIPPING = 0.02  # the part of a phase's share with which its bound on clipping may fail
# A quarter of the failure probability is divided equally between phases. Of the rest, each phase gets four
# times the share of the one before.
_EQUALLY, _GROWTH = 0.25, 4.0


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """One phase: its errors, the options that were active before it, a basis of their span, and α_l."""

    errors: PhaseErrors
    active: BoolArray
    estimate: FloatArray
    basis: FloatArray
    failure: float

    @property
    def options(self) -> int:
        return int(self.active.sum())

    def spans(self, directions: FloatArray) -> BoolArray:
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
        InvalidValue: The reward model is not linear, clients clip unbounded rewards at `Study.bound`, or the
            study's own bounds fail with a probability of at least `failure`: then the horizon is too short,
            or the study's `confidence` too low.
    """

    def __init__(self, states: Sequence[State], *, knowledge: Knowledge, failure: float) -> None:
        self._end, self._knowledge = states[-1], knowledge
        self._study = self._end.study
        if not self._study.reward_model.linear_in_features:
            raise InvalidValue("model", self._study.model, "linear: other reward models have no intervals")
        if not self._study.learning.recentred and not self._study.bounded_rewards:
            # Clients clip at the bound, and nothing limits how far this moves the means.
            raise InvalidValue("bounded_rewards", False, "true in a study whose clients clip at the bound")
        left = left_for_widths(self._study, knowledge, failure)
        self._pooled = 0.0
        if self._study.pools and not knowledge.only_range:
            self._pooled = left = left / 2
        chances = [left * share for share in _shares(planned_cohorts(self._study))]
        history = zip(states, self._end.history, chances, strict=False)
        self._phases = [self._phase(state, one, chance) for state, one, chance in history]
        self._left = np.zeros(self._study.actions.count, dtype=bool)
        self._left[self._end.active_actions] = True

    def _phase(self, before: State, evidence: PhaseEvidence, failure: float) -> _Phase:
        fit = fitted(self._study, evidence)
        assert isinstance(fit, LinearFit)
        active = np.zeros(self._study.actions.count, dtype=bool)
        active[before.active_actions] = True
        errors = PhaseErrors(
            self._study,
            evidence,
            self._knowledge,
            clipping=_CLIPPING * failure,
            independent=self._knowledge is Knowledge.MODEL,
        )
        left = (1 - _CLIPPING) * failure
        return _Phase(errors=errors, active=active, estimate=fit.estimate, basis=fit.basis, failure=left)

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of the pooled estimate for fixed designs: the inverse of the sum of precisions."""
        total = sum(one.precision for one in self._end.fits)
        return np.asarray(np.linalg.pinv(total, hermitian=True), dtype=np.float64)

    def means(self, options: Sequence[int]) -> Ends:
        """Return the intervals of the mean rewards of some options, given by their rows in the actions."""
        places = np.asarray(options)
        found = [self._means_in(one, places) for one in self._phases]
        matrix, count = self._study.actions.matrix, self._study.actions.count
        found += self._together(matrix[places], self._left[places], self._pooled / (2 * count))
        return self._narrowest(found, len(places), self._study.bound)

    def _together(self, directions: FloatArray, known: BoolArray, chance: float) -> list[Ends]:
        """Return the intervals from all phases together; infinite for directions with `known` false."""
        if not chance or not known.any():
            return []
        found = pooled_along(self._study, self._end.fits, np.asarray(directions[known], dtype=np.float64))
        if found is None:
            return []
        lows, highs = np.full(len(directions), -np.inf), np.full(len(directions), np.inf)
        widths = found.widths(chance)
        lows[known], highs[known] = found.estimates - widths, found.estimates + widths
        return [(lows, highs)]

    def _means_in(self, phase: _Phase, places: NDArray[Any]) -> Ends:
        """Return the intervals of one phase; infinite for options that were not active."""
        matrix, active = self._study.actions.matrix, np.flatnonzero(phase.active)
        capped = len(active) <= _MOST_CAPPED
        upper = _UPPER if capped else _UPPER + _BEST
        rows, listed = matrix[active], _listed(active, places)
        centres = rows @ phase.estimate
        lows, highs = np.full(len(places), -np.inf), np.full(len(places), np.inf)
        if not len(listed.among):
            return lows, highs
        low = phase.errors.joint_of(rows, _LOWER * phase.failure, listed.among)
        high = phase.errors.joint_of(rows, upper * phase.failure, listed.among)
        lows[listed.given] = centres[listed.among] - low
        highs[listed.given] = centres[listed.among] + high
        if capped:
            best = phase.errors.each(rows, _BEST * phase.failure)
            highs[listed.given] = np.minimum(highs[listed.given], np.max(centres + best))
        return lows, highs

    def leads(self, option: int, over: Sequence[int]) -> Ends:
        """Return the intervals of μ_option − μ_i for each option i of `over`."""
        places = np.asarray(over)
        found = [self._leads_in(one, option, places) for one in self._phases if one.active[option]]
        matrix, count = self._study.actions.matrix, self._study.actions.count
        both = self._left[places] & self._left[option] & (places != option)
        chance = self._pooled / max(1, count * (count - 1))  # one bound per ordered pair
        found += self._together(matrix[option] - matrix[places], both, chance)
        low, high = self._narrowest(found, len(places), 2 * self._study.bound)
        same = places == option
        return np.where(same, 0.0, low), np.where(same, 0.0, high)

    def _leads_in(self, phase: _Phase, option: int, places: NDArray[Any]) -> Ends:
        active = np.flatnonzero(phase.active)
        listed = _listed(active, places)
        lows, highs = np.full(len(places), -np.inf), np.full(len(places), np.inf)
        if len(active) > 1 and len(listed.among):
            rows, own = self._study.actions.matrix[active], int(np.searchsorted(active, option))
            jointly = phase.errors.pairs_suffice(rows, phase.failure)
            compared = not jointly and len(active) <= _MOST_COMPARED
            low, high = _by_pairs(phase, rows, own, listed.among, _PAIRS if compared else 1.0)
            if compared:
                lower, upper = _through_best(phase, rows, own, listed.among)
                low, high = np.maximum(low, lower), np.minimum(high, upper)
            lows[listed.given], highs[listed.given] = low, high
        return lows, highs

    def lead_over_fixed(self, option: int, fixed: int) -> Interval:
        """Return the interval of μ_option − μ_fixed, where `fixed` was named before the study."""
        if option == fixed:
            return (0.0, 0.0)
        found = [self._lead_over_fixed_in(one, option, fixed) for one in self._phases if one.active[option]]
        matrix, both = self._study.actions.matrix, np.array([self._left[option] and self._left[fixed]])
        chance = self._pooled / (2 * max(1, self._study.actions.count - 1))
        found += self._together(matrix[[option]] - matrix[fixed], both, chance)
        low, high = self._narrowest(found, 1, 2 * self._study.bound)
        return float(low[0]), float(high[0])

    def _lead_over_fixed_in(self, phase: _Phase, option: int, fixed: int) -> Ends:
        active = np.flatnonzero(phase.active)
        active = active[active != fixed]
        directions = self._study.actions.matrix[active] - self._study.actions.matrix[fixed]
        own = np.flatnonzero(active == option)
        if not phase.active[fixed] and not phase.spans(directions[own]).all():
            return np.array([-np.inf]), np.array([np.inf])
        centres = directions @ phase.estimate
        low = phase.errors.joint_of(directions, _LOWER_OVER_FIXED * phase.failure, own)
        if len(active) > _MOST_CAPPED:
            high = centres[own] + phase.errors.joint_of(directions, _BEST_OVER_FIXED * phase.failure, own)
        else:
            best = centres + phase.errors.each(directions, _BEST_OVER_FIXED * phase.failure)
            # If the fixed option is the best one, no lead is above 0.
            high = np.array([max(np.max(best), 0.0 if phase.active[fixed] else -np.inf)])
        return centres[own] - low, high

    def along(self, directions: FloatArray) -> Ends:
        """Return the intervals of ⟨θ*, v⟩ for each row v of some directions fixed before the study."""
        found = list[Ends]()
        for one in self._phases:
            spanned = one.spans(directions)
            lows, highs = np.full(len(directions), -np.inf), np.full(len(directions), np.inf)
            if spanned.any():
                radius = one.errors.joint(directions[spanned], one.failure / 2)
                centre = directions[spanned] @ one.estimate
                lows[spanned], highs[spanned] = centre - radius, centre + radius
            found.append((lows, highs))
        return self._narrowest(found, len(directions), math.inf)

    def _narrowest(self, found: Sequence[Ends], count: int, largest: float) -> Ends:
        """Return for each direction the narrowest of the intervals, cut to ±largest."""
        lows, highs = np.full(count, -np.inf), np.full(count, np.inf)
        for low, high in found:
            narrower = high - low < highs - lows
            lows, highs = np.where(narrower, low, lows), np.where(narrower, high, highs)
        # Mean rewards lie in [−bound, bound] by assumption, also where single rewards do not.
        return np.clip(lows, -largest, largest), np.clip(highs, -largest, largest)

    def consistent(self, options: Sequence[int]) -> bool:
        """Return whether the intervals of each mean reward in different phases have a number in common.

        If mean rewards are linear in the features, this is false with a probability of at most `failure`.

        Args:
            options: The options whose mean rewards are compared.
        """
        places = np.asarray(options)
        ends = [self._means_in(one, places) for one in self._phases]
        if not ends:
            return True
        highest = np.max([low for low, _high in ends], axis=0)
        lowest = np.min([high for _low, high in ends], axis=0)
        return bool(np.all(highest <= lowest))


@dataclass(frozen=True, kw_only=True)
class _Listed:
    """The active ones among some given options: their places in the given and in the active options."""

    given: NDArray[Any]
    among: NDArray[Any]


def _listed(active: NDArray[Any], places: NDArray[Any]) -> _Listed:
    among = np.searchsorted(active, places)
    known = among < len(active)
    known[known] = active[among[known]] == places[known]
    return _Listed(given=np.flatnonzero(known), among=among[known])


def _by_pairs(phase: _Phase, rows: FloatArray, own: int, others: NDArray[Any], part: float) -> Ends:
    """Return intervals of μ_own − μ_i that hold for all pairs of active options jointly, on both sides."""
    count, chance = len(rows), part * phase.failure
    gaps = (rows[own] - rows[others]) @ phase.estimate
    if not phase.errors.at_once(count * (count - 1), chance):
        radius = phase.errors.bound(rows[own] - rows[others], chance / (count * (count - 1)))
        return gaps - radius, gaps + radius
    found = np.zeros((count, count))
    found[~np.eye(count, dtype=bool)] = phase.errors.joint(differences(rows), chance)
    radius = found[own, others]
    return gaps - radius, gaps + radius


def _through_best(phase: _Phase, rows: FloatArray, own: int, others: NDArray[Any]) -> Ends:
    """Return intervals of μ_own − μ_i from the differences to the best active option, whichever it is."""
    estimates, chance = rows @ phase.estimate, _TO_BEST * phase.failure

    def radii_if_best(best: int) -> FloatArray:
        rest = np.arange(len(rows)) != best
        found = np.zeros(len(rows))
        found[rest] = phase.errors.joint(rows[best] - rows[rest], chance)
        return found

    gaps, mine = estimates[own] - estimates[others], radii_if_best(own)[others]
    low, high = gaps - mine, gaps + mine
    for rival in range(len(rows)):
        if rival == own:
            continue
        radii = radii_if_best(rival)
        behind = estimates[rival] - estimates[own] + radii[own]
        if behind < 0:  # it is not the best one
            continue
        ahead = estimates[rival] - estimates[others]
        low = np.minimum(low, np.maximum(-behind, -behind + ahead - radii[others]))
        high = np.maximum(high, ahead + radii[others])
    return low, high


def _shares(cohorts: int) -> list[float]:
    """Return the share of the failure probability of each planned phase.

    Later phases are larger, so they get most of it. A quarter is divided equally, so that the intervals of an
    answer before the end of a long study are not much wider.
    """
    weights = [_GROWTH ** (phase + 1 - cohorts) for phase in range(cohorts)]
    return [(1 - _EQUALLY) * weight / sum(weights) + _EQUALLY / cohorts for weight in weights]


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
    if knowledge.only_range:  # clipping at the range loses nothing
        return failure
    cohorts = planned_cohorts(study)
    clipping = 3 * study.actions.count * cohorts * study.bound_failure
    if clipping < failure:
        return failure - clipping
    if study.confidence is not None:
        expected = "a higher one, or a lower level: the study's own bounds use up 1 − level"
        raise InvalidValue("confidence", study.confidence, expected)
    expected = f"more than {math.ceil(3 * cohorts / failure):,} for this level"
    raise InvalidValue("horizon", f"{study.horizon:,}", expected)
