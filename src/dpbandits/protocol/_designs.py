"""What a phase plays: a design of the active actions, or a design for differences ("identification" only).

A G-optimal design of the active actions plays only actions that may still be best, which costs little regret.
If a few similar actions are left, it compares them badly: the difference of two nearly equal actions is
small compared with the noise of each. A design for differences (`design.for_differences`) may play every
action, even one that cannot be best. With the objective "identification" a phase is planned with both
designs, including noise and clipping. The design for differences is taken if its widths are at least 5 %
smaller.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.actions import Actions
from dpbandits.design import (
    Design,
    DifferenceDesign,
    Selection,
    for_differences,
    near_g_optimal,
    support_bound,
)
from dpbandits.protocol._bitmap import packed, unpacked
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._safe_plays import with_current
from dpbandits.protocol._state import State
from dpbandits.protocol.model import Fit

ROUNDING = 1e-9
_NEARLY = 1e-7  # relative: ten times the largest change that `design` makes to the length of a row
MOST_COMPARED = 16  # with more active actions, differences and means need nearly the same design
_MOST_CANDIDATES = 1 << 12  # with more actions, only the active ones and a design of all are candidates
WORTH = 0.95  # a design for differences is taken if its largest width is at most this share of the usual one


def whole_plays(length: int, weights: FloatArray) -> IntArray:
    """Return how often a phase plays each supported action: its share of the length, rounded up.

    A share h·π(x) that is slightly above a whole number is rounded down. Rounding errors, and the small
    changes by which the design's search avoids ties, cause such shares.
    """
    return np.ceil(length * weights * (1 - _NEARLY) - ROUNDING).astype(np.int64)


@lru_cache(maxsize=2)
def active_design(actions: Actions, active: bytes, tolerance: float) -> Design:
    """Compute the design of the active set; consecutive phases with the same active set share it."""
    indices = unpacked(active, actions.count)
    rows = actions.matrix if len(indices) == actions.count else Selection(actions.matrix, indices)
    found = near_g_optimal(rows, tolerance=tolerance)
    if len(found.support) > support_bound(found.rank):  # line 4 of Algorithm 1 also limits the support
        found = near_g_optimal(rows)
    return replace(found, support=indices[found.support])


def identifying(state: State, usual: Plan, best: int, known: Fit | None) -> Plan:
    """Return the better of a plan and one with a design for differences.

    Args:
        state: The state before the phase.
        usual: The plan with the design of the active actions.
        best: The best guess, whose differences to the other active actions are compared.
        known: The last fit, around which clients may clip; None before the first release.

    Returns:
        The plan with a design for differences if its largest width of these differences is at most 95 % of
        that of `usual`, if it fits into the horizon, and if at most 16 actions are active; otherwise `usual`.
    """
    study, others = state.study, state.active_actions[state.active_actions != best]
    if not 0 < len(others) < MOST_COMPARED:
        return usual
    design = difference_design(study.actions, state.active, study.design_tolerance, state.barred)
    plays = whole_plays(study.schedule.length(state.phase), design.weights)
    played, plays = with_current(state, design, plays)
    fits_in = plays.sum() <= study.horizon - state.rounds_played
    if not fits_in or not study.assignment_rule.has_clients(state, plays):
        return usual
    plan = study.assignment_rule.plan(state, played, plays, known)

    def widest(one: Plan) -> float:
        counts = tuple(own.cohort for own in one.mechanisms)
        evidence = study.assignment_rule.evidence(state, one, counts, known)
        evidence = replace(evidence, means=(0.0,) * one.numbers)
        fit = study.reward_model.fit(study, evidence, study.assignment_rule.errors(study, evidence))
        return float(np.max(fit.widths(others, towards=best)))

    return plan if widest(plan) <= WORTH * widest(usual) else usual


@lru_cache(maxsize=256)  # results are small, and studies of the same actions need the same designs again
def difference_design(
    actions: Actions, active: bytes, tolerance: float, barred: bytes = b""
) -> DifferenceDesign:
    """Compute the design for the differences of the active actions.

    Args:
        actions: All actions.
        active: The active ones, as a packed bitmap.
        tolerance: The tolerance of the design of all actions. With more than 4,096 actions, only the active
            ones and the support of this design are candidates.
        barred: The actions that may not be played, as a packed bitmap; empty if there are none.
    """
    options = unpacked(active, actions.count)
    candidates = np.arange(actions.count)
    if actions.count > _MOST_CANDIDATES:
        everything = packed(candidates, actions.count)
        candidates = np.union1d(options, active_design(actions, everything, tolerance).support)
    if barred:
        candidates = np.setdiff1d(candidates, unpacked(barred, actions.count))
    rows = np.asarray(actions.matrix[candidates], dtype=np.float64)
    found = for_differences(rows, np.searchsorted(candidates, options))
    return replace(found, support=candidates[found.support])
