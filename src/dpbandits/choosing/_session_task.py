"""`SessionTask`: who plays which options, and the average rewards that are computed from their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue
from dpbandits.options import Options, name_of
from dpbandits.privacy import tamed
from dpbandits.protocol import Plan, Study, play_order

Rewards = Mapping[str, float | Sequence[float]]
"""For each option of a task, the average reward of its plays, or a list with one reward per play."""


@dataclass(frozen=True, kw_only=True)
class SessionTask:
    """What to do now: each person plays each of the options a number of times.

    Attributes:
        phase: The number of the phase, counted from 1.
        people: The people who have a place in this phase and have not answered yet.
        plays: For each option to play, how many times each person plays it.
        plan: The plan of the phase.
        attempt: The number of the attempt at the phase.
    """

    phase: int
    people: tuple[str, ...]
    plays: Mapping[str, int]
    plan: Plan
    attempt: int
    _labels: Mapping[int, str]

    @property
    def order(self) -> list[str]:
        """The option of each play, in an order that is random within blocks, see `play_order`."""
        runs = play_order(self.plan, attempt=self.attempt)
        return [self._labels[action] for action, plays in runs for _ in range(plays)]

    def __repr__(self) -> str:
        asked = ", ".join(f"{option!r}: {plays}" for option, plays in self.plays.items())
        return f"phase {self.phase}: {len(self.people):,} people still to answer; plays {{{asked}}}"


def task_of(plan: Plan, attempt: int, people: tuple[str, ...], options: Options | None) -> SessionTask:
    """Return the task of an attempt at a phase. Without options, the names are `action 0` and so on."""
    names = {action: name_of(options, action) for action in plan.support}
    plays = {names[action]: number for action, number in zip(plan.support, plan.plays, strict=True)}
    return SessionTask(
        phase=plan.phase, people=people, plays=plays, plan=plan, attempt=attempt, _labels=names
    )


def averages_of(study: Study, task: SessionTask, person: str, rewards: object) -> list[float]:
    """Return the average rewards of one person on the scale of the study, in the order of the plan.

    Raises:
        InvalidValue: The options are not those of the task, the number of rewards is not that of the plays,
            or a reward is not a finite number. The message contains no reward, because rewards are private.
    """
    if not isinstance(rewards, Mapping) or set(rewards) != set(task.plays):
        got = "other options" if isinstance(rewards, Mapping) else type(rewards).__name__
        raise InvalidValue(f"rewards of {person!r}", got, f"a mapping from {', '.join(task.plays)}")
    units = RewardRange.of(study.reward_range, bound=study.bound)
    averages = []
    for option, plays in task.plays.items():
        values = _checked(f"rewards of {person!r}, {option!r}", rewards[option], plays)
        scaled = (tamed(values) - units.middle) / units.half
        if study.reward_range is not None or study.bounded_rewards:
            scaled = np.clip(scaled, -units.bound, units.bound)
        averages.append(float(np.mean(scaled)))
    return averages


def _checked(field: str, given: Any, plays: int) -> FloatArray:
    """Return the rewards of the plays of one option, or their average, as an array."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValue(field, type(given).__name__, "a number, or a list of numbers") from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != plays):
        shown = f"{values.size:,} rewards" if values.ndim == 1 else "a table"
        raise InvalidValue(field, shown, f"{plays:,}, one per play, or their average")
    if not np.isfinite(values).all():
        raise InvalidValue(field, "a number that is not finite", "finite numbers")
    return values
