"""Encodes values as JSON without loss, decodes them, and computes their digests.

An action set is public and may be large, so JSON contains only its digest. The caller of `decode` passes the
actions, and `decode` checks them against the digest.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec
import numpy as np

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import MECHANISMS, Mechanism

Value = TypeVar("Value")


def encode(value: Any) -> bytes:
    """Encode a value as JSON with a fixed field order; floats are exact, and actions become their digest.

    Args:
        value: A message, a study, or another value of the protocol.

    Returns:
        The JSON.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> dp.encode(examples.study().schedule)[:40]
        b'{"alpha":null,"fixed_cohort":null,"maxim'
    """
    return _ENCODER.encode(value)


def decode(data: bytes | str, kind: type[Value], *, actions: Actions | None = None) -> Value:
    """Decode a value that `encode` produced.

    Args:
        data: The JSON.
        kind: The type of the value, for example `Plan`.
        actions: The action set that the value refers to; needed only for types that contain actions, such as
            `Study`.

    Returns:
        The value, validated like one that is constructed directly.

    Raises:
        InvalidValue: The JSON is malformed, a field is missing or out of range, or the actions are missing or
            have another digest.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> study = examples.study()
        >>> dp.decode(dp.encode(study), dp.Study, actions=study.actions) == study
        True
    """

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
    """Return the SHA-256 of the value's JSON in hexadecimal: equal values have equal digests.

    Args:
        value: A message, a study, or another value of the protocol.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import digest
        >>> study = examples.study()
        >>> digest(study) == study.digest
        True
    """
    return hashlib.sha256(encode(value)).hexdigest()


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Actions):
        return value.digest
    if isinstance(value, np.generic):  # a number from NumPy, for example of np.linspace
        return value.item()
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
