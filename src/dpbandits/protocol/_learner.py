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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.actions import Actions
from dpbandits.design import Design, Selection, near_g_optimal, support_bound
from dpbandits.errors import PlanMismatch, ProtocolError, StudyEnded
from dpbandits.privacy import Mechanism, calibrate
from dpbandits.protocol._clipping import on_grid
from dpbandits.protocol._elimination import survivors
from dpbandits.protocol._inference import Inference, leader, mechanism_of, products
from dpbandits.protocol._messages import Plan, Release
from dpbandits.protocol._reporting import Reporting, Statistics, choose, excess
from dpbandits.protocol._separate import paper_separate_width
from dpbandits.protocol._separate_phase import separate_evidence, separate_plan
from dpbandits.protocol._study import Evidence, State, Study
from dpbandits.protocol._widths import paper_width

# A share h·π(x) that is whole but for rounding is not played once more.
_ROUNDING = 1e-9


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
        return separate_plan(state, design, plays) if study.separate else _asking_plan(state, design, plays)
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


def _asking_plan(state: State, design: Design, plays: IntArray) -> Plan:
    """A phase that reports. Once there is an estimate, clients report and clip what it leaves open."""
    study, clients = state.study, state.study.schedule.cohort(state.phase)
    coordinates, bound, shape, offsets = len(plays), study.bound, "box", list[float]()
    mixing: FloatArray | None = None
    if study.learning.recentred:
        statistics = _averages(study, design.support, plays)
        chosen = choose(study, statistics, design.rank, clients, _known(state))
        mixing, bound, shape = chosen.statistics.mixing, chosen.bound, chosen.shape
        coordinates = len(chosen.statistics.targets)
        if chosen.recentred:
            offsets = on_grid(chosen.statistics.targets @ np.array(state.estimate)).tolist()
    return _plan(
        state,
        support=design.support.tolist(),
        plays=plays.tolist(),
        rank=design.rank,
        mechanism=calibrate(study.privacy, coordinates=coordinates, cohort=clients, bound=bound, shape=shape),
        offsets=offsets,
        mixing=() if mixing is None else mixing.tolist(),
    )


def _averages(study: Study, support: Sequence[int] | IntArray, plays: ArrayLike) -> Statistics:
    """What clients see of the supported actions."""
    return Statistics(
        rows=study.actions.matrix[np.asarray(support)],
        plays=np.asarray(plays, dtype=np.float64),
        heterogeneity=study.heterogeneity,
    )


def _known(state: State) -> Inference | None:
    return None if state.evidence is None else Inference.of(state.study, state.evidence)


def tell(state: State, plan: Plan, release: Release | None) -> State:
    """The state after a phase: estimate θ*, drop what cannot be best, go on."""
    if plan.study != state.study.name or plan.phase != state.phase:
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
    if len(release.means) != plan.numbers:
        raise PlanMismatch(f"phase {plan.phase} needs {plan.numbers} means, got {len(release.means)}")
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
        evidence = separate_evidence(state, plan, release)
    else:
        evidence = _evidence(state, plan, mechanism_of(plan), release.reports)
    inference = Inference.of(study, evidence)
    estimate = inference.estimator.estimate(np.array(release.means))
    learnt = replace(evidence, estimate=tuple(estimate.tolist()))
    scores = products(study.actions.matrix, active, estimate)
    keep, widest = _survivors(state, inference, scores)
    return replace(
        played,
        active=_bitmap(active[keep], study.actions.count),
        clients_asked=played.clients_asked + plan.cohort,
        width=widest,
        history=(*state.history, learnt),
    )


def _evidence(state: State, plan: Plan, mechanism: Mechanism, reports: int) -> Evidence:
    """What the estimate rests on; where clients clipped what may be real, also how far that may pull."""
    study, pulled = state.study, tuple[float, ...]()
    if study.learning.recentred:
        reporting = Reporting(
            statistics=replace(_averages(study, plan.support, plan.plays), mixing=plan.mixing_matrix),
            shape=mechanism.shape,
            bound=mechanism.bound,
            recentred=bool(plan.offsets),
        )
        pulled = excess(study, reporting, _known(state), reports)
    return Evidence(plan=plan, reports=reports, excess=pulled, estimate=())


def _survivors(state: State, inference: Inference, scores: FloatArray) -> tuple[NDArray[np.bool_], float]:
    """Line 16: which actions may still be best, and the largest width that decided it."""
    study = state.study
    if study.privacy.preset == "paper" and not study.learning.differences:
        width = _paper_width(study, inference.evidence)
        return scores + width >= np.max(scores) - width, width
    return survivors(state, inference, scores)


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
    rows = actions.matrix if len(indices) == actions.count else Selection(actions.matrix, indices)
    found = near_g_optimal(rows, tolerance=tolerance)
    if len(found.support) > support_bound(found.rank):  # line 4 promises both bounds together
        found = near_g_optimal(rows)
    return replace(found, support=indices[found.support])


def _cut(plays: IntArray, remaining: int) -> IntArray:
    """Play the actions one after the other until the horizon."""
    played_before = np.cumsum(plays) - plays
    kept: IntArray = np.clip(remaining - played_before, 0, plays)
    return kept


def _plan(
    state: State,
    *,
    support: list[int],
    plays: list[int],
    rank: int,
    mechanism: Mechanism | None = None,
    offsets: Sequence[float] = (),
    mixing: Sequence[Sequence[float]] = (),
) -> Plan:
    return Plan(
        study=state.study.name,
        phase=state.phase,
        support=tuple(support),
        plays=tuple(plays),
        rank=rank,
        mechanism=mechanism,
        offsets=tuple(offsets),
        mixing=tuple(map(tuple, mixing)),
    )


def _bitmap(indices: IntArray, count: int) -> bytes:
    mask = np.zeros(count, dtype=bool)
    mask[indices] = True
    return np.packbits(mask).tobytes()
