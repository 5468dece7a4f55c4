"""`tables_of`: the tables of a study as lists of rows, for exports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from dpbandits.options import Options
from dpbandits.protocol import Plan, Release, decode
from dpbandits.service.coordinator import Answered, StudyHistory

Row = dict[str, Any]


def tables_of(history: StudyHistory, options: Options | None) -> dict[str, list[Row]]:
    """Return every table of a study by its name.

    Args:
        history: What the store has.
        options: The options of the study; None if its actions have no names.

    Returns:
        The rows of `options`, `effects`, `phases`, `plans`, `releases` and `attempts`. All rows of a table
        have the same keys.
    """
    answer = Answered.of(history.journalled, options).answer
    return {
        "options": [] if answer is None else [asdict(one) for one in answer.options],
        "effects": [] if answer is None else [asdict(one) for one in answer.effects],
        "phases": [asdict(one) for one in history.journalled.state.progress],
        "plans": _plans(history, options),
        "releases": _releases(history),
        "attempts": [
            {
                "phase": one.phase,
                "attempt": one.number,
                "state": one.state,
                "asked": one.joined,
                "answered": history.answered[one.phase, one.number],
                "rounds_played": one.played,
            }
            for one in history.attempts
        ],
    }


def _plans(history: StudyHistory, options: Options | None) -> list[Row]:
    found = list[Row]()
    for record in history.journalled.plans:
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


def _releases(history: StudyHistory) -> list[Row]:
    found = list[Row]()
    for record in history.journalled.releases:
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
