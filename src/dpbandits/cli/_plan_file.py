"""Write a planned study as a study file: the tables [study], [privacy] and [schedule]."""

from __future__ import annotations

import os
from pathlib import Path

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Study
from dpbandits.simulation import Setting

_REST = """
# A deployed study also needs [storage], [keys], [server] and [tokens], and in the shuffle model [shuffler]:
# see docs/deploying.md. `dpbandits account --study` reads this file as it is.
"""


def check_new(path: Path | None, setting: Setting) -> None:
    """Check before the planning that the file can be written after it.

    Raises:
        InvalidValue: The file exists already, or the setting has no file of actions.
    """
    if path is None:
        return
    if path.exists():
        raise InvalidValue("write", path, "a path where there is no file yet")
    if setting.problem.actions_file is None:
        raise InvalidValue("write", path, "--actions-file as well: a study file names a file of actions")


def write_study(path: Path, study: Study, actions: str) -> None:
    """Write a study file with explicit cohorts.

    Args:
        path: The new file.
        study: The planned study.
        actions: The file of its actions. The study file names it relative to its own folder.
    """
    privacy, schedule = study.privacy, study.schedule
    kept = os.path.relpath(Path(actions).resolve(), path.resolve().parent)
    lines = [
        "[study]",
        f'actions = "{kept}"',
        f"horizon = {study.horizon}",
        f"bound = {study.bound!r}",
        f"bounded_rewards = {str(study.bounded_rewards).lower()}",
        f"heterogeneity = {study.heterogeneity!r}",
        f"design_tolerance = {study.design_tolerance!r}",
        "",
        "[privacy]",
        f'trust = "{privacy.trust}"',
        f"epsilon = {privacy.epsilon!r}",
        f"delta = {privacy.delta!r}",
        f'preset = "{privacy.preset}"',
        *([] if privacy.noise is None else [f'noise = "{privacy.noise}"']),
        f"minimum_share = {privacy.minimum_share!r}",
        f"silent_share = {privacy.silent_share!r}",
        "",
        "[schedule]",
        f"cohorts = {list(schedule.cohorts or ())}",
        f"first_length = {schedule.first_length}",
        f"growth = {float(schedule.growth)!r}",
    ]
    path.write_text("\n".join(lines) + "\n" + _REST, encoding="utf-8")
