"""A phase in which every round has its own client: what it asks, and what it teaches (paper, Algorithm 3).

Beside it, `separate.py` says how such rewards scatter; design, estimation and elimination are the learner's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbandits.design import Design
from dpbandits.privacy.scalars import calibrate_scalars
from dpbandits.protocol.clipping import GRID
from dpbandits.protocol.inference import Inference
from dpbandits.protocol.messages import Plan, Release
from dpbandits.protocol.separate import Clipping, clipping
from dpbandits.protocol.study import Evidence, State


def separate_plan(state: State, design: Design, plays: NDArray[np.int64]) -> Plan:
    """A phase in which every round has a new client, who answers for that round's action alone."""
    study, rows = state.study, state.study.actions.matrix[design.support]
    bounds, offsets = np.full(len(plays), study.bound), list[float]()
    if study.clips_what_is_likely:
        chosen = _clipping(state, rows, plays)
        bounds = np.ceil(chosen.bounds * GRID) / GRID
        if chosen.recentred.any():
            centre = np.round(rows @ np.array(state.estimate) * GRID) / GRID
            offsets = np.where(chosen.recentred, centre, 0.0).tolist()
    return Plan(
        study=study.digest,
        phase=state.phase,
        support=tuple(design.support.tolist()),
        plays=tuple(plays.tolist()),
        rank=design.rank,
        mechanism=None,
        offsets=tuple(offsets),
        separate=calibrate_scalars(study.privacy, cohorts=plays.tolist(), bounds=bounds.tolist()),
    )


def separate_evidence(state: State, plan: Plan, release: Release) -> Evidence:
    """The clipping is a function of the state before the phase, so it need not travel with the plan."""
    study, excess = state.study, list[float]()
    if study.clips_what_is_likely:
        rows = study.actions.matrix[list(plan.support)]
        excess = _clipping(state, rows, np.array(plan.plays)).excess.tolist()
    return Evidence(
        plan=plan, reports=release.reports, excess=tuple(excess), estimate=(), counts=release.counts
    )


def _clipping(state: State, rows: NDArray[np.float64], plays: NDArray[np.int64]) -> Clipping:
    widths = None
    if state.evidence is not None and state.study.privacy.trust != "none":
        widths = Inference.of(state.study, state.evidence).widths(rows) + 1 / GRID
    return clipping(state.study, rows, plays, widths)
