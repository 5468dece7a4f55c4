"""Prio3: sums, ranges, malformed messages, and noise on shares."""

from __future__ import annotations

import builtins
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.errors import InvalidValue
from dpbandits.vdaf import (
    HELPER,
    LEADER,
    NONCE_SIZE,
    Prio3,
    Shares,
    best_chunk,
    sum_vec_with_multiproof,
)
from dpbandits.vdaf._derivation import Derivation
from dpbandits.vdaf._flp import proof_length
from dpbandits.vdaf._xof import _turboshake
from tests.vdaf.specified_types import count, histogram

KEY = bytes(range(32))


def vectors(numbers: int = 3, largest: int = 100, context: bytes = b"test", **more: Any) -> Prio3:
    return sum_vec_with_multiproof(numbers=numbers, largest=largest, context=context, **more)


def reports_of(vdaf: Prio3, measurements: Any) -> tuple[list[bytes], list[Shares]]:
    nonces = [os.urandom(NONCE_SIZE) for _ in measurements]
    return nonces, vdaf.shard_batch(measurements, nonces, [os.urandom(vdaf.rand_size) for _ in measurements])


def verify(
    vdaf: Prio3, nonces: list[bytes], reports: list[Shares], keys: tuple[bytes, bytes] = (KEY, KEY)
) -> tuple[list[bool], list[bytes]]:
    """Which reports both servers accept, and their aggregate shares."""
    public = [report.public_share for report in reports]
    states, verifiers = [], []
    for server in (LEADER, HELPER):
        shares = [report.input_shares[server] for report in reports]
        state, sent = vdaf.prepare_batch(keys[server], server, nonces, public, shares)
        states.append(state)
        verifiers.append(sent)
    messages = vdaf.combine_batch(*verifiers)
    finished = [vdaf.finish_batch(state, messages) for state in states]
    assert finished[0].accepted.tolist() == finished[1].accepted.tolist()
    return finished[0].accepted.tolist(), [vdaf.aggregate(out) for out in finished]


@settings(max_examples=25)
@given(data=st.data())
def test_sums_are_those_of_the_measurements(data: st.DataObject) -> None:
    numbers, largest = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 2**20) | st.just(2**62))
    chunk = data.draw(st.none() | st.integers(1, numbers * largest.bit_length()))
    vdaf = vectors(numbers, largest, chunk=chunk)
    value = st.sampled_from([0, largest]) | st.integers(0, largest)
    rows = data.draw(st.lists(st.lists(value, min_size=numbers, max_size=numbers), min_size=1, max_size=3))
    accepted, shares = verify(vdaf, *reports_of(vdaf, rows))
    assert all(accepted)
    assert vdaf.unshard(shares, len(rows)) == [sum(column) for column in zip(*rows, strict=True)]


def test_every_number_of_a_range_that_is_no_power_of_two_is_proved() -> None:
    vdaf = vectors(numbers=1, largest=37)
    rows = [[value] for value in range(38)]
    accepted, shares = verify(vdaf, *reports_of(vdaf, rows))
    assert all(accepted)
    assert vdaf.unshard(shares, len(rows)) == [sum(range(38))]
    for wrong in (-1, 38, 63):
        with pytest.raises(InvalidValue, match=rf"measurement: got {wrong}, expected .* <= 37"):
            vdaf.shard([wrong], bytes(NONCE_SIZE), bytes(vdaf.rand_size))


def test_bits_of_any_pattern_give_no_number_above_the_largest() -> None:
    circuit = vectors(numbers=1, largest=37).circuit
    patterns = np.array([[(pattern >> place) & 1 for place in range(6)] for pattern in range(64)])
    values = circuit.truncate(circuit.field.array(patterns))
    assert sorted({int(value) for value in values[:, 0]}) == list(range(38))


def test_batches_larger_than_a_block_and_empty_ones() -> None:
    vdaf = vectors(numbers=2, largest=3)
    rows = np.random.default_rng(1).integers(0, 4, (600, 2))
    nonces, reports = reports_of(vdaf, rows)
    reports[300] = reports[299]
    accepted, shares = verify(vdaf, nonces, reports)
    assert [at for at, good in enumerate(accepted) if not good] == [300]
    assert vdaf.unshard(shares, 599) == np.delete(rows, 300, axis=0).sum(axis=0).tolist()
    assert vdaf.shard_batch(np.zeros((0, 2), dtype=np.int64), [], []) == []
    accepted, shares = verify(vdaf, [], [])
    assert accepted == []
    assert vdaf.unshard(shares, 0) == [0, 0]


def test_preparing_again_gives_the_same() -> None:
    vdaf = vectors()
    nonces, ((public, (leader, _)),) = reports_of(vdaf, [[1, 2, 3]])
    first, sent = vdaf.prepare_batch(KEY, LEADER, nonces, [public], [leader])
    again, sent_again = vdaf.prepare_batch(KEY, LEADER, nonces, [public], [leader])
    assert sent == sent_again
    assert first.joint_seeds == again.joint_seeds
    assert np.array_equal(first.out_shares, again.out_shares)


def test_a_report_is_bound_to_its_context_parameters_and_key() -> None:
    vdaf = vectors(context=b"round 1")
    nonces, reports = reports_of(vdaf, [[1, 2, 3]])
    assert verify(vdaf, nonces, reports)[0] == [True]
    assert verify(vectors(context=b"round 2"), nonces, reports)[0] == [False]
    assert verify(vectors(context=b"round 1", proofs=4), nonces, reports)[0] == [False]
    assert verify(vectors(numbers=4, context=b"round 1"), nonces, reports)[0] == [False]
    assert verify(vdaf, nonces, reports, keys=(KEY, bytes(32)))[0] == [False]
    assert verify(vdaf, [bytes(NONCE_SIZE)], reports)[0] == [False]


def test_strings_of_any_length_are_rejected_and_never_raise() -> None:
    vdaf = vectors()
    nonces, reports = reports_of(vdaf, [[1, 2, 3]] * 8)
    public, (leader, helper) = reports[1]
    reports[1] = Shares(public, (leader[:-1], helper))
    reports[2] = Shares(b"", reports[2].input_shares)
    reports[3] = Shares(reports[3].public_share, (reports[3].input_shares[0], b""))
    reports[4] = Shares(reports[4].public_share, (b"\xff" * len(leader), reports[4].input_shares[1]))
    nonces[5] = nonces[5] + b"x"
    reports[6] = Shares(reports[6].public_share * 1000, (leader * 100, helper * 100))
    accepted, shares = verify(vdaf, nonces, reports)
    assert accepted == [True, False, False, False, False, False, False, True]
    assert vdaf.unshard(shares, 2) == [2, 4, 6]


def test_malformed_verifier_shares_and_messages_are_rejected() -> None:
    vdaf = vectors()
    nonces, reports = reports_of(vdaf, [[1, 2, 3]] * 5)
    public = [report.public_share for report in reports]
    shares = [[report.input_shares[server] for report in reports] for server in (0, 1)]
    state, leader = vdaf.prepare_batch(KEY, LEADER, nonces, public, shares[0])
    _, helper = vdaf.prepare_batch(KEY, HELPER, nonces, public, shares[1])
    assert leader[1] is not None
    leader[0], leader[1], helper[2] = None, leader[1] + b"x", b"\xff" * vdaf.verifier_share_size
    messages = vdaf.combine_batch(leader, helper)
    assert [message is None for message in messages] == [True, True, True, False, False]
    messages[3] = b""
    finished = vdaf.finish_batch(state, messages)
    assert finished.accepted.tolist() == [False, False, False, False, True]
    assert not finished.values[:4].any()


def test_a_report_for_the_nonce_of_zeros_does_not_pass_under_a_malformed_nonce() -> None:
    """Malformed strings are replaced by zeros, which must not become a way to replay a report."""
    vdaf = vectors()
    report = vdaf.shard([1, 2, 3], bytes(NONCE_SIZE), os.urandom(vdaf.rand_size))
    nonces = [bytes(NONCE_SIZE), b"", bytes(NONCE_SIZE - 1), bytes(NONCE_SIZE + 1)]
    assert verify(vdaf, nonces, [report] * 4)[0] == [True, False, False, False]


@pytest.mark.parametrize("server", [LEADER, HELPER])
def test_a_string_of_the_wrong_size_gets_no_verifier_share(server: int) -> None:
    vdaf = vectors()
    (nonce,), ((public, inputs),) = reports_of(vdaf, [[1, 2, 3]])
    share = inputs[server]
    rows = [(nonce, public, share), (nonce + b"x", public, share), (nonce, public[1:], share)]
    rows += [(nonce, public, share[1:]), (nonce, public, b"")]
    prepared, sent = vdaf.prepare_batch(KEY, server, *map(list, zip(*rows, strict=True)))
    assert [share is None for share in sent] == [False, True, True, True, True]
    assert prepared.accepted.tolist() == [True, False, False, False, False]


def test_a_leader_share_with_an_element_that_is_too_large_gets_no_verifier_share() -> None:
    vdaf = vectors()
    nonces, ((public, (leader, _)),) = reports_of(vdaf, [[1, 2, 3]])
    too_large = vdaf.circuit.field.modulus.to_bytes(8, "little") + leader[8:]
    prepared, sent = vdaf.prepare_batch(KEY, LEADER, nonces * 2, [public] * 2, [leader, too_large])
    assert [share is None for share in sent] == [False, True]
    assert prepared.accepted.tolist() == [True, False]


def test_a_verifier_share_with_an_element_that_is_too_large_is_not_read_as_zeros() -> None:
    """Verifiers of zeros pass the decision, so only the mask rejects what is replaced by zeros."""
    vdaf = vectors()
    zeros = bytes(vdaf.verifier_share_size)
    too_large = vdaf.circuit.field.modulus.to_bytes(8, "little") + zeros[8:]
    messages = vdaf.combine_batch([zeros, too_large, zeros[1:], None], [zeros] * 4)
    assert [message is None for message in messages] == [False, True, True, True]


def test_a_test_point_that_is_a_root_of_unity_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would reveal part of the measurement to the other server."""
    vdaf = vectors()
    nonces, ((public, (leader, _)),) = reports_of(vdaf, [[1, 2, 3]])
    field = vdaf.circuit.field
    for point, usable in ((5, True), (1, False), (int(field.root_powers(4)[1]), False)):
        points = field.array([[[5], [point], [5]]])
        monkeypatch.setattr(Derivation, "query_randomness", lambda *_, points=points: points)
        _, sent = vdaf.prepare_batch(KEY, LEADER, nonces, [public], [leader])
        assert (sent[0] is not None) == usable


def test_noise_of_either_sign_is_added_to_shares() -> None:
    vdaf = vectors()
    nonces, reports = reports_of(vdaf, [[1, 2, 3]])
    _, (leader, helper) = verify(vdaf, nonces, reports)
    noisy = [vdaf.shift(leader, [-5, 4, -3]), vdaf.shift(helper, [np.int64(1), -10, 2**40])]
    assert vdaf.unshard(noisy, 1, signed=True) == [-3, -4, 2**40]
    assert vdaf.unshard(noisy, 1)[0] == vdaf.circuit.field.modulus - 3
    with pytest.raises(InvalidValue, match="numbers: got 2 of them, expected 3 of them"):
        vdaf.shift(leader, [1, 2])


def test_aggregate_shares_are_checked_and_merged() -> None:
    vdaf = vectors()
    batches = [verify(vdaf, *reports_of(vdaf, [[1, 2, 3], [4, 5, 6]]))[1] for _ in range(2)]
    merged = [vdaf.merge([batch[server] for batch in batches]) for server in (0, 1)]
    assert vdaf.unshard(merged, 4) == [10, 14, 18]
    for wrong, found in ((b"", "0 bytes"), (b"\xff" * 24, "an element that is too large")):
        with pytest.raises(InvalidValue, match=f"aggregate_share: got {found}"):
            vdaf.unshard([merged[0], wrong], 4)
    modulus = vdaf.circuit.field.modulus
    with pytest.raises(InvalidValue, match="reports: got .*, expected a whole number >= 0 and <="):
        vdaf.unshard(merged, modulus // 100 + 1)
    with pytest.raises(InvalidValue, match="reports"):
        vdaf.unshard(merged, modulus // 200 + 1, signed=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"numbers": 0}, "numbers: got 0, expected a whole number >= 1"),
        ({"largest": 0}, "largest: got 0, expected a whole number >= 1"),
        ({"largest": 2**63}, "largest: got .*, expected a whole number >= 1 and <="),
        ({"proofs": 2}, "proofs: got 2, expected a whole number >= 3 and <= 255"),
        ({"chunk": 22}, "chunk: got 22, expected a whole number >= 1 and <= 21"),
        ({"shares": 1}, "shares: got 1, expected a whole number >= 2 and <= 255"),
        ({"context": bytes(65_528)}, "context: got 65,528 bytes, expected at most 65,527 bytes"),
    ],
)
def test_parameters_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        vectors(**arguments)


def test_arguments_are_checked() -> None:
    vdaf = vectors()
    nonce, rand = bytes(NONCE_SIZE), bytes(vdaf.rand_size)
    for measurement, found in (([1, 2], "2 numbers"), ([1.0, 2, 3], "numbers of type float64")):
        with pytest.raises(InvalidValue, match=f"measurement: got {found}"):
            vdaf.shard(measurement, nonce, rand)
    with pytest.raises(InvalidValue, match="nonce: got 15 bytes, expected 16 bytes"):
        vdaf.shard([1, 2, 3], nonce[1:], rand)
    with pytest.raises(InvalidValue, match="rand: got 127 bytes, expected 128 bytes"):
        vdaf.shard([1, 2, 3], nonce, rand[1:])
    with pytest.raises(InvalidValue, match="nonces: got 0, expected one per measurement, that is 1"):
        vdaf.shard_batch([[1, 2, 3]], [], [rand])
    with pytest.raises(InvalidValue, match="verify_key: got 31 bytes, expected 32 bytes"):
        vdaf.prepare_batch(KEY[1:], LEADER, [], [], [])
    with pytest.raises(InvalidValue, match="server: got 2, expected a whole number >= 0 and <= 1"):
        vdaf.prepare_batch(KEY, 2, [], [], [])
    with pytest.raises(InvalidValue, match="batch: got 1 in nonces, 0 in public_shares, 0 in input_shares"):
        vdaf.prepare_batch(KEY, LEADER, [nonce], [], [])
    with pytest.raises(InvalidValue, match="verifier_shares: got 1 lists, expected 2 lists"):
        vdaf.combine_batch([])
    prepared, _ = vdaf.prepare_batch(KEY, LEADER, [], [], [])
    with pytest.raises(InvalidValue, match="batch: got 0 in prepared, 1 in messages"):
        vdaf.finish_batch(prepared, [None])


@pytest.mark.parametrize("wrong", [2, -1])
def test_a_count_is_zero_or_one(wrong: int) -> None:
    vdaf = count(context=b"")
    with pytest.raises(InvalidValue, match=f"measurement: got {wrong}, expected whole numbers >= 0 and <= 1"):
        vdaf.shard(wrong, bytes(NONCE_SIZE), bytes(vdaf.rand_size))


def test_an_index_is_in_the_histogram() -> None:
    vdaf = histogram(length=4, chunk=2, context=b"")
    with pytest.raises(InvalidValue, match="measurement: got 4, expected whole numbers >= 0 and <= 3"):
        vdaf.shard(4, bytes(NONCE_SIZE), bytes(vdaf.rand_size))


@given(bits=st.integers(1, 600))
def test_the_default_chunk_gives_the_shortest_proof(bits: int) -> None:
    lengths = [
        proof_length(vectors(numbers=bits, largest=1, chunk=chunk).circuit) for chunk in range(1, bits + 1)
    ]
    assert lengths[best_chunk(bits) - 1] == min(lengths)


def test_sizes_of_twenty_numbers_of_thirteen_bits() -> None:
    """The sizes that the documentation states."""
    vdaf = vectors(numbers=20, largest=2**13 - 1)
    sizes = (vdaf.public_share_size, vdaf.leader_share_size, vdaf.helper_share_size)
    assert sizes == (64, 3720, 64)
    assert (vdaf.verifier_share_size, vdaf.message_size, vdaf.rand_size) == (944, 32, 128)
    assert sum(sizes) + 2 * vdaf.verifier_share_size + vdaf.message_size == 5768


def test_the_helpers_share_does_not_depend_on_the_measurement() -> None:
    vdaf = vectors()
    nonce, rand = os.urandom(NONCE_SIZE), os.urandom(vdaf.rand_size)
    one, other = (vdaf.shard(numbers, nonce, rand).input_shares for numbers in ([1, 2, 3], [4, 5, 6]))
    assert one[HELPER] == other[HELPER]
    assert one[LEADER] != other[LEADER]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("Cryptodome"):
            raise ImportError(name)
        return real(name, *arguments, **more)

    _turboshake.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    vdaf = vectors()
    with pytest.raises(InvalidValue, match=r"pycryptodomex: .*'\.\[verified\]'"):
        vdaf.shard([1, 2, 3], bytes(NONCE_SIZE), bytes(vdaf.rand_size))
