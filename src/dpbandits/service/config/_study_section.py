"""The sections [study] and [privacy] of a study file, and the study that all its sections describe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Study, budgeted, spent
from dpbandits.service.config._options_section import options_of
from dpbandits.service.config._reserved_cohorts import with_confirmation, with_fit_test
from dpbandits.service.config._safeguard_section import with_safeguard
from dpbandits.service.config._schedule_section import schedule_of
from dpbandits.service.config._toml_file import TomlFile


def study_of(file: TomlFile) -> Study:
    """Return the study that a file describes. If the file gives `participants`, plan its schedule.

    Args:
        file: A study file.

    Returns:
        The study, with its final schedule.

    Raises:
        InvalidValue: A value is missing or not accepted; the error names the line.
    """
    study, participants = described(file, options_of(file))
    return study if participants is None else spent(study, budgeted(study, participants))


def described(file: TomlFile, options: Options | None) -> tuple[Study, int | None]:
    """Return the study of a file and, if its schedule must still be planned, the number of participants.

    Until it is planned, the schedule has a single cohort of all participants as a placeholder.
    """
    privacy = _with_default_noise(file.build("privacy", PrivacyRequest), file)
    schedule, participants = schedule_of(file)
    actions = file.build("study", lambda **_keys: _actions(file, options), at="actions")
    rewards = _rewards(file.section("study"), planned=participants is not None)
    digest = "" if options is None else options.digest
    study = file.build(
        "study", Study, actions=actions, privacy=privacy, schedule=schedule, options=digest, **rewards
    )
    study = with_safeguard(file, study, options)
    study = with_fit_test(file, study, participants)
    study = with_confirmation(file, study, options, participants)
    return study, None if participants is None else sum(study.schedule.cohorts or ())


def _rewards(keys: dict[str, Any], *, planned: bool) -> dict[str, Any]:
    """Return the fields of a study, all about rewards, whose values differ from the keys of [study].

    The values are not checked here: `Study` refuses values that it does not accept.
    """
    fields: dict[str, Any] = {}
    ends, variance = keys.get("reward_range"), keys.get("reward_variance")
    if isinstance(ends, list):
        fields["reward_range"] = tuple(ends)
        if isinstance(variance, int | float) and len(ends) == 2:  # the file has it in units of the reward
            fields["reward_variance"] = variance * (2 * keys.get("bound", 1.0) / _length(ends)) ** 2
    # A planned schedule starts with few plays per action, and the average of few rewards can lie outside
    # [−bound, bound]. So by default, a planned study assumes bounded rewards only if clients clip them to a
    # range.
    if planned and "bounded_rewards" not in keys:
        fields["bounded_rewards"] = ends is not None
    return fields


def _length(ends: list[Any]) -> float:
    try:
        return float(ends[1] - ends[0]) or 1.0
    except TypeError:
        return 1.0


def _with_default_noise(privacy: PrivacyRequest, file: TomlFile) -> PrivacyRequest:
    """In mode `verified`, let the servers add the noise if the file names no noise.

    The party that enrols clients could invent clients, and so remove noise that clients share. The noise of
    the servers does not depend on clients.
    """
    mode = file.section("shuffler").get("mode", "")
    if mode != "verified" or privacy.noise is not None or privacy.pure or privacy.preset != "tight":
        return privacy
    return replace(privacy, noise=privacy.trust_model.server_noise)


def _actions(file: TomlFile, options: Options | None) -> Actions:
    if options is None:
        return Actions.load(file.file("study", "actions"))
    if "actions" in file.section("study"):
        given = file.section("study")["actions"]
        raise InvalidValue("actions", given, "none: the rows of the table in [options] are the actions")
    return options.actions
