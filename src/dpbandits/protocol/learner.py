"""The learner: Algorithm 1 of the paper as two pure functions on frozen values.

Rules of the state machine:
- `ask(state)` is deterministic in the state, and the state in the releases: replaying stored releases
  rebuilds both exactly, or raises `PlanMismatch` at the first difference.
- A phase that fits into the horizon plays its design and reports; `tell` needs its release.
- A phase that does not fit is cut at the horizon, plays, and does not report: `tell` takes no release.
- If fewer clients are left than the next cohort needs, the leader is played to the end of the horizon.
- No action that was dropped comes back, and an ended study cannot be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbandits.actions import Actions
from dpbandits.design import Design, near_g_optimal, support_bound
from dpbandits.errors import PlanMismatch, ProtocolError, StudyEnded
from dpbandits.privacy import Mechanism, calibrate
from dpbandits.protocol.estimation import LeastSquares
from dpbandits.protocol.messages import Plan, Release
from dpbandits.protocol.study import State, Study
from dpbandits.protocol.widths import paper_width, tight_widths

# A share h·π(x) that is whole but for rounding is not played once more.
_ROUNDING = 1e-9


def ask(state: State) -> Plan:
    """What the next phase plays, whom it asks, and through which mechanism."""
    if state.ended:
        raise StudyEnded(f"all {state.study.horizon:,} rounds are played; begin a new study")
    study, remaining = state.study, state.study.horizon - state.rounds_played
    cohort = study.schedule.cohort(state.phase)
    if cohort > state.clients_left:
        return _plan(state, support=[state.leader], plays=[remaining], rank=1, mechanism=None)
    design = _design(study.actions, state.active, study.design_tolerance)
    plays = np.ceil(study.schedule.length(state.phase) * design.weights - _ROUNDING).astype(np.int64)
    if plays.sum() > remaining:
        plays, mechanism = _cut(plays, remaining), None
    else:
        mechanism = _calibrated(study, len(plays), cohort)
    played = plays > 0
    support = design.support[played].tolist()
    return _plan(state, support=support, plays=plays[played].tolist(), rank=design.rank, mechanism=mechanism)


def tell(state: State, plan: Plan, release: Release | None) -> State:
    """The state after a phase: estimate θ*, drop what cannot be best, go on."""
    if plan.study != state.study.digest or plan.phase != state.phase:
        raise PlanMismatch(
            f"plan of phase {plan.phase} given to phase {state.phase} of this study, or another"
        )
    played = replace(state, rounds_played=state.rounds_played + plan.rounds, phase=state.phase + 1)
    if plan.mechanism is None:
        if release is not None:
            raise ProtocolError(f"phase {plan.phase} asks nobody, so it has no release")
        return played
    if release is None or release.plan != plan.digest:
        raise PlanMismatch(f"phase {plan.phase} needs the release of plan {plan.digest[:12]}")
    if len(release.means) != len(plan.support):
        raise PlanMismatch(f"phase {plan.phase} needs {len(plan.support)} means, got {len(release.means)}")
    if not plan.mechanism.minimum_reports <= release.reports <= plan.cohort:
        raise PlanMismatch(f"phase {plan.phase} cannot have a release of {release.reports:,} reports")
    return _learn(played, plan, plan.mechanism, release)


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


def _learn(played: State, plan: Plan, mechanism: Mechanism, release: Release) -> State:
    matrix, active = played.study.actions.matrix, played.active_actions
    plays = np.array(plan.plays, dtype=np.float64)
    estimator = LeastSquares.weighted(matrix[list(plan.support)], plays, plan.rank)
    estimate = estimator.estimate(np.array(release.means))
    candidates = matrix[active]
    widths = _widths(played.study, plan, mechanism, release.reports, estimator, candidates)
    scores = candidates @ estimate
    # Line 16: x goes if some b is better by more than both their widths.
    survivors = active[scores + widths >= np.max(scores - widths)]
    return replace(
        played,
        active=_bitmap(survivors, len(matrix)),
        clients_asked=played.clients_asked + plan.cohort,
        estimate=tuple(estimate.tolist()),
        width=float(np.max(widths)),
    )


def _widths(
    study: Study,
    plan: Plan,
    mechanism: Mechanism,
    clients: int,
    estimator: LeastSquares,
    candidates: NDArray[np.float64],
) -> NDArray[np.float64]:
    if study.privacy.preset == "paper":
        width = paper_width(
            rank=plan.rank,
            length=study.schedule.length(plan.phase),
            mechanism=mechanism,
            clients=clients,
            heterogeneity=study.heterogeneity,
            confidence=study.confidence,
        )
        return np.full(len(candidates), width)
    return tight_widths(
        candidates,
        estimator=estimator,
        plays=np.array(plan.plays, dtype=np.float64),
        mechanism=mechanism,
        clients=clients,
        heterogeneity=study.heterogeneity,
        confidence=study.confidence,
    )


@lru_cache(maxsize=1)
def _design(actions: Actions, active: bytes, tolerance: float) -> Design:
    """The design is a function of the active set alone; phases that drop nothing share it."""
    packed = np.frombuffer(active, dtype=np.uint8)
    indices = np.flatnonzero(np.unpackbits(packed, count=actions.count))
    rows = actions.matrix[indices]
    found = near_g_optimal(rows, tolerance=tolerance)
    if len(found.support) > support_bound(found.rank):  # line 4 promises both bounds together
        found = near_g_optimal(rows)
    return replace(found, support=indices[found.support])


def _calibrated(study: Study, support: int, cohort: int) -> Mechanism:
    return calibrate(study.privacy, support=support, cohort=cohort, bound=study.bound)


def _cut(plays: NDArray[np.int64], remaining: int) -> NDArray[np.int64]:
    """Play the actions one after the other until the horizon."""
    played_before = np.cumsum(plays) - plays
    kept: NDArray[np.int64] = np.clip(remaining - played_before, 0, plays)
    return kept


def _plan(
    state: State, *, support: list[int], plays: list[int], rank: int, mechanism: Mechanism | None
) -> Plan:
    return Plan(
        study=state.study.digest,
        phase=state.phase,
        support=tuple(support),
        plays=tuple(plays),
        rank=rank,
        mechanism=mechanism,
    )


def _bitmap(indices: NDArray[np.int64], count: int) -> bytes:
    mask = np.zeros(count, dtype=bool)
    mask[indices] = True
    return np.packbits(mask).tobytes()
