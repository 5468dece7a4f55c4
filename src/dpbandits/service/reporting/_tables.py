"""`tables_of`: the tables of a study as lists of rows, for exports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from dpbandits.options import Options
from dpbandits.protocol import Plan, Release, decode
from dpbandits.service.coordinator import Answered, Course

Row = dict[str, Any]


def tables_of(course: Course, options: Options | None) -> dict[str, list[Row]]:
    """Return every table of a study by its name.

    Args:
        course: What the store has.
        options: The options of the study; None if its actions have no names.

    Returns:
        The rows of `options`, `effects`, `phases`, `plans`, `releases` and `attempts`. All rows of a table
        have the same keys.
    """
    answer = Answered.of(course.journalled, options).answer
    return {
        "options": [] if answer is None else [asdict(one) for one in answer.options],
        "effects": [] if answer is None else [asdict(one) for one in answer.effects],
        "phases": [asdict(one) for one in course.journalled.state.progress],
        "plans": _plans(course, options),
        "releases": _releases(course),
        "attempts": [
            {
                "phase": one.phase,
                "attempt": one.number,
                "state": one.state,
                "asked": one.joined,
                "answered": course.answered[one.phase, one.number],
                "rounds_played": one.played,
            }
            for one in course.attempts
        ],
    }


def _plans(course: Course, options: Options | None) -> list[Row]:
    found = list[Row]()
    for record in course.journalled.plans:
        plan = decode(record.body, Plan)
        mechanism = "" if plan.mechanism is None else msgspec.json.encode(plan.mechanism).decode()
        found += [
            {
                "phase": plan.phase,
                "action": action,
                "option": "" if options is None else options.labels[action],
                "plays": plays,
                "cohort": plan.cohort,
                "mechanism": mechanism,
                "digest": plan.digest,
            }
            for action, plays in zip(plan.support, plan.plays, strict=True)
        ]
    return found


def _releases(course: Course) -> list[Row]:
    found = list[Row]()
    for record in course.journalled.releases:
        release = decode(record.body, Release)
        found += [
            {
                "phase": record.phase,
                "attempt": record.attempt,
                "number": place,
                "mean": mean,
                "reports": release.reports,
            }
            for place, mean in enumerate(release.means)
        ]
    return found
