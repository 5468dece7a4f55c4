"""Values to JSON and back, without loss, and their fingerprints.

An action set is public and may be large, so it travels as its digest; whoever reads a value back
brings the actions along and has them checked.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import MECHANISMS, Mechanism

Value = TypeVar("Value")


def encode(value: Any) -> bytes:
    """JSON with a fixed order of fields; floats keep every bit."""
    return _ENCODER.encode(value)


def decode(data: bytes | str, kind: type[Value], *, actions: Actions | None = None) -> Value:
    """Read a value of type `kind`; `actions` are needed where the value refers to them."""

    def hook(wanted: type, found: Any) -> Any:
        if wanted is Mechanism:
            return _mechanism(found)
        if wanted is Actions:
            return _same_actions(found, actions)
        raise NotImplementedError(wanted)

    try:
        return msgspec.json.decode(data, type=kind, dec_hook=hook)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidValue(kind.__name__, "unreadable JSON", f"a message of this version ({error})") from None


def digest(value: Any) -> str:
    """A fingerprint of a value: equal values, and only they, have equal ones."""
    return hashlib.sha256(encode(value)).hexdigest()


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Actions):
        return value.digest
    raise NotImplementedError(type(value))


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_hook, order="deterministic")


def _mechanism(found: Any) -> Mechanism:
    kind = found.get("kind") if isinstance(found, dict) else None
    if not isinstance(kind, str) or kind not in MECHANISMS:
        raise InvalidValue("mechanism.kind", repr(kind), "one of " + ", ".join(MECHANISMS))
    return msgspec.convert(found, MECHANISMS[kind])


def _same_actions(found: Any, actions: Actions | None) -> Actions:
    if actions is None:
        raise InvalidValue("actions", None, f"the action set with digest {found}")
    if actions.digest != found:
        raise InvalidValue("actions", f"digest {actions.digest}", f"the action set with digest {found}")
    return actions
