"""The progress records of a state: `tell` adds one per phase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.protocol._leader import leader, place_of_leader
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._pooling import pooled_along
from dpbandits.protocol._progress import Progress
from dpbandits.protocol._state import State
from dpbandits.protocol.model import Fit


def recorded(after: State, fit: Fit, kept: IntArray, scores: FloatArray) -> State:
    """Return the state with a `Progress` record of the phase that was just fitted."""
    study, evidence, common = after.study, fit.evidence, fit.common_width
    place = place_of_leader(after, fit, kept, scores)
    mean, width = float(scores[place]), common
    if width is None:
        mean, width = _mean_of(after, fit, int(kept[place]), mean)
    private = study.privacy.trust_model.private
    progress = Progress(
        phase=evidence.plan.phase,
        actions_left=len(kept),
        leader=int(kept[place]),
        estimated_mean=mean,
        width=width,
        largest_width=after.width,
        cohort=evidence.plan.cohort,
        reports=evidence.reports,
        rounds_played=after.rounds_played,
        clients_asked=after.clients_asked,
        requested_epsilon=study.privacy.epsilon if private else None,
        requested_delta=study.privacy.delta if private else None,
    )
    return replace(after, progress=(*after.progress, progress))


def _mean_of(after: State, fit: Fit, action: int, score: float) -> tuple[float, float]:
    """Return the estimated mean reward of an action with its width.

    If the study pools phases and more than one phase measured the action, both come from all phases together.
    After a single phase, the width of that phase is used: it is smaller than a width that must hold in all
    phases.
    """
    study, direction = after.study, np.asarray(after.study.actions.matrix[[action]], dtype=np.float64)
    measured = [one for one in after.fits if one.spans(direction).all()] if study.pools else []
    pooled = pooled_along(study, measured, direction) if len(measured) > 1 else None
    if pooled is not None:
        return float(pooled.estimates[0]), float(pooled.widths(study.bound_failure)[0])
    if fit.spans(direction).all():
        return score, float(fit.widths(np.array([action]))[0])
    # A safeguard has dropped every option except the current one, which was not measured.
    return score, 2 * study.bound


def recorded_without_release(played: State, plan: Plan) -> State:
    """Return the state with a `Progress` record of a phase that asked nobody: only the rounds change."""
    before = played.progress[-1] if played.progress else None
    progress = Progress(
        phase=plan.phase,
        actions_left=len(played.active_actions),
        leader=leader(played) if before is None else before.leader,
        estimated_mean=None if before is None else before.estimated_mean,
        width=None if before is None else before.width,
        largest_width=played.width,
        cohort=0,
        reports=0,
        rounds_played=played.rounds_played,
        clients_asked=played.clients_asked,
        requested_epsilon=None,
        requested_delta=None,
    )
    return replace(played, progress=(*played.progress, progress))
