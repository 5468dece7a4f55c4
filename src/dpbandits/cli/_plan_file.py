"""Write a planned study as a study file: the part of it that a plan decides."""

from __future__ import annotations

import os
from pathlib import Path

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Study
from dpbandits.simulation import Setting

_REST = """
# A deployed study also needs [storage], [keys], [server] and [tokens], and in the shuffle model [shuffler]:
# see docs/deploying.md. `dpbandits account --study` accounts for this file as it is.
"""


def check_new(path: Path | None, setting: Setting) -> None:
    """Refuse early what could not be written later."""
    if path is None:
        return
    if path.exists():
        raise InvalidValue("write", path, "a path where there is no file yet")
    if setting.actions_file is None:
        raise InvalidValue("write", path, "--actions-file as well: a study needs the actions it is about")


def write_study(path: Path, study: Study, actions: str) -> None:
    """A new study file with explicit cohorts."""
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
