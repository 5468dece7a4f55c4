"""The learner: Algorithm 1 of the paper as two pure functions, `ask` and `tell`, on frozen values.

Rules of the state machine:
- The plan `ask(state)` is a function of the state, and the state is a function of the releases. Replaying
  stored releases rebuilds both exactly, or raises `PlanMismatch` at the first difference.
- A phase that fits into the horizon plays its design and asks clients; `tell` needs its release.
- A phase that does not fit is cut at the horizon. It plays and asks nobody; `tell` takes no release.
- Once no more clients can be asked (every cohort has been asked, or too few clients are left), the leader is
  played to the end of the horizon. With the step `committed` the same happens when a phase does not fit.
- If the study has a fit test or a confirmation, each of them takes place once, in this order, before the
  leader is played to the end. They drop no action. One that does not fit into the horizon or the population
  is left out.
- With a `Safeguard`, some actions are not played again, and phases also play the current option
  (`_safe_plays.py`).
- A dropped action never becomes active again, with one exception: if a safeguard bars all active actions, the
  current option becomes the only active one.
- `ask` raises `StudyEnded` after the last round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dpbandits.errors import PlanMismatch, ProtocolError, StudyEnded
from dpbandits.protocol._bitmap import packed
from dpbandits.protocol._confirmation import confirmation_evidence, confirmation_plan, finalists, may_confirm
from dpbandits.protocol._designs import active_design, identifying, whole_plays
from dpbandits.protocol._elimination import pooled_survivors, survivors
from dpbandits.protocol._lack_of_fit import fit_test_evidence, fit_test_plan, may_test_fit, tested_actions
from dpbandits.protocol._leader import best_estimate, gap_bound, leader
from dpbandits.protocol._messages import Plan, Release
from dpbandits.protocol._recording import recorded, recorded_without_release
from dpbandits.protocol._safe_plays import (
    barred_after,
    current_only,
    limits_losses,
    raised,
    to_the_end,
    with_all_allowed,
    with_current,
    without_barred,
)
from dpbandits.protocol._state import State
from dpbandits.protocol._study import Study
from dpbandits.protocol.model import Fit, fitted


def ask(state: State) -> Plan:
    """Plan the next phase: which actions it plays, how many clients it asks, and the privacy mechanism.

    Args:
        state: The state after all phases so far.

    Returns:
        The plan, a function of the state alone.

    Raises:
        StudyEnded: All rounds have been played.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = dp.ask(examples.study().begin())
        >>> plan.phase, plan.rounds, plan.cohort
        (1, 10, 20)
    """
    study, remaining = state.study, state.study.horizon - state.rounds_played
    if state.ended:
        raise StudyEnded(f"all {study.horizon:,} rounds have been played; start a new study")
    if not _may_ask(state):
        return _committed(state, remaining)
    design = active_design(study.actions, state.active, study.design_tolerance)
    plays = whole_plays(study.schedule.length(state.phase), design.weights)
    played, plays = with_current(state, design, plays)
    enough = study.assignment_rule.has_clients(state, plays)
    if plays.sum() <= remaining and enough:
        known = _last_fit(state)
        plan = study.assignment_rule.plan(state, played, plays, known)
        return plan if study.objective == "regret" else identifying(state, plan, leader(state), known)
    if not enough or (study.learning.committed and state.history):
        return _committed(state, remaining)
    if limits_losses(study):  # nothing is known that could be played instead of the current option
        return _playing(state, *current_only(study, remaining), rank=1)
    # The phase does not fit: its actions are played one after the other until the horizon.
    cut = np.clip(remaining - (np.cumsum(plays) - plays), 0, plays)
    return _playing(state, design.support[cut > 0].tolist(), cut[cut > 0].tolist(), design.rank)


def _may_ask(state: State) -> bool:
    """Return whether a cohort is scheduled, enough clients are left, and the study is not yet decided."""
    study = state.study
    if not study.schedule.asks(state.phase) or not study.assignment_rule.has_cohort(state):
        return False
    return not study.stop_when_decided or (len(state.active_actions) > 1 and not _near_enough(state))


def _near_enough(state: State) -> bool:
    """Return whether the gap of the best guess is at most `stop_gap`, with the confidence of the study."""
    wanted = state.study.stop_gap
    return wanted > 0 and bool(state.history) and gap_bound(state) <= wanted


def _last_fit(state: State) -> Fit | None:
    return fitted(state.study, state.history[-1].unfitted) if state.history else None


def _committed(state: State, rounds: int) -> Plan:
    """Return the plan of the fit test or the confirmation, or one that plays the leader to the end."""
    plan = _fit_test(state) or _confirmation(state)
    return plan or _playing(state, *to_the_end(state, leader(state), rounds), rank=1)


def _fit_test(state: State) -> Plan | None:
    """Return the plan of the fit test; None if the study has none, or if it took place or does not fit."""
    if not may_test_fit(state):
        return None
    study, guard = state.study, state.study.safeguard
    current = None if guard is None or guard.allowance is None else guard.current
    barred = state.barred_actions if state.barred else None
    actions = tested_actions(study, best_estimate(state), barred=barred, current=current)
    return raised(state, fit_test_plan(state, actions)) if actions else None


def _confirmation(state: State) -> Plan | None:
    """Return the plan of the confirmation; None in the same cases as for the fit test, or if it is barred."""
    if not may_confirm(state):
        return None
    options = finalists(state, best_estimate(state))
    if np.isin(options, state.barred_actions).any():  # only the current option is left
        options = finalists(with_all_allowed(state), best_estimate(state))
        options = (options[0], options[-1])
    if options[0] in state.barred_actions:
        return None
    return raised(state, confirmation_plan(state, options))


def _playing(state: State, support: list[int], plays: list[int], rank: int) -> Plan:
    """Return the plan of a phase that asks nobody."""
    return Plan(
        study=state.study.name,
        phase=state.phase,
        support=tuple(support),
        plays=tuple(plays),
        rank=rank,
        mechanism=None,
    )


def tell(state: State, plan: Plan, release: Release | None) -> State:
    """Complete a phase: fit the reward model, drop the actions that cannot be best, record the progress.

    Args:
        state: The state before the phase.
        plan: The plan that `ask(state)` returned.
        release: The release of the plan; None if the plan asks nobody.

    Returns:
        The state after the phase.

    Raises:
        PlanMismatch: The plan or the release belongs to another phase or study, the release is missing, or
            its numbers of means or reports do not fit the plan.
        ProtocolError: There is a release for a plan that asks nobody.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> release = examples.release(plan)
        >>> state = dp.tell(examples.study().begin(), plan, release)
        >>> state.phase, state.clients_asked, state.progress[-1].leader
        (2, 20, 0)
    """
    _check(state, plan, release)
    played = replace(state, rounds_played=state.rounds_played + plan.rounds, phase=state.phase + 1)
    if release is None:
        return recorded_without_release(played, plan)
    if _is_after_learning(state, plan):
        return _after_learning(state, played, plan, release)
    study, active = state.study, state.active_actions
    evidence = study.assignment_rule.evidence(state, plan, plan.counts(release), _last_fit(state))
    evidence = replace(evidence, means=release.means)
    fit = fitted(study, evidence)
    scores = study.reward_model.means(study.actions.matrix, active, fit.estimate)
    keep, widest = survivors(state, fit, scores)
    if not keep.all():  # copying a million numbers takes noticeable time
        active, scores = active[keep], scores[keep]
    if study.pools:
        keep = pooled_survivors(study, [*state.fits, fit], active)
        active, scores = active[keep], scores[keep]
    barred = barred_after(state, [*state.fits, fit])
    if barred:
        active = without_barred(state, active, barred)
        scores = study.reward_model.means(study.actions.matrix, active, fit.estimate)
    after = replace(
        played,
        active=packed(active, study.actions.count),
        clients_asked=played.clients_asked + plan.cohort,
        width=widest,
        history=(*state.history, replace(evidence, estimate=tuple(fit.estimate.tolist()))),
        barred=barred,
    )
    return recorded(after, fit, active, scores)


def _is_after_learning(state: State, plan: Plan) -> bool:
    """Return whether a plan is that of the fit test or of the confirmation."""
    study, cohorts = state.study, list[int]()
    if may_test_fit(state):
        assert study.fit_test is not None
        cohorts.append(study.fit_test.cohort)
    if may_confirm(state):
        cohorts.append(study.confirming)
    return plan.cohort in cohorts and plan == ask(state) and plan == _committed(state, 1)


def _after_learning(state: State, played: State, plan: Plan, release: Release) -> State:
    """Return the state after the fit test or the confirmation, in which the same actions are active."""
    study, asked = played.study, played.clients_asked + plan.cohort
    if plan == _fit_test(state):
        found = fit_test_evidence(study, plan, release.reports, release.means)
        after = replace(played, fit_test_evidence=found, clients_asked=asked)
    else:
        evidence = confirmation_evidence(study, plan, release.reports, release.means)
        after = replace(played, confirmation_evidence=evidence, clients_asked=asked)
    progress = replace(
        after.progress[-1],
        phase=plan.phase,
        leader=leader(after),
        cohort=plan.cohort,
        reports=release.reports,
        rounds_played=after.rounds_played,
        clients_asked=asked,
    )
    return replace(after, progress=(*after.progress, progress))


def _check(state: State, plan: Plan, release: Release | None) -> None:
    """Raise unless the plan belongs to this phase and the release to this plan."""
    if plan.study != state.study.name or plan.phase != state.phase:
        raise PlanMismatch(
            f"plan: got phase {plan.phase} of study {plan.study[:12]}, expected phase {state.phase} of study "
            f"{state.study.name[:12]}"
        )
    if not plan.asks:
        if release is not None:
            raise ProtocolError(f"phase {plan.phase} asks nobody, so it has no release")
        return
    if release is None or release.plan != plan.digest:
        raise PlanMismatch(f"phase {plan.phase} needs the release of plan {plan.digest[:12]}")
    if len(release.means) != plan.numbers:
        raise PlanMismatch(f"phase {plan.phase} needs {plan.numbers} means, got {len(release.means)}")
    counts = plan.counts(release)
    if len(counts) != len(plan.mechanisms) or not all(
        own.minimum_reports <= count <= own.cohort for own, count in zip(plan.mechanisms, counts, strict=True)
    ):
        raise PlanMismatch(
            f"phase {plan.phase} cannot have a release of {release.reports:,} reports, expected between the "
            "minimum and the cohort of each mechanism"
        )


def replay(study: Study, releases: Iterable[Release]) -> State:
    """Rebuild the state from stored releases, checking that each fits its plan.

    Args:
        study: The study.
        releases: The release of every phase that asked clients, in the order of the phases.

    Returns:
        The state after the last of these phases.

    Raises:
        PlanMismatch: A release does not belong to the plan that the study computes for its phase.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> study, release = examples.study(), examples.release(examples.plan())
        >>> dp.replay(study, [release]) == examples.after_one_phase(study)
        True
    """
    state = study.begin()
    for release in releases:
        plan = ask(state)
        if plan.digest != release.plan:
            raise PlanMismatch(
                f"replay of phase {plan.phase}: the stored release belongs to plan {release.plan[:12]}, but "
                f"this study computes plan {plan.digest[:12]}; were actions, settings or the version changed?"
            )
        state = tell(state, plan, release)
    return state


def states_before(end: State) -> list[State]:
    """Return the state before each phase that a state has learnt from, and the state itself.

    Args:
        end: A state. It may also have the results of a fit test and of a confirmation.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import states_before
        >>> [state.phase for state in states_before(examples.after_one_phase(examples.study()))]
        [1, 2]
    """
    states = [end.study.begin()]
    for evidence in end.history:
        release = Release(
            plan=evidence.plan.digest,
            means=evidence.means,
            reports=evidence.reports,
            simulated=False,
            counts=evidence.counts,
        )
        states.append(tell(states[-1], evidence.plan, release))
    return [*states[:-1], end]
