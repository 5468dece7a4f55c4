"""The learner: Algorithm 1 of the paper as two pure functions on frozen values.

Rules of the state machine:
- `ask(state)` is deterministic in the state, and the state in the releases: replaying stored releases
  rebuilds both exactly, or raises `PlanMismatch` at the first difference.
- A phase that fits into the horizon plays its design and reports; `tell` needs its release.
- A phase that does not fit is cut at the horizon, plays, and does not report: `tell` takes no release.
- Once nobody can be asked any more (all cohorts were, or too few clients are left), the leader is played
  to the end of the horizon; with the step `committed` also where a phase does not fit any more.
- No action that was dropped comes back, and an ended study cannot be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbandits.actions import Actions
from dpbandits.design import Design, near_g_optimal, support_bound
from dpbandits.errors import PlanMismatch, ProtocolError, StudyEnded
from dpbandits.privacy import Mechanism, calibrate
from dpbandits.privacy.scalars import calibrate_scalars
from dpbandits.protocol.clipping import clip_radius, mean_excess, residual_deviations
from dpbandits.protocol.inference import Inference, leader, mechanism_of
from dpbandits.protocol.messages import Plan, Release
from dpbandits.protocol.separate import Clipping, clipping, paper_separate_width
from dpbandits.protocol.study import Evidence, State, Study
from dpbandits.protocol.widths import paper_width

# A share h·π(x) that is whole but for rounding is not played once more.
_ROUNDING = 1e-9
# Offsets and clip radii are multiples of 1/_GRID, so that another machine's rounding gives the same plan.
_GRID = 2.0**20
_BLOCK = 1 << 13


def ask(state: State) -> Plan:
    """What the next phase plays, whom it asks, and through which mechanism."""
    if state.ended:
        raise StudyEnded(f"all {state.study.horizon:,} rounds are played; begin a new study")
    study, remaining = state.study, state.study.horizon - state.rounds_played
    if not _may_ask(state):
        return _plan(state, support=[leader(state)], plays=[remaining], rank=1)
    design = _design(study.actions, state.active, study.design_tolerance)
    plays = np.ceil(study.schedule.length(state.phase) * design.weights - _ROUNDING).astype(np.int64)
    short = study.separate and plays.sum() > state.clients_left
    if plays.sum() <= remaining and not short:
        return _separate_plan(state, design, plays) if study.separate else _asking_plan(state, design, plays)
    if short or (study.learning.committed and state.estimate is not None):
        return _plan(state, support=[leader(state)], plays=[remaining], rank=1)
    cut = _cut(plays, remaining)
    played = cut > 0
    support = design.support[played].tolist()
    return _plan(state, support=support, plays=cut[played].tolist(), rank=design.rank)


def _may_ask(state: State) -> bool:
    """Whether a cohort is due, can be had, and has something to decide."""
    schedule = state.study.schedule
    if not schedule.asks(state.phase):
        return False
    if not state.study.separate and schedule.cohort(state.phase) > state.clients_left:
        return False
    return len(state.active_actions) > 1 or not state.study.stop_when_decided


def _asking_plan(state: State, design: Design, plays: NDArray[np.int64]) -> Plan:
    """A phase that reports. Once there is an estimate, clients report and clip what it leaves open."""
    study = state.study
    bound, offsets = study.bound, list[float]()
    if study.learning.recentred:
        bound, offsets = _clipping(state, study.actions.matrix[design.support], plays.astype(np.float64))
    mechanism = calibrate(
        study.privacy, support=len(plays), cohort=study.schedule.cohort(state.phase), bound=bound
    )
    return _plan(
        state,
        support=design.support.tolist(),
        plays=plays.tolist(),
        rank=design.rank,
        mechanism=mechanism,
        offsets=offsets,
    )


def _separate_plan(state: State, design: Design, plays: NDArray[np.int64]) -> Plan:
    """A phase in which every round has a new client, who answers for that round's action alone."""
    study, rows = state.study, state.study.actions.matrix[design.support]
    bounds, offsets = np.full(len(plays), study.bound), list[float]()
    if study.clips_what_is_likely:
        chosen = _separate_clipping(state, rows, plays)
        bounds = np.ceil(chosen.bounds * _GRID) / _GRID
        if chosen.recentred.any():
            centre = np.round(rows @ np.array(state.estimate) * _GRID) / _GRID
            offsets = np.where(chosen.recentred, centre, 0.0).tolist()
    return _plan(
        state,
        support=design.support.tolist(),
        plays=plays.tolist(),
        rank=design.rank,
        offsets=offsets,
        separate=calibrate_scalars(study.privacy, cohorts=plays.tolist(), bounds=bounds.tolist()),
    )


def _separate_clipping(state: State, rows: NDArray[np.float64], plays: NDArray[np.int64]) -> Clipping:
    widths = None
    if state.evidence is not None and state.study.privacy.trust != "none":
        widths = Inference.of(state.study, state.evidence).widths(rows) + 1 / _GRID
    return clipping(state.study, rows, plays, widths)


def _clipping(
    state: State, rows: NDArray[np.float64], plays: NDArray[np.float64]
) -> tuple[float, list[float]]:
    """Where clients clip, and around what: around zero, or around the last estimate where that is closer."""
    study = state.study
    around_zero = _radius(study, None, rows, plays)
    bound = min(study.bound, around_zero) if study.bounded_rewards else around_zero
    if state.evidence is None or study.privacy.trust == "none":
        return bound, []
    around_estimate = _radius(study, state.evidence, rows, plays)
    if around_estimate >= bound:
        return bound, []
    return around_estimate, (np.round(rows @ np.array(state.estimate) * _GRID) / _GRID).tolist()


def _radius(
    study: Study, evidence: Evidence | None, rows: NDArray[np.float64], plays: NDArray[np.float64]
) -> float:
    widths, deviations = _residuals(study, evidence, rows, plays)
    return math.ceil(clip_radius(widths, deviations) * _GRID) / _GRID


def _residuals(
    study: Study, evidence: Evidence | None, rows: NDArray[np.float64], plays: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far what clients report may be off zero on average, and how one client's report scatters.

    Before there is an estimate to subtract, means are known to lie in [−bound, bound] and no more.
    """
    deviations = residual_deviations(rows, plays, study.heterogeneity)
    if evidence is None:
        return np.full(len(rows), study.bound), deviations
    return Inference.of(study, evidence).widths(rows) + 1 / _GRID, deviations


def tell(state: State, plan: Plan, release: Release | None) -> State:
    """The state after a phase: estimate θ*, drop what cannot be best, go on."""
    if plan.study != state.study.digest or plan.phase != state.phase:
        raise PlanMismatch(
            f"plan of phase {plan.phase} given to phase {state.phase} of this study, or another"
        )
    played = replace(state, rounds_played=state.rounds_played + plan.rounds, phase=state.phase + 1)
    if not plan.reports:
        if release is not None:
            raise ProtocolError(f"phase {plan.phase} asks nobody, so it has no release")
        return played
    if release is None or release.plan != plan.digest:
        raise PlanMismatch(f"phase {plan.phase} needs the release of plan {plan.digest[:12]}")
    if len(release.means) != len(plan.support):
        raise PlanMismatch(f"phase {plan.phase} needs {len(plan.support)} means, got {len(release.means)}")
    counts = release.counts if plan.separate else (release.reports,)
    if len(counts) != len(plan.mechanisms) or not all(
        own.minimum_reports <= count <= own.cohort for own, count in zip(plan.mechanisms, counts, strict=True)
    ):
        raise PlanMismatch(f"phase {plan.phase} cannot have a release of {release.reports:,} reports")
    return _learn(state, played, plan, release)


def replay(study: Study, releases: Iterable[Release]) -> State:
    """Rebuild the state from the releases that were kept, checking that each fits its plan."""
    state = study.begin()
    for release in releases:
        plan = ask(state)
        if plan.digest != release.plan:
            raise PlanMismatch(
                f"replay of phase {plan.phase}: the stored release belongs to plan {release.plan[:12]}, but "
                f"this study asks plan {plan.digest[:12]}; were actions, settings or the version changed?"
            )
        state = tell(state, plan, release)
    return state


def _learn(state: State, played: State, plan: Plan, release: Release) -> State:
    study, active = state.study, state.active_actions
    if study.separate:
        evidence = _separate_evidence(state, plan, release)
    else:
        evidence = _evidence(state, plan, mechanism_of(plan), release.reports)
    inference = Inference.of(study, evidence)
    estimate = inference.estimator.estimate(np.array(release.means))
    learnt = replace(evidence, estimate=tuple(estimate.tolist()))
    scores = (study.actions.matrix @ estimate)[active]
    keep, widest = _survivors(inference, active, scores)
    return replace(
        played,
        active=_bitmap(active[keep], study.actions.count),
        clients_asked=played.clients_asked + plan.cohort,
        width=widest,
        history=(*state.history, learnt),
    )


def _evidence(state: State, plan: Plan, mechanism: Mechanism, reports: int) -> Evidence:
    """What the estimate rests on; where clients clipped what may be real, also how far that may pull."""
    study, excess = state.study, list[float]()
    lossless = study.bounded_rewards and not plan.offsets and mechanism.bound >= study.bound
    if study.learning.recentred and not lossless:
        rows = study.actions.matrix[list(plan.support)]
        plays = np.array(plan.plays, dtype=np.float64)
        before = state.evidence if plan.offsets else None
        widths, deviations = _residuals(study, before, rows, plays)
        excess = mean_excess(mechanism.bound, widths, deviations, reports, study.confidence).tolist()
    return Evidence(plan=plan, reports=reports, excess=tuple(excess), estimate=())


def _separate_evidence(state: State, plan: Plan, release: Release) -> Evidence:
    """The clipping is a function of the state before the phase, so it need not travel with the plan."""
    study, excess = state.study, list[float]()
    if study.clips_what_is_likely:
        rows = study.actions.matrix[list(plan.support)]
        excess = _separate_clipping(state, rows, np.array(plan.plays)).excess.tolist()
    return Evidence(
        plan=plan, reports=release.reports, excess=tuple(excess), estimate=(), counts=release.counts
    )


def _survivors(
    inference: Inference, active: NDArray[np.int64], scores: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], float]:
    """Line 16: which actions may still be best, and the largest width that decided it."""
    study, best = inference.study, int(np.argmax(scores))
    if study.learning.differences:
        widths = _widths(inference, active, towards=int(active[best]))
        return scores[best] - scores <= widths, float(np.max(widths))
    if study.privacy.preset == "paper":
        widths = np.full(len(active), _paper_width(study, inference.evidence))
    else:
        widths = _widths(inference, active)
    return scores + widths >= np.max(scores - widths), float(np.max(widths))


def _widths(
    inference: Inference, active: NDArray[np.int64], *, towards: int | None = None
) -> NDArray[np.float64]:
    """Of each active action, or of its difference to one; a block of rows at a time, to spare memory."""
    matrix = inference.study.actions.matrix
    found = np.empty(len(active))
    for start in range(0, len(active), _BLOCK):
        rows = matrix[active[start : start + _BLOCK]]
        found[start : start + _BLOCK] = inference.widths(rows if towards is None else matrix[towards] - rows)
    return found


def _paper_width(study: Study, evidence: Evidence) -> float:
    if study.separate:
        return paper_separate_width(study, evidence)
    return paper_width(
        rank=evidence.plan.rank,
        length=study.schedule.length(evidence.plan.phase),
        mechanism=mechanism_of(evidence.plan),
        clients=evidence.reports,
        heterogeneity=study.heterogeneity,
        confidence=study.confidence,
    )


@lru_cache(maxsize=1)
def _design(actions: Actions, active: bytes, tolerance: float) -> Design:
    """The design is a function of the active set alone; phases that drop nothing share it."""
    packed = np.frombuffer(active, dtype=np.uint8)
    indices = np.flatnonzero(np.unpackbits(packed, count=actions.count))
    rows = actions.matrix if len(indices) == actions.count else actions.matrix[indices]
    found = near_g_optimal(rows, tolerance=tolerance)
    if len(found.support) > support_bound(found.rank):  # line 4 promises both bounds together
        found = near_g_optimal(rows)
    return replace(found, support=indices[found.support])


def _cut(plays: NDArray[np.int64], remaining: int) -> NDArray[np.int64]:
    """Play the actions one after the other until the horizon."""
    played_before = np.cumsum(plays) - plays
    kept: NDArray[np.int64] = np.clip(remaining - played_before, 0, plays)
    return kept


def _plan(
    state: State,
    *,
    support: list[int],
    plays: list[int],
    rank: int,
    mechanism: Mechanism | None = None,
    offsets: Sequence[float] = (),
    separate: tuple[Mechanism, ...] = (),
) -> Plan:
    return Plan(
        study=state.study.digest,
        phase=state.phase,
        support=tuple(support),
        plays=tuple(plays),
        rank=rank,
        mechanism=mechanism,
        offsets=tuple(offsets),
        separate=separate,
    )


def _bitmap(indices: NDArray[np.int64], count: int) -> bytes:
    mask = np.zeros(count, dtype=bool)
    mask[indices] = True
    return np.packbits(mask).tobytes()
