"""The settings of a session, and how its file stores them: a session can be resumed from its path alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from dpbandits._checks import two_ends, whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Study, decode, encode
from dpbandits.storage import MemoryStore, Store, StudyRecord, open_store

_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """The settings of a session, which are fixed when it begins.

    Attributes:
        study: The study.
        options: The options; None if the actions have no names.
        simulated: Whether the noise is simulated.
    """

    study: Study
    options: Options | None
    simulated: bool

    def record(self) -> StudyRecord:
        """Return the first record of a new store."""
        actions = self.study.actions
        body = {
            "study": self.study.digest,
            "session": _VERSION,
            "settings": encode(self.study).decode(),
            "options": None if self.options is None else self.options.to_json(),
            "actions": None if self.options is not None else actions.matrix.tolist(),
            "loss": actions.loss,
            "simulated": self.simulated,
        }
        return StudyRecord(digest=self.study.name, body=encode(body))

    @staticmethod
    def of(record: StudyRecord, path: object) -> SessionSettings:
        """Return the settings that a file keeps.

        Args:
            record: The record of the file.
            path: The file, for error messages.

        Raises:
            InvalidValue: The file does not contain a session, or one of another version.
        """
        found: Any = msgspec.json.decode(record.body)
        if not isinstance(found, dict) or found.get("session") != _VERSION:
            raise InvalidValue("file", path, "the file of a session of this version")
        kept = found["options"]
        options = None if kept is None else Options.from_json(kept)
        actions = Actions(found["actions"], loss=found["loss"]) if options is None else options.actions
        return SessionSettings(
            study=decode(found["settings"], Study, actions=actions),
            options=options,
            simulated=bool(found["simulated"]),
        )

    def check_same(self, given: SessionSettings) -> None:
        """Check that settings that were given again are those of the file.

        Raises:
            InvalidValue: They differ. The message names the first setting that differs.
        """
        for name in ("study", "options", "simulated"):
            mine, theirs = getattr(self, name), getattr(given, name)
            if mine != theirs:
                shown = _shown(name, theirs), f"{_shown(name, mine)}, with which the session began"
                raise InvalidValue("noise" if name == "simulated" else name, *shown)


def _shown(name: str, value: Any) -> str:
    if name == "simulated":
        return "simulated noise" if value else "secure noise"
    if isinstance(value, Study | Options):
        return f"digest {value.digest[:12]}"
    return repr(value)


def open_session_store(path: str | Path | None, *, resume: bool) -> Store:
    """Open the store of a session.

    Args:
        path: The file; None keeps the session in memory.
        resume: Whether the file must exist.

    Raises:
        InvalidValue: The file must exist and does not.
        StorageError: The file cannot be opened.
    """
    if path is None:
        return MemoryStore()
    if resume and not Path(path).is_file():
        raise InvalidValue("study", str(path), "a Study, or the file of a session that began before")
    return open_store(f"sqlite:///{Path(path)}")


def kept_settings(store: Store, path: object) -> SessionSettings | None:
    """Return the settings that a store keeps; None if it is empty."""
    with store.transaction() as transaction:
        record = transaction.study()
    return None if record is None else SessionSettings.of(record, path)


def keep_settings(store: Store, settings: SessionSettings) -> None:
    """Begin a session in an empty store."""
    with store.transaction() as transaction:
        transaction.begin_study(settings.record())


def checked_settings(
    study: Study, options: Options | None, reward_range: object, noise: NoiseSource
) -> SessionSettings:
    """Return the settings that the arguments of `session` describe.

    Raises:
        InvalidValue: The study has only one action, or the options or the range are not those of the study.
    """
    whole(2, actions=study.actions.count)
    if options is not None and not isinstance(options, Options):
        raise InvalidValue("options", type(options).__name__, "Options, from Options.from_table or grid")
    if options is not None and options.actions != study.actions:
        raise InvalidValue("options", "other actions", "the options of the study")
    if study.options and (options is None or options.digest != study.options):
        raise InvalidValue("options", "none" if options is None else "others", "the options of the study")
    if reward_range is not None:
        ends = two_ends(reward_range=reward_range)
        if study.reward_range not in (None, ends):
            raise InvalidValue("reward_range", ends, f"{study.reward_range}, the range of the study")
        study = replace(study, reward_range=ends)
    # Encoded and decoded, as in a file: an ε that was given as the integer 1 has another digest than 1.0.
    same = decode(encode(study), Study, actions=study.actions)
    return SessionSettings(study=same, options=options, simulated=noise.simulated)


def agreed(store: Store, given: SessionSettings | None, path: object, noise: NoiseSource) -> SessionSettings:
    """Return the settings of a session. If its store is empty, the session begins with the given settings.

    Raises:
        InvalidValue: The store has other settings than those given, or it is empty and none are given.
    """
    kept = kept_settings(store, path)
    if kept is None:
        if given is None:
            raise InvalidValue("study", str(path), "the file of a session that began before")
        keep_settings(store, given)
        return given
    kept.check_same(given or checked_settings(kept.study, kept.options, None, noise))
    return kept
