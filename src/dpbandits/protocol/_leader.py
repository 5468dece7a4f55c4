"""The leader, which is the best guess among the active actions; its estimate, and a bound on its gap."""

from __future__ import annotations

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.protocol._confirmation import confirmed_leader
from dpbandits.protocol._designs import ROUNDING
from dpbandits.protocol._elimination import FEW, first_best
from dpbandits.protocol._pooling import pooled_leads
from dpbandits.protocol._state import State
from dpbandits.protocol.model import Fit

_MANY = 1 << 14  # with more candidates for the leader than this, their scores are not recomputed


def leader(state: State) -> int:
    """Return the index of the best guess among the active actions.

    Args:
        state: The state after any number of phases.

    Returns:
        The active action with the largest estimated mean; before the first release, the first active action.
        A confirmation may replace it by another option that it measured (`confirmed_leader`).

    Example:
        >>> from dpbandits import examples
        >>> state = examples.after_one_phase(examples.study())
        >>> from dpbandits.protocol import leader
        >>> leader(state)
        0
    """
    study, active = state.study, state.active_actions
    if not state.history:
        return int(active[0])
    scores = study.reward_model.means(study.actions.matrix, active, best_estimate(state))
    return confirmed_leader(state, int(active[first_best(scores)]))


def best_estimate(state: State) -> FloatArray:
    """Return the estimate by which `leader` compares actions.

    Args:
        state: The state after at least one release.

    Returns:
        The estimate from all phases together or, without the step `pooled`, from the last phase.

    Example:
        >>> from dpbandits import examples
        >>> state = examples.after_one_phase(examples.study())
        >>> from dpbandits.protocol import best_estimate
        >>> best_estimate(state).round(3)
        array([0.9, 0.1])
    """
    if not state.study.learning.pooled:
        return np.array(state.estimate)
    return state.study.reward_model.pool(state.fits)


def place_of_leader(state: State, fit: Fit, active: IntArray, scores: FloatArray) -> int:
    """Return the index of the leader within `active`, starting from the scores by the last estimate.

    The score of an action by the pooled estimate differs from its score by the last estimate by at most the
    model's distance between the two estimates. So only actions within twice that distance of the best score
    need to be scored by the pooled estimate. If more than 2¹⁴ actions are that close, the last estimate alone
    decides, to avoid a pass over all actions.
    """
    best, model = first_best(scores), state.study.reward_model
    if not state.study.learning.pooled:
        return best
    pooled = best_estimate(state)
    distance = model.distance(pooled, fit.estimate)
    near = np.flatnonzero(scores >= scores[best] - 2 * distance * (1 + ROUNDING) - ROUNDING)
    if near.size > _MANY:
        return best
    return int(near[first_best(model.means(state.study.actions.matrix, active[near], pooled))])


def gap_bound(state: State) -> float:
    """Return an upper bound on the gap of the best guess, from the last release and from all releases.

    All bounds hold together with the confidence of the study (docs/theory.md, Theorems 1 and 9).

    Args:
        state: The state after at least one release.

    Returns:
        The largest upper confidence bound on how much better another active action may be; 0 if no other
        action is left.

    Example:
        >>> from dpbandits import examples
        >>> state = examples.after_one_phase(examples.study())
        >>> from dpbandits.protocol import gap_bound
        >>> gap_bound(state) >= 0
        True
    """
    study, active, best = state.study, state.active_actions, leader(state)
    others = active[active != best]
    if not len(others):
        return 0.0
    fits = state.fits
    scores = study.reward_model.means(study.actions.matrix, active, fits[-1].estimate)
    behind = float(scores[np.searchsorted(active, best)])
    reach = scores[active != best] - behind + fits[-1].widths(others, towards=best)
    leads = pooled_leads(study, fits, best, others) if len(others) <= FEW else None
    if leads is not None:
        reach = np.minimum(reach, leads.widths(study.pair_failures[1]) - leads.estimates)
    return max(0.0, float(np.max(reach)))
