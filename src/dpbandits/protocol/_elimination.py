"""Line 16 of Algorithm 1: drops the actions that cannot be best, quickly even for millions of actions.

With at most 2¹⁴ active actions, every width is computed. With more, cheap lower and upper bounds of all
widths are computed first (`Fit.bracket`), and exact widths only where the gap lies between the two bounds.
The same actions survive either way.

In a study that pools (`Study.pools`), actions are then also dropped by the estimates of all phases together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.protocol._pooling import pooled_leads
from dpbandits.protocol._state import State
from dpbandits.protocol._study import Study
from dpbandits.protocol.model import Bracket, Fit

Exact = Callable[[IntArray], FloatArray]

FEW = 1 << 14  # up to this many active actions, all widths are computed
_MANY = 1 / 16  # if the bounds leave more than this share of the actions open, new bounds are worth a pass
_ROUNDING = 1e-9
_FIRST = 1 << 10  # the search for the largest width begins with this many actions


def survivors(state: State, fit: Fit, scores: FloatArray, *, few: int = FEW) -> tuple[BoolArray, float]:
    """Decide which of the active actions may still be best (line 16).

    Args:
        state: The state before the phase.
        fit: The reward model, fitted to the phase.
        scores: The estimated mean rewards of the active actions.
        few: With more active actions than this, widths are first bounded.

    Returns:
        For each active action whether it stays, and the largest width that was used (see `State.width`).
    """
    active, common = state.active_actions, fit.common_width
    if common is not None:
        return scores + common >= np.max(scores) - common, common
    towards = int(active[np.argmax(scores)]) if state.study.learning.differences else None

    def exact(places: IntArray) -> FloatArray:
        return fit.widths(active[places], towards=towards)

    found = _bracket(state, fit, scores, towards) if len(active) > few else None
    if found is not None:
        return _kept(found, scores, exact, towards), _widest(found, exact)
    widths = exact(np.arange(len(active)))
    if towards is not None:
        return np.max(scores) - scores <= widths, float(np.max(widths))
    return scores + widths >= np.max(scores - widths), float(np.max(widths))


def pooled_survivors(study: Study, fits: Sequence[Fit], active: IntArray) -> BoolArray:
    """Decide which of some actions may still be best, by all phases together.

    The action with the highest pooled estimate is compared with every other one. With more than 2¹⁴ actions
    all stay: a later phase, with fewer actions, can drop them as well.

    Args:
        study: The study.
        fits: The fits of all phases so far.
        active: The indices of the actions that are left.

    Returns:
        For each action in `active`, whether it stays.
    """
    keep = np.ones(len(active), dtype=bool)
    if not 1 < len(active) <= FEW:
        return keep
    pooled = study.reward_model.pool(fits)
    best = first_best(study.reward_model.means(study.actions.matrix, active, pooled))
    leads = pooled_leads(study, fits, int(active[best]), active)
    if leads is not None:
        keep = leads.estimates <= leads.widths(study.pair_failures[0])
        keep[best] = True
    return keep


def first_best(scores: FloatArray) -> int:
    """Return the first index of the largest score; scores that differ by rounding only count as equal.

    Equal actions may get scores that differ in the last bits, in a way that depends on the processor.
    """
    return int(np.argmax(scores >= scores.max() - _ROUNDING))


def _bracket(state: State, fit: Fit, scores: FloatArray, towards: int | None) -> Bracket | None:
    """Return bounds from the first phase with this design or, if these leave much open, from this phase.

    The choice depends on the state alone, so replaying a study gives the same numbers.
    """
    own, support = fit.evidence, fit.evidence.plan.support
    first = next((before for before in state.history if before.plan.support == support), own)
    found = fit.bracket(state, first, towards=towards)
    if first is own or found is None or _doubtful(found, scores, towards) <= _MANY * len(scores):
        return found
    return fit.bracket(state, own, towards=towards)


def _doubtful(found: Bracket, scores: FloatArray, towards: int | None) -> int:
    """Count the actions that the bounds do not decide: whether they stay, or have the largest width."""
    threshold = float(np.max(scores)) if towards is not None else float(np.max(scores - found.high))
    reach = threshold - scores
    unsure = (reach > found.low) & (reach <= found.high)
    return int(np.count_nonzero(unsure) + np.count_nonzero(found.high >= np.max(found.low)))


def _kept(found: Bracket, scores: FloatArray, exact: Exact, towards: int | None) -> BoolArray:
    """Return which actions stay.

    With the step `differences`, x is dropped if the best score exceeds its score by more than the width of
    the difference. Without it, x is dropped if its upper confidence bound is below the largest lower
    confidence bound.
    """
    best = float(np.max(scores)) if towards is not None else _threshold(found, scores, exact)
    if towards is not None:
        sure, unsure = best - scores <= found.low, best - scores <= found.high
    else:
        sure, unsure = scores + found.low >= best, scores + found.high >= best
    places = np.flatnonzero(unsure & ~sure)
    if places.size:
        own = exact(places)
        fits = best - scores[places] <= own if towards is not None else scores[places] + own >= best
        sure[places] = fits
    return sure


def _threshold(found: Bracket, scores: FloatArray, exact: Exact) -> float:
    """Return the largest lower confidence bound, max(score − width)."""
    places = np.flatnonzero(scores - found.low >= np.max(scores - found.high))
    return float(np.max(scores[places] - exact(places)))


def _widest(found: Bracket, exact: Exact) -> float:
    """Return the largest width, or an upper bound of it if too many actions may have the largest width."""
    places = np.flatnonzero(found.high >= np.max(found.low))
    order = places
    if places.size > _FIRST:
        order = places[np.argpartition(-found.high[places], _FIRST)[:_FIRST]]
    largest = float(np.max(exact(order)))
    left = np.setdiff1d(places[found.high[places] > largest], order)
    if left.size > _MANY * len(found.high):
        return float(np.max(found.high[left]))
    return max(largest, float(np.max(exact(left), initial=0.0)))
