"""Reads a study from its JSON such that it has the same digest again."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Study, decode, encode

Value = TypeVar("Value")


def study_from(text: str, actions: Actions) -> Study:
    """Return the study that has this JSON.

    A setting that was given as the whole number 5 is `5` in the JSON, and the digest of the study covers
    it. A decoder makes 5.0 of it, so whole numbers are restored.

    Args:
        text: The JSON, as `encode` wrote it.
        actions: Its actions.

    Raises:
        InvalidValue: It is not the JSON of a study with these actions.
    """
    study = _restored(decode(text, Study, actions=actions), msgspec.json.decode(text))
    if encode(study).decode() != text:
        raise InvalidValue("study", "another form", "the JSON of a study of this version")
    return study


def _restored(value: Value, raw: dict[str, Any]) -> Value:
    changes = dict[str, Any]()
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        found, given = getattr(value, field.name), raw.get(field.name)
        if type(found) is float and type(given) is int:
            changes[field.name] = given
        elif dataclasses.is_dataclass(found) and isinstance(given, dict):
            changes[field.name] = _restored(found, given)
    return dataclasses.replace(value, **changes) if changes else value  # type: ignore[type-var]
