"""Vectors in a ball: valid ones are proved, and no proof shows that a vector outside is inside."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.errors import InvalidValue
from dpbandits.vdaf import NONCE_SIZE, Prio3, Shares, best_chunk, sum_vec_in_ball, sum_vec_with_multiproof
from dpbandits.vdaf._ball import SumVecInBall
from dpbandits.vdaf._flp import proof_length

from .corruptions import forged, lying
from .test_prio3 import reports_of, verify

MODULUS = 2**64 - 2**32 + 1


def ball(
    numbers: int = 3, largest: int = 16, twice_centre: int = 16, square: int = 256, **more: Any
) -> Prio3:
    return sum_vec_in_ball(
        numbers=numbers,
        largest=largest,
        twice_centre=twice_centre,
        largest_square=square,
        context=b"test",
        **more,
    )


def square_of(row: list[int], twice_centre: int = 16) -> int:
    return sum((2 * number - twice_centre) ** 2 for number in row)


def test_every_vector_of_a_small_ball_is_proved_and_no_other_is_encoded() -> None:
    """All 9² vectors. The ball has vectors on its surface, where the slack is zero."""
    vdaf = ball(2, 8, 7, 50)
    rows = [[one, other] for one in range(9) for other in range(9)]
    inside = [row for row in rows if square_of(row, 7) <= 50]
    assert {50, 2} <= {square_of(row, 7) for row in inside}
    accepted, shares = verify(vdaf, *reports_of(vdaf, inside))
    assert all(accepted)
    assert vdaf.unshard(shares, len(inside)) == np.sum(inside, axis=0).tolist()
    for row in (row for row in rows if row not in inside):
        with pytest.raises(InvalidValue, match=r"measurement: got a vector outside the ball, .*<= 50"):
            vdaf.circuit.encode([row])


@settings(max_examples=15)
@given(data=st.data())
def test_the_circuit_computes_what_its_description_says(data: st.DataObject) -> None:
    """Of any bits, with Python integers: outputs are zero together exactly if Σy² + slack is the square."""
    numbers, largest = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 300))
    twice_centre = data.draw(st.integers(0, 2 * largest))
    farthest = numbers * max(twice_centre, 2 * largest - twice_centre) ** 2
    square = data.draw(st.integers(1, farthest))
    vdaf = ball(numbers, largest, twice_centre, square, chunk=data.draw(st.none() | st.integers(1, numbers)))
    circuit, field = vdaf.circuit, vdaf.circuit.field
    bits = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, (1, circuit.sizes.measurement))
    elements, joint = field.array(bits), field.array(np.full((1, 1, circuit.sizes.joint), 7))
    wires = circuit.wires(elements, joint, 1)
    assert wires.shape == (1, 1, circuit.sizes.calls, circuit.sizes.arity)
    ones, total = circuit.outputs(elements, circuit.gadget(wires), 1)[0, 0].tolist()
    weights = [1 << place for place in range(square.bit_length() - 1)]
    weights.append(square - sum(weights))
    slack = sum(w * int(bit) for w, bit in zip(weights, bits[0, -len(weights) :], strict=True))
    found = circuit.truncate(elements)[0].tolist()
    assert (ones, total) == (0, (square_of(found, twice_centre) + slack - square) % MODULUS)


def test_shares_of_the_wires_and_outputs_add_up() -> None:
    circuit = ball().circuit
    field, rng = circuit.field, np.random.default_rng(1)
    whole = circuit.encode([[8, 5, 11]])
    mask = field.array(rng.integers(0, 2**62, whole.shape))
    joint = field.array(rng.integers(0, 2**62, (1, 2, circuit.sizes.joint)))
    results = field.array(rng.integers(0, 2**62, (1, 2, circuit.sizes.calls)))
    shares = [mask, field.subtract(whole, mask)]
    wires = field.add(*(circuit.wires(share, joint, 2) for share in shares))
    assert np.array_equal(wires, circuit.wires(whole, joint, 1))
    parts = zip(shares, (results, field.zeros(*results.shape)), strict=True)
    outputs = field.add(*(circuit.outputs(share, part, 2) for share, part in parts))
    assert np.array_equal(outputs, circuit.outputs(whole, results, 1))


def _liars(vdaf: Prio3) -> dict[str, Any]:
    """Elements of a corner of the range, with different claims about its slack."""
    circuit = vdaf.circuit
    assert isinstance(circuit, SumVecInBall)
    corner, bits = [circuit.largest] * circuit.numbers, circuit.numbers * circuit.largest.bit_length()
    over = square_of(corner) - circuit.largest_square
    assert over > 0
    inside = circuit.encode([[circuit.twice_centre // 2] * circuit.numbers])
    lies = {name: inside.copy() for name in ("no slack", "all slack", "negative slack", "half a unit")}
    for elements in lies.values():
        elements[0, :bits] = 1  # all bits are one, so every number is the largest
        elements[0, bits:] = 0
    lies["all slack"][0, bits:] = 1
    lies["negative slack"][0, bits] = MODULUS - over  # the first weight is 1
    lies["half a unit"][0, bits + 1] = (MODULUS - over) * pow(2, -1, MODULUS) % MODULUS
    return lies


def test_a_corner_of_the_range_is_rejected_whatever_its_slack_and_proof() -> None:
    """The last two have the right sum of squares and slack. Only the check of the bits rejects them."""
    vdaf = ball()
    lies = _liars(vdaf)
    nonces, reports = list[bytes](), list[Shares]()
    for elements in lies.values():
        nonce = os.urandom(NONCE_SIZE)
        report = lying(vdaf, elements, nonce, os.urandom(vdaf.rand_size))
        nonces += [nonce] * 2
        reports += [report, forged(vdaf, report)]
    honest = reports_of(vdaf, [[8, 8, 8]])
    accepted, shares = verify(vdaf, nonces + honest[0], reports + honest[1])
    assert accepted == [False] * (2 * len(lies)) + [True]
    assert vdaf.unshard(shares, 1) == [8, 8, 8]


@pytest.mark.parametrize(
    ("checked", "passing"), [(0, {"no slack", "all slack"}), (1, {"negative slack", "half a unit"})]
)
def test_each_output_of_the_circuit_rejects_its_lies(
    checked: int, passing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one output missing the other lies pass, so the test above can fail."""
    vdaf, honest = ball(), SumVecInBall.outputs
    lies = _liars(vdaf)

    def one_output(self: SumVecInBall, *given: Any) -> Any:
        found = honest(self, *given)
        found[..., 1 - checked] = 0
        return found

    monkeypatch.setattr(SumVecInBall, "outputs", one_output)
    nonces = [os.urandom(NONCE_SIZE) for _ in lies]
    reports = [
        lying(vdaf, elements, nonce, os.urandom(vdaf.rand_size))
        for elements, nonce in zip(lies.values(), nonces, strict=True)
    ]
    accepted = verify(vdaf, nonces, reports)[0]
    assert {name for name, good in zip(lies, accepted, strict=True) if good} == passing


@given(bits=st.integers(1, 400), squares=st.integers(1, 60))
def test_the_default_chunk_gives_the_shortest_proof(bits: int, squares: int) -> None:
    def length(chunk: int) -> int:
        calls = -(-bits // chunk) - (-squares // chunk)
        return 2 * chunk + 2 * (1 << calls.bit_length()) - 1

    assert length(best_chunk(bits, squares)) == min(map(length, range(1, bits + squares + 1)))


def test_the_sizes_that_the_documentation_states() -> None:
    largest = 2**13 - 1
    vdaf = ball(20, largest, largest, (largest + 9) ** 2)
    assert vdaf.circuit.sizes.arity == 2 * 21
    assert proof_length(vdaf.circuit) == 2 * 21 + 2 * 16 - 1
    plain = sum_vec_with_multiproof(numbers=20, largest=largest, context=b"")
    assert (plain.leader_share_size, vdaf.leader_share_size) == (3720, 4080)
    assert (plain.verifier_share_size, vdaf.verifier_share_size) == (944, 1088)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"numbers": 0}, "numbers"),
        ({"largest": 2**31 + 1}, "largest"),
        ({"twice_centre": 33}, "twice_centre"),
        ({"square": 0}, "largest_square"),
        ({"square": 3 * 16**2 + 1}, "largest_square"),
        ({"numbers": 100_000, "largest": 2**30}, "square_of_the_farthest_corner"),
        ({"chunk": 0}, "chunk"),
        ({"proofs": 2}, "proofs"),
    ],
)
def test_parameters_are_checked(wrong: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{field}: got"):
        ball(**wrong)
