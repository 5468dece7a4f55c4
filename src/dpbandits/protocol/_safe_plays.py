"""Applies a `Safeguard`: which options are not played again, and how often the current one is played.

The loss of an option x is μ(c) − μ(x), where c is the current option. Every phase that measures the direction
c − x gives a lower and an upper bound on the loss, and so do all phases together. All these bounds hold
together with the confidence of the study (docs/theory.md). Before the first release, losses are at most 2B,
where B is `Study.bound`.

- If the lower bound of x exceeds the margin, x is not played again.
- Let a phase play x in T(x) rounds. If Σ T(x)·(upper bound of x) exceeds the allowance times the number of
  rounds, rounds of the current option, whose loss is 0, are added until the sum no longer exceeds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.protocol._bitmap import unpacked
from dpbandits.protocol._linear_algebra import span_of, within
from dpbandits.protocol._messages import MOST_PLAYS, Plan
from dpbandits.protocol._pooling import pooled_along
from dpbandits.protocol._safeguard import Safeguard
from dpbandits.protocol._state import State
from dpbandits.protocol._study import Study
from dpbandits.protocol.assignment import Played
from dpbandits.protocol.model import Fit

_MOST_POOLED = 1 << 14  # with more options than this, only bounds of single phases are used
_ROUNDING = 1e-12  # relative; a number of rounds that is computed as 44.000000000001 is not rounded up to 45


@dataclass(frozen=True, kw_only=True, eq=False)
class LossBounds:
    """Bounds on the losses μ(c) − μ(x) of some options x against the current option c.

    Attributes:
        low: The lower bounds.
        high: The upper bounds.
    """

    low: FloatArray
    high: FloatArray

    def narrow(self, places: BoolArray, estimates: FloatArray, widths: FloatArray) -> None:
        """Intersect the bounds of some options with further intervals.

        Args:
            places: Which options.
            estimates: The middles of the intervals of these options.
            widths: Half the lengths of the intervals.
        """
        self.low[places] = np.maximum(self.low[places], estimates - widths)
        self.high[places] = np.minimum(self.high[places], estimates + widths)


def loss_bounds(study: Study, fits: Sequence[Fit], options: IntArray) -> LossBounds:
    """Bound the losses of some options against the current one, from all phases so far.

    Args:
        study: A study with a safeguard.
        fits: The fits of all phases so far.
        options: The indices of options, without the current one.

    Returns:
        The bounds. They are ±2B for options whose difference to the current one no phase has measured.
    """
    current, largest = _safeguard(study).current, 2 * study.bound
    found = LossBounds(low=np.full(len(options), -largest), high=np.full(len(options), largest))
    matrix, model = study.actions.matrix, study.reward_model
    if not len(options):
        return found
    measured = np.array([_measured(one, current, options) for one in fits], dtype=bool)
    for one, known in zip(fits, measured, strict=True):
        if known.any():
            (today,) = model.means(matrix, np.array([current]), one.estimate)
            means = model.means(matrix, options[known], one.estimate)
            found.narrow(known, today - means, one.widths(options[known], towards=current))
    if study.pools and len(options) <= _MOST_POOLED:
        for known, own in _equally_measured(measured):
            directions = np.asarray(matrix[current] - matrix[options[known]], dtype=np.float64)
            leads = pooled_along(study, [fits[place] for place in own], directions)
            if leads is not None:
                found.narrow(known, leads.estimates, leads.widths(study.loss_failure))
    return found


def _safeguard(study: Study) -> Safeguard:
    assert study.safeguard is not None
    return study.safeguard


def _measured(fit: Fit, current: int, options: IntArray) -> BoolArray:
    """Return for each option whether the phase measured its difference to the current one."""
    matrix = fit.study.actions.matrix
    found = np.empty(len(options), dtype=bool)
    for start in range(0, len(options), _MOST_POOLED):
        own = slice(start, start + _MOST_POOLED)
        found[own] = fit.spans(matrix[current] - matrix[options[own]])
    return found


def _equally_measured(measured: BoolArray) -> Iterator[tuple[BoolArray, IntArray]]:
    """Yield groups of options, each with the places of the phases that measured them."""
    for pattern in np.unique(measured, axis=1).T:
        if pattern.any():
            yield (measured == pattern[:, None]).all(axis=0), np.flatnonzero(pattern)


def barred_after(state: State, fits: Sequence[Fit]) -> bytes:
    """Return the options that are not played again, as a bitmap: earlier ones and newly found ones.

    Args:
        state: The state before the last phase.
        fits: The fits of all phases, including the last one.

    Returns:
        The bitmap; empty if no option is barred.
    """
    study = state.study
    if study.safeguard is None or study.safeguard.margin is None:
        return b""
    barred = np.zeros(study.actions.count, dtype=bool)
    barred[state.barred_actions] = True
    others = np.flatnonzero(~barred)
    others = others[others != study.safeguard.current]
    barred[others] = loss_bounds(study, fits, others).low > study.safeguard.margin
    return np.packbits(barred).tobytes() if barred.any() else b""


def limits_losses(study: Study) -> bool:
    """Return whether the study has an allowance for losses."""
    return study.safeguard is not None and study.safeguard.allowance is not None


def worst_losses(state: State, options: Sequence[int]) -> FloatArray:
    """Return upper bounds on the losses of some options. The loss of the current option is 0.

    Args:
        state: The state of a study with a safeguard.
        options: The indices of the options.

    Returns:
        One bound per option. A negative one says that the option is certainly better.
    """
    places, study = np.asarray(options), state.study
    others = places != _safeguard(study).current
    found = np.zeros(len(places))
    if state.history:
        found[others] = loss_bounds(study, state.fits, places[others]).high
    else:
        found[others] = 2 * study.bound
    return found


def _further_plays(state: State, options: Sequence[int], plays: IntArray) -> int:
    """Return in how many more rounds the current option is played, so that the allowance is kept."""
    guard = state.study.safeguard
    if guard is None or guard.allowance is None:
        return 0
    total = float(plays @ worst_losses(state, options))
    rounds = math.ceil(min(total / guard.allowance * (1 - _ROUNDING), 2.0 * MOST_PLAYS))
    return max(0, rounds - int(plays.sum()))


@dataclass(frozen=True, kw_only=True, eq=False)
class _WithCurrent:
    """A design to which the current option was added."""

    support: IntArray
    rank: int


def with_current(state: State, design: Played, plays: IntArray) -> tuple[Played, IntArray]:
    """Add plays of the current option to a phase, as many as the allowance needs.

    Args:
        state: The state before the phase.
        design: What the phase plays.
        plays: How often it plays each supported option.

    Returns:
        What the phase plays, and how often. Both are unchanged if the allowance needs no more plays.
    """
    more = _further_plays(state, design.support.tolist(), plays)
    if not more:
        return design, plays
    current = _safeguard(state.study).current
    if current in design.support:
        return design, plays + more * (design.support == current)
    matrix = state.study.actions.matrix
    (inside,) = within(span_of(matrix[design.support], design.rank), matrix[[current]])
    extended = _WithCurrent(
        support=np.append(design.support, current), rank=design.rank + (0 if inside else 1)
    )
    return extended, np.append(plays, more)


def raised(state: State, plan: Plan) -> Plan | None:
    """Return the plan of a fit test or a confirmation, with as many plays as the allowance needs.

    Args:
        state: The state before the fit test or the confirmation.
        plan: The plan, which plays the current option if the study has an allowance.

    Returns:
        The plan; None if it would take more rounds than are left.
    """
    more = _further_plays(state, plan.support, np.array(plan.plays))
    if more:
        today = _safeguard(state.study).current
        pairs = zip(plan.support, plan.plays, strict=True)
        plan = replace(plan, plays=tuple(own + more * (place == today) for place, own in pairs))
    return plan if plan.rounds <= state.study.horizon - state.rounds_played else None


def to_the_end(state: State, best: int, rounds: int) -> tuple[list[int], list[int]]:
    """Return what is played once no more clients are asked: the best guess, as often as is allowed.

    Args:
        state: The state after all cohorts.
        best: The best guess.
        rounds: The rounds that are left.

    Returns:
        The options, and the rounds of each.
    """
    study = state.study
    if study.safeguard is None or study.safeguard.allowance is None:
        return [best], [rounds]
    (loss,) = worst_losses(state, [best])
    if loss <= study.safeguard.allowance:
        return [best], [rounds]
    own = math.floor(rounds * study.safeguard.allowance / loss * (1 + _ROUNDING))
    if not own:
        return [study.safeguard.current], [rounds]
    return [best, study.safeguard.current], [own, rounds - own]


def current_only(study: Study, rounds: int) -> tuple[list[int], list[int]]:
    """Return the options and the rounds of a phase that only plays the current option."""
    return [_safeguard(study).current], [rounds]


def with_all_allowed(state: State) -> State:
    """Return the state with all options active, except those that are barred."""
    left = np.ones(state.study.actions.count, dtype=bool)
    left[state.barred_actions] = False
    return replace(state, active=np.packbits(left).tobytes())


def without_barred(state: State, active: IntArray, barred: bytes) -> IntArray:
    """Return the active options without the barred ones.

    If all active options are barred, bounds contradict each other, which has a small probability. The study
    then plays the current option.

    Args:
        state: The state before the last phase.
        active: The options that may be best.
        barred: The bitmap of `barred_after`, not empty.
    """
    left = np.setdiff1d(active, unpacked(barred, state.study.actions.count))
    return left if len(left) else np.array([_safeguard(state.study).current])
