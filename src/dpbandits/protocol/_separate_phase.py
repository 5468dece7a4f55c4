"""A phase in which every round has its own client: what it asks, and what it teaches (paper, Algorithm 3).

Beside it, `_separate.py` says how such rewards scatter; design, estimation and elimination are the learner's.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design import Design
from dpbandits.privacy import calibrate_per_action
from dpbandits.protocol._clipping import GRID, on_grid
from dpbandits.protocol._inference import Inference
from dpbandits.protocol._messages import Plan, Release
from dpbandits.protocol._separate import Clipping, clipping
from dpbandits.protocol._study import Evidence, State, Study


def separate_plan(state: State, design: Design, plays: IntArray) -> Plan:
    """A phase in which every round has a new client, who answers for that round's action alone."""
    study, support = state.study, tuple(design.support.tolist())
    bounds, offsets = np.full(len(plays), study.bound), list[float]()
    if study.clips_what_is_likely:
        chosen = _clipping(state, support, plays)
        bounds = on_grid(chosen.bounds, up=True)
        if chosen.recentred.any():
            centre = on_grid(study.actions.matrix[design.support] @ np.array(state.estimate))
            offsets = np.where(chosen.recentred, centre, 0.0).tolist()
    return Plan(
        study=study.name,
        phase=state.phase,
        support=support,
        plays=tuple(plays.tolist()),
        rank=design.rank,
        mechanism=None,
        offsets=tuple(offsets),
        separate=calibrate_per_action(study.privacy, cohorts=plays.tolist(), bounds=bounds.tolist()),
    )


def separate_evidence(state: State, plan: Plan, release: Release) -> Evidence:
    """The clipping is a function of the state before the phase, so it need not travel with the plan."""
    study, excess = state.study, list[float]()
    if study.clips_what_is_likely:
        excess = _clipping(state, plan.support, np.array(plan.plays)).excess.tolist()
    return Evidence(
        plan=plan, reports=release.reports, excess=tuple(excess), estimate=(), counts=release.counts
    )


def _clipping(state: State, support: tuple[int, ...], plays: IntArray) -> Clipping:
    study, widths = state.study, None
    if state.evidence is not None and study.privacy.trust_model.private:
        widths = _widths(study, state.evidence, support)
    return clipping(study, study.actions.matrix[list(support)], plays, widths)


@lru_cache(maxsize=1)
def _widths(study: Study, evidence: Evidence, support: tuple[int, ...]) -> FloatArray:
    """How far the last estimate may be off; a phase needs it when it begins and when it ends."""
    found = Inference.of(study, evidence).widths(study.actions.matrix[list(support)]) + 1 / GRID
    found.flags.writeable = False
    return found
