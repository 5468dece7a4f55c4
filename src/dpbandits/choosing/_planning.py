"""Plans the study of `choose`, and refuses one that cannot learn anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbandits._checks import whole
from dpbandits.answers import left_for_widths, radii
from dpbandits.choosing._people import People
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Steps, Study, ask, budgeted, reserved, reserved_fit_test, spent

_LONG = 10**9  # a horizon into which every first phase fits
_NAMED = 6  # columns that an error message names
_MOST_DOUBLINGS = 12  # how far an error message looks for a sufficient number of participants
_ONLY_RANGE = "none, because only the range of these rewards is known; for clients, state a heterogeneity"


def planned(
    options: Options,
    people: People,
    *,
    participants: int,
    horizon: int,
    privacy: PrivacyRequest,
    failure: float,
    confirm: bool | float = False,
    misfit: float = 0.0,
    variance: float | None = None,
    notice: float | None = None,
) -> Study:
    """Return the study that `choose` runs.

    Args:
        options: The options.
        people: The people.
        participants: How many of them are asked.
        horizon: The total number of rounds.
        privacy: The trust model and (ε, δ).
        failure: The probability with which an interval may miss the truth.
        confirm: As in `choose`; a number is on the scale of the study.
        misfit: As in `choose`, on the scale of the study.
        variance: `reward_variance` of `choose`, on the scale of the study.
        notice: `notice_misfit` of `choose`, on the scale of the study.

    Returns:
        The study. Its schedule is that of `people.schedule`; if that is None, `budgeted` plans it.

    Raises:
        InvalidValue: The horizon is too short; the intervals would be wider than the range of rewards; or
            `variance` or `notice` is given for people about whom only the range of rewards is known.
    """
    if variance is not None and people.knowledge.only_range:
        raise InvalidValue("reward_variance", variance, _ONLY_RANGE)
    # If nothing is known about a person's rewards, they are clipped at the range only, which loses nothing.
    steps = None if not people.knowledge.only_range else Steps().without("recentred", "whitened")
    everybody = Study(
        actions=options.actions,
        horizon=horizon,
        schedule=Schedule(cohorts=(participants,), first_length=1),
        bounded_rewards=people.bounded,
        heterogeneity=people.heterogeneity,
        privacy=privacy,
        population=people.size if privacy.sampled_share < 1 else None,
        assignment=people.assignment,
        steps=steps,
        reward_variance=variance,
        misfit=misfit,
    )
    study = _reserved(everybody, options, people, confirm, notice)
    (learning,) = study.schedule.cohorts or (0,)
    schedule = people.schedule(learning)
    study = spent(study, budgeted(study, learning)) if schedule is None else replace(study, schedule=schedule)
    left = left_for_widths(study, people.knowledge, failure)
    if not ask(study.begin()).asks:
        least = sum(ask(replace(study, horizon=_LONG).begin()).plays)
        raise InvalidValue("horizon", f"{horizon:,}", f"at least {least:,} rounds, which one phase needs")
    _check_resolved(study, options, people, learning, left)
    return study


def _reserved(
    study: Study, options: Options, people: People, confirm: bool | float, notice: float | None
) -> Study:
    """Return the study with the fit test and the confirmation for which people are reserved."""
    (participants,) = study.schedule.cohorts or (0,)
    if notice is not None:
        if people.knowledge.only_range:
            raise InvalidValue("notice_misfit", notice, _ONLY_RANGE)
        test = reserved_fit_test(study, participants, notice)
        study = replace(study, fit_test=test, schedule=_smaller(study, test.cohort))
    if confirm is False or options.current is None or not study.assignment_rule.one_cohort:
        return study
    confirmation = reserved(
        study,
        participants,
        current=options.index(options.current),
        assumes="range" if people.knowledge.only_range else "spread",
        width=None if confirm is True else confirm,
    )
    if confirmation is None:
        return study
    return replace(study, confirmation=confirmation, schedule=_smaller(study, confirmation.cohort))


def _smaller(study: Study, cohort: int) -> Schedule:
    """Return the schedule of one phase without the people of a reserved cohort."""
    (participants,) = study.schedule.cohorts or (0,)
    return replace(study.schedule, cohorts=(whole(1, participants=participants - cohort),))


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
    if not study.assignment_rule.one_cohort:  # there are as many rounds as participants
        longest = participants
    schedule = Schedule(cohorts=(participants,), first_length=longest)
    state = replace(study, schedule=schedule, horizon=_LONG, confirmation=None, fit_test=None).begin()
    plan = ask(state)
    counts = tuple(own.cohort for own in plan.mechanisms)
    evidence = state.study.assignment_rule.evidence(state, plan, counts, None)
    evidence = replace(evidence, means=(0.0,) * plan.numbers)
    matrix = study.actions.matrix
    chance = failure / (2 * len(matrix))
    return float(np.min(radii(state.study, evidence, matrix, chance, people.knowledge)))
