"""Predicts the phases of a study for some drawn θ*, until no further phase asks clients.

All θ* for which the same actions were dropped so far share their phases, so that each design is computed
once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.actions import Actions
from dpbandits.protocol._best_guess import RIGHT, ErrorDraws, Guess
from dpbandits.protocol._near_ties import drawn_parameters
from dpbandits.protocol._predicted_errors import Pooled, PredictedErrors
from dpbandits.protocol._predicted_phase import PhaseCache, PredictedPhase, predicted_phase
from dpbandits.protocol._study import Study

TOGETHER = 4
"""How many θ* are drawn together. They lie near the same tie, and mostly have the same phases."""

_ERRORS = 8  # draws of the errors per θ*
_TIME_UNIFORM = 1.1  # the width of a bound for all phases at once, roughly, over that of a single phase
_TINY = 1e-50


@dataclass(frozen=True, kw_only=True)
class Truths:
    """The drawn θ*, in terms of the actions.

    Attributes:
        weights: The weight of each θ*.
        gaps: One row per θ*, with the gap of each action.
        best: The best action for each θ*.
        errors: The random numbers for the errors of the last estimate, for each θ*.
    """

    weights: FloatArray
    gaps: FloatArray
    best: IntArray
    errors: tuple[ErrorDraws, ...]


@lru_cache(maxsize=8)
def drawn_truths(actions: Actions, draws: int, seed: int) -> Truths:
    """Draw θ* and the random numbers. With more draws, the first ones stay the same."""
    drawn = drawn_parameters(actions, draws, seed, together=TOGETHER)
    rewards = drawn.thetas @ actions.matrix.T
    best = np.argmax(rewards, axis=1)
    rng = np.random.default_rng([seed, 1])
    return Truths(
        weights=drawn.weights,
        gaps=np.asarray(rewards[np.arange(draws), best][:, None] - rewards, dtype=np.float64),
        best=best,
        errors=tuple(ErrorDraws.drawn(rng, _ERRORS, actions.dimension) for _ in range(draws)),
    )


@dataclass(frozen=True, kw_only=True)
class PredictedRun:
    """What is predicted for one θ*.

    Attributes:
        member: The index of the θ*.
        regret: The regret of the phases.
        bound: The proved upper bound of the regret over the horizon.
        rounds: The rounds of the phases. After them the best guess is played.
        first_elimination: The first phase that dropped an action; None if no phase did.
        actions_left: How many actions are left.
        sure: Whether one action is left, or the best guess is near enough (`Study.stop_gap`).
        participants: How many clients the phases asked.
        guess: The distribution of the gap of the best guess.
    """

    member: int
    regret: float
    bound: float
    rounds: float
    first_elimination: int | None
    actions_left: int
    sure: bool
    participants: int
    guess: Guess

    def total(self, study: Study) -> float:
        """Return the expected regret over the horizon."""
        return self.regret + (study.horizon - self.rounds) * self.guess.expected_gap


def outcomes_of(study: Study, truths: Truths, members: IntArray, phases: PhaseCache) -> list[PredictedRun]:
    """Return the outcomes for some of the θ*, in their order."""
    paths = _paths(study, truths, members, phases)
    found = [outcome for path in paths for outcome in path.outcomes(truths)]
    return sorted(found, key=lambda one: one.member)


def _paths(study: Study, truths: Truths, members: IntArray, phases: PhaseCache) -> Iterator[_Path]:
    """Yield the path of each group of θ* at the end of its last phase that asks clients."""
    nothing = np.zeros(len(members))
    start = _Path(
        study=study,
        members=members,
        active=np.arange(study.actions.count),
        regret=nothing,
        bound=nothing,
        worst=truths.gaps[members].max(axis=1),
    )
    open_paths = [start]
    while open_paths:
        path = open_paths.pop()
        sure = len(path.active) == 1 or path.near_enough
        phase = None if sure else predicted_phase(study, path.active, path.known, phases)
        if phase is None or path.rounds + phase.plays.sum() > study.horizon:
            yield path
        else:
            open_paths.extend(path.after(phase, truths))


@dataclass(frozen=True, kw_only=True)
class _Path:
    """The phases so far, for all θ* for which they are the same.

    Attributes:
        study: The study.
        members: The indices of these θ*.
        active: The actions that are left.
        regret: The regret so far, for each member.
        bound: The proved upper bound of the regret so far, for each member.
        worst: An upper bound on the regret of one play, for each member.
        known: What is known after each phase.
        rounds: The rounds so far.
        first_elimination: The first phase that dropped an action.
        near_enough: Whether the best guess is certain to be within the study's `stop_gap` of the best action.
    """

    study: Study
    members: IntArray
    active: IntArray
    regret: FloatArray
    bound: FloatArray
    worst: FloatArray
    known: tuple[PredictedErrors, ...] = field(default=())
    rounds: float = 0.0
    first_elimination: int | None = None
    near_enough: bool = False

    @property
    def number(self) -> int:
        """The number of the next phase."""
        return len(self.known) + 1

    def outcomes(self, truths: Truths) -> Iterator[PredictedRun]:
        """Yield the outcome of each member, when no further phase asks clients."""
        study, decided = self.study, len(self.active) == 1
        later = range(self.number, study.schedule.reporting_phases(study.horizon) + 1) if decided else ()
        rounds = min(float(study.horizon), self.rounds + sum(map(study.schedule.length, later)))
        known = self.known if study.learning.pooled else self.known[-1:]
        pooled = Pooled(known=known, rows=study.actions.matrix[self.active]) if known else None
        for place, member in enumerate(self.members):
            gaps = truths.gaps[member, self.active]
            worst = 0.0 if decided else float(self.worst[place])
            yield PredictedRun(
                member=int(member),
                regret=float(self.regret[place]),
                bound=float(self.bound[place]) + (study.horizon - rounds) * worst,
                rounds=rounds,
                first_elimination=self.first_elimination,
                actions_left=len(self.active),
                sure=decided or self.near_enough,
                participants=sum(map(study.schedule.cohort, range(1, self.number))),
                guess=_guess(gaps, pooled, truths.errors[member], decided=decided),
            )

    def after(self, phase: PredictedPhase, truths: Truths) -> Iterator[_Path]:
        """Yield the paths after a phase, one for each set of actions that is left."""
        gaps = truths.gaps[self.members]
        rounds = float(phase.plays.sum())
        regret = self.regret + gaps[:, phase.support] @ phase.plays
        bound = self.bound + self.worst * rounds
        matrix = self.study.actions.matrix
        widths = phase.knowledge.widths_between(matrix[self.active], matrix[truths.best[self.members]])
        if self.study.pools:
            known = (*self.known, phase.knowledge)
            pooled = _pooled_widths(self.study, known, matrix[self.active], matrix[truths.best[self.members]])
            widths = np.minimum(widths, pooled)
        kept = gaps[:, self.active] <= widths
        kept |= self.active == truths.best[self.members, None]  # against rounding
        near = _near_enough(self.study, np.where(kept, widths - gaps[:, self.active], -np.inf))
        worst = np.minimum(self.worst, 2 * np.max(np.where(kept, widths, 0), axis=1))
        for row, own in _groups(np.column_stack([kept, near])):
            left = row[:-1]
            drops = self.first_elimination is None and not left.all()
            yield _Path(
                study=self.study,
                members=self.members[own],
                active=self.active[left],
                regret=regret[own],
                bound=bound[own],
                worst=worst[own],
                known=(*self.known, phase.knowledge),
                rounds=self.rounds + rounds,
                first_elimination=self.number if drops else self.first_elimination,
                near_enough=bool(row[-1]),
            )


def _near_enough(study: Study, leads: FloatArray) -> BoolArray:
    """Return for each θ* whether the study stops, given bounds on how much better each action may be."""
    if not study.stop_gap:
        return np.zeros(len(leads), dtype=bool)
    return np.asarray(leads.max(axis=1) <= study.stop_gap)


def _pooled_widths(
    study: Study, known: Sequence[PredictedErrors], rows: FloatArray, best: FloatArray
) -> FloatArray:
    """Return roughly the widths of `_pooling.py`, in the form of `PredictedErrors.widths_between`."""
    deviations = [one.widths_between(rows, best) / one.level for one in known]
    information = np.sum([1 / np.maximum(one, _TINY) ** 2 for one in deviations], axis=0)
    level = 2 * math.log(1 / study.pair_failures[0])
    return np.asarray(_TIME_UNIFORM * np.sqrt(level / information), dtype=np.float64)


def _guess(gaps: FloatArray, pooled: Pooled | None, draws: ErrorDraws, *, decided: bool) -> Guess:
    if decided:
        return RIGHT
    if pooled is None:  # nothing is known, so each action is equally likely to be the guess
        wrong = gaps[gaps > 0]
        return Guess(gaps=wrong, chances=np.full(len(wrong), 1 / len(gaps)))
    return pooled.guess(gaps, draws)


def _groups(kept: BoolArray) -> Iterator[tuple[BoolArray, IntArray]]:
    """Yield each different row, with the indices of the rows that are equal to it."""
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(np.packbits(kept, axis=1)):
        places.setdefault(row.tobytes(), []).append(place)
    for own in places.values():
        yield kept[own[0]], np.array(own)
