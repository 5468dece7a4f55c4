"""The sections [fit_test] and [confirmation] of a study file: cohorts that are reserved for one purpose each.

If [schedule] gives the number of participants, these cohorts are taken from it, and the rest is planned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpbandits._checks import whole
from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.protocol import Confirmation, FitTest, Study, reserved, reserved_fit_test, usual_plays
from dpbandits.service.config._toml_file import TomlFile


def with_fit_test(file: TomlFile, study: Study, participants: int | None) -> Study:
    """Return the study with the fit test of its file, if the file has one."""
    if not file.has("fit_test"):
        return study
    return file.build(
        "fit_test",
        lambda **keys: _reserve(study, participants, fit_test=_fit_test(study, participants, **keys)),
    )


def with_confirmation(
    file: TomlFile, study: Study, options: Options | None, participants: int | None
) -> Study:
    """Return the study with the confirmation of its file or, if the file has none, with the default one."""

    def reserve(**keys: Any) -> Study:
        confirmation = _confirmation(study, options, participants, **keys)
        return _reserve(study, participants, confirmation=confirmation)

    return file.build("confirmation", reserve, at="cohort")


def _fit_test(study: Study, participants: int | None, *, notice: float | None = None, **keys: Any) -> FitTest:
    """Return the fit test with these keys or, if `notice` is given, the smallest one that notices it."""
    if notice is None:
        return FitTest(**keys)
    if participants is None or set(keys) - {"plays"}:
        expected = "none, if cohort or coordinates are given, or if [schedule] has no participants"
        raise InvalidValue("notice", notice, expected)
    return reserved_fit_test(study, participants, _on_scale(study, notice), **keys)


def _confirmation(
    study: Study,
    options: Options | None,
    participants: int | None,
    *,
    enabled: bool = True,
    cohort: int | None = None,
    width: float | None = None,
    **keys: Any,
) -> Confirmation | None:
    """Return the confirmation with these keys, or the default one; None if the study has no confirmation."""
    current = None if options is None else options.current
    asked = cohort is not None or width is not None or bool(keys)
    if not enabled or current is None or options is None:
        if asked:
            raise InvalidValue("confirmation", "its keys", "enabled = true, and `current` in [options]")
        return None
    place = options.index(current)
    if cohort is not None:
        if width is not None:
            raise InvalidValue("width", width, "none, if cohort is given")
        return Confirmation(**{"plays": usual_plays(study), **keys, "current": place, "cohort": cohort})
    if participants is None:
        if asked:
            raise InvalidValue("cohort", None, "a number of clients, since [schedule] has no participants")
        return None
    wanted = None if width is None else _on_scale(study, width)
    return reserved(study, participants, current=place, width=wanted, **keys)


def _reserve(study: Study, participants: int | None, **own: Any) -> Study:
    """Return the study with a fit test or a confirmation. Its clients are taken from the participants."""
    (added,) = own.values()
    if participants is None or added is None:
        return replace(study, **own)
    left = sum(study.schedule.cohorts or ()) - added.cohort
    schedule = replace(study.schedule, cohorts=(whole(1, participants=left),))
    return replace(study, schedule=schedule, **own)


def _on_scale(study: Study, difference: float) -> float:
    """Convert a difference from units of the reward to the scale inside the study, [−bound, bound]."""
    return difference / RewardRange.of(study.reward_range, bound=study.bound).half
