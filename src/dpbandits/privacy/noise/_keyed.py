"""Reproducible noise: its bits are a pseudorandom function of a secret key and a context.

The stream is the concatenation, for i = 0, 1, 2 …, of 1,024 bytes of SHAKE256 over

    "dpbandits noise v1" ‖ the key, 32 bytes ‖ the number of parts, 8 bytes
    ‖ for each part of the context its length, 8 bytes, and its bytes ‖ i, 8 bytes

with integers in big-endian order. The encoding is injective: different keys, contexts or positions in the
stream never have the same input. Without the key, the stream is indistinguishable from uniform bytes,
provided that SHAKE256 with a secret prefix is a pseudorandom function. Anyone with the key can reproduce the
noise and subtract it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import final

from dpbandits.errors import InvalidValue
from dpbandits.privacy.noise._coins import Coins
from dpbandits.privacy.noise._exact import ExactNoise

KEY_BYTES = 32
_LABEL = b"dpbandits noise v1"
_BLOCK = 1024


class KeyedStream:
    """An endless stream of pseudorandom bytes.

    Args:
        key: 32 secret bytes.
        context: Byte strings that identify the purpose of the noise.

    Raises:
        InvalidValue: If the key has another length.
    """

    __slots__ = ("_counter", "_rest", "_start")

    def __init__(self, key: bytes, context: Sequence[bytes]) -> None:
        if len(key) != KEY_BYTES:
            raise InvalidValue("key", f"{len(key)} bytes", f"{KEY_BYTES} secret bytes")
        self._start = hashlib.shake_256(_LABEL + key + len(context).to_bytes(8))
        for part in context:
            self._start.update(len(part).to_bytes(8) + part)
        self._rest = bytearray()
        self._counter = 0

    def random_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        while len(self._rest) < count:
            block = self._start.copy()
            block.update(self._counter.to_bytes(8))
            self._rest += block.digest(_BLOCK)
            self._counter += 1
        taken = bytes(self._rest[:count])
        del self._rest[:count]
        return taken


@final
class KeyedNoise(ExactNoise):
    """Exact samplers on a `KeyedStream`: equal keys, contexts and calls give equal draws.

    The draws may leave the machine. The key must be secret, and each context must be used for one purpose
    only.

    Args:
        key: 32 secret bytes.
        context: Byte strings that identify the purpose of the noise, for example a study, a phase and a
            client.

    Raises:
        InvalidValue: If the key has another length.

    Example:
        >>> from dpbandits.privacy import KeyedNoise
        >>> KeyedNoise(bytes(32), [b"phase 1"]).discrete_laplace(10.0, (5,))
        array([  1,  -8,   8,  -5, -11])
    """

    __slots__ = ("_coins",)

    def __init__(self, key: bytes, context: Sequence[bytes]) -> None:
        self._coins = Coins(KeyedStream(key, context).random_bytes)
