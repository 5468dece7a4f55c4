"""Reads a study from its JSON such that the study has the same digest again."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Study, decode, encode


def study_from(text: str, actions: Actions) -> Study:
    """Return the study that has this JSON.

    A setting that was given as the whole number 5 is `5` in the JSON, and so in what the digest covers. A
    decoder makes 5.0 of it, so whole numbers are restored.

    Args:
        text: The JSON, as `encode` wrote it.
        actions: The actions of the study.

    Raises:
        InvalidValue: The text is not the JSON of a study with these actions.
    """
    study: Study = _restored(decode(text, Study, actions=actions), msgspec.json.decode(text))
    if encode(study).decode() != text:
        raise InvalidValue("study", "another form", "the JSON of a study of this version")
    return study


def _restored(value: Any, raw: Any) -> Any:
    """Return a decoded value with the whole numbers that its JSON has."""
    if type(value) is float and type(raw) is int:
        return raw
    if isinstance(value, tuple) and isinstance(raw, list):
        return tuple(_restored(one, given) for one, given in zip(value, raw, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and isinstance(raw, dict):
        names = [field.name for field in dataclasses.fields(value) if field.name in raw]
        restored = {name: _restored(getattr(value, name), raw[name]) for name in names}
        return dataclasses.replace(value, **restored)
    return value
