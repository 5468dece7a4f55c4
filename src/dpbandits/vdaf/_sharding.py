"""The client's part of Prio3: split a measurement into shares, with proofs that it is valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbandits.errors import InvalidValue
from dpbandits.vdaf._derivation import NONCE_SIZE, Derivation
from dpbandits.vdaf._field import Elements
from dpbandits.vdaf._flp import prove
from dpbandits.vdaf._xof import SEED_SIZE

_BLOCK = 256  # reports made at once, which bounds the memory


class Shares(NamedTuple):
    """One report.

    Attributes:
        public_share: What all servers get.
        input_shares: What each server gets, the leader first.
    """

    public_share: bytes
    input_shares: tuple[bytes, ...]


class _Secrets(NamedTuple):
    """The client's randomness, cut into what it is for; one entry per report in each list."""

    helper_shares: list[list[bytes]]
    """For each helper, its input shares: a seed, and a blind where there is joint randomness."""
    leader_blinds: list[bytes]
    prove_seeds: list[bytes]


def shard_batch(
    derivation: Derivation, measurements: Any, nonces: Sequence[bytes], rands: Sequence[bytes]
) -> list[Shares]:
    """One report for each measurement; `Prio3.shard_batch` describes arguments and errors."""
    encoded = derivation.circuit.encode(measurements)
    _check(derivation, len(encoded), nonces, rands)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(encoded), _BLOCK)]
    return [report for at in blocks for report in _shard(derivation, encoded[at], nonces[at], rands[at])]


def _shard(
    derivation: Derivation, encoded: Elements, nonces: Sequence[bytes], rands: Sequence[bytes]
) -> list[Shares]:
    field = derivation.circuit.field
    secrets = _cut(derivation, rands)
    leader, proof_mask = encoded, field.zeros(1)
    parts: list[list[bytes]] = []
    for server, shares in enumerate(secrets.helper_shares, 1):
        share, proof_share = derivation.helper_shares(server, [share[:SEED_SIZE] for share in shares])
        leader, proof_mask = field.subtract(leader, share), field.add(proof_mask, proof_share)
        parts.append(_parts(derivation, server, [share[SEED_SIZE:] for share in shares], nonces, share))
    parts.insert(0, _parts(derivation, 0, secrets.leader_blinds, nonces, leader))
    public = [b"".join(of_report) for of_report in zip(*parts, strict=True)]
    proofs = field.subtract(_proofs(derivation, encoded, secrets.prove_seeds, public), proof_mask)
    rows = field.encode_rows(np.concatenate([leader, proofs.reshape(len(leader), -1)], axis=1))
    leaders = [row + blind for row, blind in zip(rows, secrets.leader_blinds, strict=True)]
    return [
        Shares(*pair) for pair in zip(public, zip(leaders, *secrets.helper_shares, strict=True), strict=True)
    ]


def _check(derivation: Derivation, count: int, nonces: Sequence[bytes], rands: Sequence[bytes]) -> None:
    for field, given, size in (("nonce", nonces, NONCE_SIZE), ("rand", rands, derivation.rand_size)):
        if len(given) != count:
            raise InvalidValue(f"{field}s", f"{len(given):,}", f"one per measurement, that is {count:,}")
        for value in given:
            if len(value) != size:
                raise InvalidValue(field, f"{len(value)} bytes", f"{size} bytes")


def _cut(derivation: Derivation, rands: Sequence[bytes]) -> _Secrets:
    size, blind = derivation.helper_share_size, derivation.blind_size
    starts = range(0, size * (derivation.shares - 1), size)
    return _Secrets(
        helper_shares=[[rand[start : start + size] for rand in rands] for start in starts],
        leader_blinds=[rand[-SEED_SIZE - blind : -SEED_SIZE] for rand in rands],
        prove_seeds=[rand[-SEED_SIZE:] for rand in rands],
    )


def _parts(
    derivation: Derivation, server: int, blinds: Sequence[bytes], nonces: Sequence[bytes], share: Elements
) -> list[bytes]:
    """The server's part of each report's joint randomness; empty where the circuit takes none."""
    if not derivation.blind_size:
        return [b""] * len(nonces)
    return derivation.joint_parts(server, blinds, nonces, share)


def _proofs(
    derivation: Derivation, encoded: Elements, prove_seeds: Sequence[bytes], public: Sequence[bytes]
) -> Elements:
    joint = derivation.joint_randomness([derivation.joint_seed(parts) for parts in public])
    return prove(derivation.circuit, encoded, derivation.prove_randomness(prove_seeds), joint)
