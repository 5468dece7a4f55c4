"""The section [schedule] of a study file: the number of participants, or the cohorts of the phases."""

from __future__ import annotations

from typing import Any

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Schedule
from dpbandits.service.config._toml_file import TomlFile

_SCHEDULES = ("participants", "cohorts", "alpha", "fixed_cohort")


def schedule_of(file: TomlFile) -> tuple[Schedule, int | None]:
    """Return the schedule of a study file and, if it must still be planned, the number of participants.

    Until it is planned, the schedule has a single cohort of all participants as a placeholder.
    """
    return file.build("schedule", _schedule), file.section("schedule").get("participants")


def _schedule(participants: int | None = None, **keys: Any) -> Schedule:
    given = keys if participants is None else {**keys, "participants": participants}
    named = [name for name in _SCHEDULES if name in given]
    if len(named) != 1:
        raise InvalidValue("schedule", " and ".join(named) or "none", "one of " + ", ".join(_SCHEDULES))
    if participants is not None:
        if set(keys) - {"maximum_cohort"}:
            expected = "only maximum_cohort as a further key: the rest is planned"
            raise InvalidValue("participants", participants, expected)
        keys["cohorts"] = [whole(1, 2**40, participants=participants)]
    if "cohorts" in keys:
        if not isinstance(keys["cohorts"], list):
            raise InvalidValue("cohorts", keys["cohorts"], "a list of whole numbers")
        keys["cohorts"] = tuple(keys["cohorts"])
    return Schedule(**keys)
