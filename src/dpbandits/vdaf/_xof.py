"""XofTurboShake128: seeds and field elements derived from a seed, a domain separation tag and a binder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dpbandits.errors import InvalidValue
from dpbandits.vdaf._field import Elements, Field

if TYPE_CHECKING:
    from Cryptodome.Hash.TurboSHAKE128 import TurboSHAKE

SEED_SIZE = 32


def derive_seed(seed: bytes, tag: bytes, binder: bytes) -> bytes:
    """A new seed that looks random to everyone who does not know `seed`."""
    return _stream(seed, tag, binder).read(SEED_SIZE)


def expand_rows(
    field: Field, seeds: Sequence[bytes], tag: bytes, binders: Sequence[bytes], length: int
) -> Elements:
    """Expand each seed into a row of `length` uniformly distributed elements.

    Args:
        field: The field of the elements.
        seeds: One seed for each row.
        tag: The domain separation tag of all rows.
        binders: What each row is bound to, one byte string for each seed.
        length: The number of elements in a row.

    Returns:
        An array [seeds, length].
    """
    if length == 0:
        return field.zeros(len(seeds), 0)
    wanted = length * field.size
    rows = [_stream(seed, tag, binder).read(wanted) for seed, binder in zip(seeds, binders, strict=True)]
    values, valid = field.decode_rows(rows, length)
    for row in np.flatnonzero(~valid).tolist():  # of Field64, about one element in 2³² is too large
        values[row] = _expand_with_gaps(field, _stream(seeds[row], tag, binders[row]), length)
    return values


def _expand_with_gaps(field: Field, stream: TurboSHAKE, length: int) -> Elements:
    """The first `length` integers of the stream that are below the modulus."""
    kept = field.zeros(0)
    while len(kept) < length:
        values = field.from_bytes(stream.read((length - len(kept)) * field.size))
        kept = np.concatenate([kept, values[values < field.modulus]])
    return kept


def _stream(seed: bytes, tag: bytes, binder: bytes) -> TurboSHAKE:
    data = b"".join([len(tag).to_bytes(2, "little"), tag, len(seed).to_bytes(1, "little"), seed, binder])
    return _turboshake()(domain=1, data=data)


@cache
def _turboshake() -> Callable[..., TurboSHAKE]:
    try:
        from Cryptodome.Hash import TurboSHAKE128
    except ImportError:
        remedy = "an installed pycryptodomex: pip install '.[verified]' in a clone"
        raise InvalidValue("pycryptodomex", "no such package", remedy) from None
    return TurboSHAKE128.new
