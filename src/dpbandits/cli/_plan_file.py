"""Write a planned study as a study file: [options], [study], [privacy] and [schedule]."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dpbandits._checks import whole
from dpbandits.answers import RewardRange
from dpbandits.cli._options_table import OptionsTable
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Study
from dpbandits.simulation import Setting

_REST = """
# A deployed study also needs [storage], [keys], [server] and [tokens], and in the shuffle model [shuffler]:
# see docs/deploying.md. `dpbandits account --study` reads this file as it is.
"""
_SHUFFLER = """
# The shuffle model also needs [shuffler]: see docs/deploying.md.
"""


def check_new(path: Path | None, setting: Setting, port: int | None = None) -> None:
    """Check that the study file can be written, and the files of its keys and tokens if a port is given.

    This is checked before the planning, which takes time.

    Raises:
        InvalidValue: A file exists already, the port is not between 1 and 65535, a port is given without a
            path, or the setting has neither options nor a file of actions.
    """
    if path is None:
        if port is not None:
            raise InvalidValue("loopback", port, "--write as well: the keys belong to a study file")
        return
    if port is not None:
        require_service()
        whole(1, 65535, loopback=port)
        for file in _private_files(path):
            if file.exists():
                raise InvalidValue("loopback", file, "a path where there is no file yet")
    if path.exists():
        raise InvalidValue("write", path, "a path where there is no file yet")
    if setting.problem.actions_file is None and setting.problem.options is None:
        expected = "--options or --actions-file as well: a study file names a table"
        raise InvalidValue("write", path, expected)


def write_study(path: Path, study: Study, actions: str | OptionsTable, port: int | None = None) -> None:
    """Write a study file with explicit cohorts.

    Args:
        path: The new file.
        study: The planned study.
        actions: The file of its actions, or the table of its options. The study file names it relative to its
            own folder.
        port: If given, make keys and tokens and write the sections that a coordinator on this machine needs.
    """
    folder, named, options = path.resolve().parent, list[str](), list[str]()
    if isinstance(actions, OptionsTable):
        options = [*actions.section(folder), ""]
    else:
        named = [f'actions = "{os.path.relpath(Path(actions).resolve(), folder)}"']
    lines = [*options, "[study]", *named, *_settings(study), *_safeguard(study, named), *_reserved(study)]
    rest = _REST if port is None else _loopback(path, port, study)
    path.write_text("\n".join(lines) + "\n" + rest, encoding="utf-8")


def _settings(study: Study) -> list[str]:
    privacy, schedule = study.privacy, study.schedule
    return [
        f"horizon = {study.horizon}",
        f"bound = {study.bound!r}",
        f"bounded_rewards = {str(study.bounded_rewards).lower()}",
        *([] if study.reward_range is None else [f"reward_range = {list(study.reward_range)}"]),
        f"heterogeneity = {study.heterogeneity!r}",
        f"design_tolerance = {study.design_tolerance!r}",
        *([] if study.confidence is None else [f"confidence = {study.confidence!r}"]),
        *(["stop_when_decided = true"] if study.stop_when_decided else []),
        *([f"stop_gap = {study.stop_gap!r}"] if study.stop_gap else []),
        *([] if study.objective == "regret" else [f'objective = "{study.objective}"']),
        *([f"misfit = {study.misfit!r}"] if study.misfit else []),
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


def _safeguard(study: Study, named: list[str]) -> list[str]:
    """Return the section of the safeguard, in units of the reward."""
    own, half = study.safeguard, RewardRange.of(study.reward_range, bound=study.bound).half
    if own is None:
        return []
    limits = {"margin": own.margin, "allowance": own.allowance}
    found = [f"{name} = {half * limit!r}" for name, limit in limits.items() if limit is not None]
    return ["", "[safeguard]", *found, *([f"current = {own.current}"] if named else [])]


def _reserved(study: Study) -> list[str]:
    """Return the sections of the cohorts after the learning phases."""
    test, confirmation, found = study.fit_test, study.confirmation, list[str]()
    if test is not None:
        found += ["", "[fit_test]", f"cohort = {test.cohort}", f"plays = {test.plays}"]
    if confirmation is not None:
        found += ["", "[confirmation]", f"cohort = {confirmation.cohort}"]
        found += [f"finalists = {confirmation.finalists}"]
    return found


def _private_files(path: Path) -> tuple[Path, Path, Path]:
    """Return where the key of the reports and both tokens are kept, next to the study file."""
    names = ("reports.pem", "operator.token", "actuator.token")
    key, operator, actuator = (path.with_name(f"{path.stem}-{name}") for name in names)
    return key, operator, actuator


def _loopback(path: Path, port: int, study: Study) -> str:
    """Make the key and the tokens, and return the sections of a study file that name them."""
    from dpbandits.service.wire import KeyPair, hashed, new_secret, write_private

    key, *tokens = _private_files(path)
    KeyPair.new().save(key)
    hashes = list[str]()
    for token in tokens:
        secret = new_secret()
        write_private(token, secret.encode() + b"\n")
        hashes.append(hashed(secret))
    shuffler = _SHUFFLER if study.privacy.trust_model.shuffler else ""
    return f"""
[storage]
url = {json.dumps(f"sqlite:///{path.stem}.sqlite")}

[keys]
reports = {json.dumps(key.name)}

[server]
port = {port}

[tokens]
operator = "{hashes[0]}"
actuator = "{hashes[1]}"
{shuffler}"""
