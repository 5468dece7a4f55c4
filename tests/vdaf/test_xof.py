"""The extendable-output function: seeds and field elements of the specification."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpbandits.vdaf import _xof
from dpbandits.vdaf._field64 import Field64
from tests.vdaf.specified_types import Field128


def test_seeds_and_elements_are_those_of_the_specification() -> None:
    vector = json.loads((Path(__file__).parent / "vectors" / "XofTurboShake128.json").read_text())
    seed, tag, binder = (bytes.fromhex(vector[name]) for name in ("seed", "dst", "binder"))
    assert _xof.derive_seed(seed, tag, binder).hex() == vector["derived_seed"]
    elements = _xof.expand_rows(Field128(), [seed], tag, [binder], vector["length"])
    assert Field128().to_bytes(elements).hex() == vector["expanded_vec_field128"]


class FixedStream:
    """Stands for TurboSHAKE128 with a chosen output."""

    def __init__(self, output: bytes) -> None:
        self.output = output

    def read(self, count: int) -> bytes:
        taken, self.output = self.output[:count], self.output[count:]
        return taken


def test_integers_that_are_too_large_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next integers of the stream follow, as in the specification, which takes one after another."""
    modulus = Field64.modulus
    drawn = [5, modulus, modulus - 1, 2**64 - 1, 2**64 - 1, 7, 9]
    output = b"".join(integer.to_bytes(8, "little") for integer in drawn)
    monkeypatch.setattr(_xof, "_turboshake", lambda: lambda domain, data: FixedStream(output))
    rows = _xof.expand_rows(Field64(), [b"a", b"b"], b"tag", [b"", b""], 4)
    assert rows.tolist() == [[5, modulus - 1, 7, 9]] * 2


def test_different_seeds_tags_and_binders_give_different_elements() -> None:
    field = Field64()
    rows = [
        _xof.expand_rows(field, [seed], tag, [binder], 4)[0]
        for seed, tag, binder in [
            (b"a", b"b", b"c"),
            (b"ab", b"", b"c"),
            (b"a", b"bc", b""),
            (b"", b"b", b"ac"),
        ]
    ]
    assert len(np.unique(np.array(rows), axis=0)) == 4


def test_nothing_is_expanded_into_no_elements() -> None:
    assert _xof.expand_rows(Field64(), [b"a"], b"", [b""], 0).shape == (1, 0)
