"""Prio3 rejects corrupted reports, and adds up the honest ones of the same batch."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits._arrays import BoolArray
from dpbandits.vdaf import _verification, sum_vec_with_multiproof
from dpbandits.vdaf._circuits import Circuit
from dpbandits.vdaf._field import Elements

from .corruptions import KINDS, LIES, count_accepted, run_batch


def test_corrupted_reports_are_rejected_and_honest_ones_in_the_same_batch_are_added_up() -> None:
    tried, passed, rejected, wrong = count_accepted(reports=1200, seed=3)
    assert min(tried[kind] for kind in KINDS) >= 60
    assert not passed
    assert rejected == 0
    assert wrong == 0


def only_the_output(circuit: Circuit, verifiers: Elements) -> BoolArray:
    return np.asarray((verifiers[..., 0] == 0).all(axis=-1))


def only_the_gadget(circuit: Circuit, verifiers: Elements) -> BoolArray:
    return np.asarray((circuit.gadget(verifiers[..., 1:-1]) == verifiers[..., -1]).all(axis=-1))


@pytest.mark.parametrize(
    ("decide", "accepted"), [(only_the_gadget, [True, True, False]), (only_the_output, [True, False, True])]
)
def test_each_half_of_the_decision_rejects_its_lie(
    monkeypatch: pytest.MonkeyPatch, decide: object, accepted: list[bool]
) -> None:
    """With one half missing, one of the lies passes and falsifies the sums, so the test above can fail."""
    monkeypatch.setattr(_verification, "decide", decide)
    vdaf = sum_vec_with_multiproof(numbers=3, largest=100, context=b"")
    found, right = run_batch(vdaf, np.random.default_rng(4), [None, *LIES])
    assert found == accepted
    assert not right
