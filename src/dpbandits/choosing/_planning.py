"""Plans the study of `choose`, and refuses one that cannot learn anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpbandits.answers import left_for_widths, radii
from dpbandits.choosing._people import People
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Steps, Study, ask, plan_study

_LONG = 10**9  # a horizon into which every first phase fits
_NAMED = 6  # columns that an error message names
_MOST_DOUBLINGS = 12  # how far an error message looks for a sufficient number of participants


def planned(
    options: Options,
    people: People,
    *,
    participants: int,
    horizon: int,
    privacy: PrivacyRequest,
    failure: float,
) -> Study:
    """Return the study that `choose` runs.

    Args:
        options: The options.
        people: The people.
        participants: How many of them are asked.
        horizon: The total number of rounds.
        privacy: The trust model and (ε, δ).
        failure: The probability with which an interval may miss the truth.

    Returns:
        The study, with the schedule that the people ask for. Else `plan_study` plans it.

    Raises:
        InvalidValue: The horizon is too short, or the intervals would be wider than the range of rewards.
    """
    # If nothing is known about a person's rewards, they are clipped at the range only, which loses nothing.
    steps = None if not people.knowledge.only_range else Steps().without("recentred", "whitened")
    settings: dict[str, Any] = {
        "bounded_rewards": people.bounded,
        "heterogeneity": people.heterogeneity,
        "steps": steps,
        "assignment": people.assignment,
    }
    schedule = people.schedule(participants)
    if schedule is not None:
        study = Study(
            actions=options.actions, horizon=horizon, privacy=privacy, schedule=schedule, **settings
        )
    else:
        study = plan_study(
            actions=options.actions,
            horizon=horizon,
            participants=participants,
            privacy=privacy,
            **settings,
        )
    left = left_for_widths(study, people.knowledge, failure)
    first = ask(study.begin())
    if not first.asks:
        least = sum(ask(replace(study, horizon=_LONG).begin()).plays)
        raise InvalidValue("horizon", f"{horizon:,}", f"at least {least:,} rounds, which one phase needs")
    _check_resolved(study, options, people, participants, left)
    return study


def _check_resolved(
    study: Study, options: Options, people: People, participants: int, failure: float
) -> None:
    """Raise if even a single cohort of all participants leaves every mean reward unknown."""
    if _best_width(study, people, participants, failure) <= 1:
        return
    names = options.encoding.columns
    what = f"{len(names)} columns ({', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''})"
    enough, number = participants, "many more"
    for _ in range(_MOST_DOUBLINGS):
        enough *= 2
        if _best_width(study, people, enough, failure) <= 1:
            number = f"about {enough:,}"
            break
    expected = f"{number} to learn anything about {what}, or fewer features, or a larger epsilon"
    raise InvalidValue("participants", f"{participants:,}", expected)


def _best_width(study: Study, people: People, participants: int, failure: float) -> float:
    """Return the least width of an option's mean reward if all participants are asked at once."""
    longest = study.schedule.length(len(study.schedule.cohorts or (0,)))
    if study.assignment == "one":  # there are as many rounds as participants
        longest = participants
    schedule = Schedule(cohorts=(participants,), first_length=longest)
    state = replace(study, schedule=schedule, horizon=_LONG).begin()
    plan = ask(state)
    counts = tuple(own.cohort for own in plan.mechanisms)
    evidence = state.study.assignment_rule.evidence(state, plan, counts, None)
    evidence = replace(evidence, means=(0.0,) * plan.numbers)
    matrix = study.actions.matrix
    chance = failure / (2 * len(matrix))
    return float(np.min(radii(state.study, evidence, matrix, chance, people.knowledge)))
