"""The servers' part of Prio3: check the proofs of many reports at once, without seeing any measurement.

A bad report never raises an error: it is masked. All results depend only on the arguments. So after a crash,
a server can repeat a step with the shares that it stored, and gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpbandits._arrays import BoolArray
from dpbandits.vdaf._derivation import NONCE_SIZE, Derivation
from dpbandits.vdaf._field import Elements
from dpbandits.vdaf._flp import decide, proof_length, query, verifier_length
from dpbandits.vdaf._xof import SEED_SIZE

_BLOCK = 256  # reports checked at once: 11 MB of arrays for 20 numbers of 13 bits


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a server remembers of a batch until the verifier messages arrive.

    Attributes:
        out_shares: Shares of what will be added up, as [reports, output elements].
        joint_seeds: What the verifier message of each report must be.
        accepted: Which reports are well-formed.
    """

    out_shares: Elements
    joint_seeds: list[bytes]
    accepted: BoolArray


class OutShares(NamedTuple):
    """A server's shares of the reports in a batch that were verified.

    Attributes:
        values: As [reports, output elements]; the rows of rejected reports are zero.
        accepted: Which reports were verified.
    """

    values: Elements
    accepted: BoolArray


class _Inputs(NamedTuple):
    """The input shares of one server, expanded."""

    measurements: Elements
    proofs: Elements
    blinds: list[bytes]
    valid: BoolArray


def prepare_batch(
    derivation: Derivation,
    verify_key: bytes,
    server: int,
    nonces: Sequence[bytes],
    public_shares: Sequence[bytes],
    input_shares: Sequence[bytes],
) -> tuple[Prepared, list[bytes | None]]:
    """The first step; `Prio3.prepare_batch` describes arguments and errors."""
    blocks, verifier_shares = [], []
    for start in range(0, len(nonces), _BLOCK):
        at = slice(start, start + _BLOCK)
        block, sent = _prepare(
            derivation, verify_key, server, nonces[at], public_shares[at], input_shares[at]
        )
        blocks.append(block)
        verifier_shares += sent
    return _joined(derivation, blocks), verifier_shares


def _prepare(
    derivation: Derivation,
    verify_key: bytes,
    server: int,
    nonces: Sequence[bytes],
    public_shares: Sequence[bytes],
    input_shares: Sequence[bytes],
) -> tuple[Prepared, list[bytes | None]]:
    nonces, nonces_valid = _of_size(nonces, NONCE_SIZE)
    public_shares, public_valid = _of_size(public_shares, derivation.public_share_size)
    inputs = _expand(derivation, server, input_shares)
    parts, seeds = _joint(derivation, server, nonces, public_shares, inputs)
    verifiers, points_valid = query(
        derivation.circuit,
        inputs.measurements,
        inputs.proofs,
        derivation.query_randomness(verify_key, nonces),
        derivation.joint_randomness(seeds),
        derivation.shares,
    )
    accepted = nonces_valid & public_valid & inputs.valid & points_valid
    rows = derivation.circuit.field.encode_rows(verifiers.reshape(len(nonces), -1))
    shares = [row + part for row, part in zip(rows, parts, strict=True)]
    sent = [share if valid else None for share, valid in zip(shares, accepted, strict=True)]
    return Prepared(derivation.circuit.truncate(inputs.measurements), seeds, accepted), sent


def _joined(derivation: Derivation, blocks: Sequence[Prepared]) -> Prepared:
    if not blocks:
        empty = derivation.circuit.field.zeros(0, derivation.circuit.sizes.output)
        return Prepared(empty, [], np.ones(0, dtype=np.bool_))
    return Prepared(
        np.concatenate([block.out_shares for block in blocks]),
        [seed for block in blocks for seed in block.joint_seeds],
        np.concatenate([block.accepted for block in blocks]),
    )


def combine_batch(
    derivation: Derivation, verifier_shares: Sequence[Sequence[bytes | None]]
) -> list[bytes | None]:
    """The second step; `Prio3.combine_batch` describes arguments and errors."""
    field, reports = derivation.circuit.field, len(verifier_shares[0])
    verifiers, accepted = field.zeros(reports, derivation.verifier_elements), np.ones(reports, dtype=np.bool_)
    parts = [b""] * reports
    body = derivation.verifier_elements * field.size
    for of_server in verifier_shares:
        shares, sized = _of_size(of_server, derivation.verifier_share_size)
        values, valid = field.decode_rows([share[:body] for share in shares], derivation.verifier_elements)
        verifiers = field.add(verifiers, values)
        accepted &= sized & valid
        parts = [before + share[body:] for before, share in zip(parts, shares, strict=True)]
    by_proof = verifiers.reshape(reports, derivation.proofs, verifier_length(derivation.circuit))
    accepted &= decide(derivation.circuit, by_proof)
    messages = [derivation.joint_seed(part) if derivation.blind_size else b"" for part in parts]
    return [message if valid else None for message, valid in zip(messages, accepted, strict=True)]


def finish_batch(prepared: Prepared, messages: Sequence[bytes | None]) -> OutShares:
    """The last step; `Prio3.finish_batch` describes arguments and errors."""
    same = [message == seed for message, seed in zip(messages, prepared.joint_seeds, strict=True)]
    accepted = prepared.accepted & np.array(same, dtype=np.bool_)
    values = prepared.out_shares.copy()
    values[~accepted] = 0
    return OutShares(values, accepted)


def out_shares(derivation: Derivation, server: int, input_shares: Sequence[bytes]) -> OutShares:
    """The output shares of verified reports; `Prio3.out_shares` describes the arguments."""
    values = derivation.circuit.field.zeros(len(input_shares), derivation.circuit.sizes.output)
    accepted = np.ones(len(input_shares), dtype=np.bool_)
    for start in range(0, len(input_shares), _BLOCK):
        at = slice(start, start + _BLOCK)
        measurements, accepted[at] = _measurements(derivation, server, input_shares[at])
        values[at] = derivation.circuit.truncate(measurements)
    values[~accepted] = 0
    return OutShares(values, accepted)


def _of_size(strings: Sequence[bytes | None], size: int) -> tuple[list[bytes], BoolArray]:
    """Replace what has the wrong size by zero bytes, and mask it."""
    valid = [string is not None and len(string) == size for string in strings]
    zero = bytes(size)
    kept = [
        string if good and string is not None else zero for string, good in zip(strings, valid, strict=True)
    ]
    return kept, np.array(valid, dtype=np.bool_)


def _expand(derivation: Derivation, server: int, input_shares: Sequence[bytes]) -> _Inputs:
    field, length = derivation.circuit.field, derivation.circuit.sizes.measurement
    shares, valid = _of_size(input_shares, derivation.input_share_size(server))
    if server:
        measurements, proofs = derivation.helper_shares(server, [share[:SEED_SIZE] for share in shares])
        return _Inputs(measurements, proofs, [share[SEED_SIZE:] for share in shares], valid)
    body = derivation.leader_elements * field.size
    values, below = field.decode_rows([share[:body] for share in shares], derivation.leader_elements)
    proofs = values[:, length:].reshape(len(shares), derivation.proofs, proof_length(derivation.circuit))
    return _Inputs(values[:, :length], proofs, [share[body:] for share in shares], valid & below)


def _measurements(
    derivation: Derivation, server: int, input_shares: Sequence[bytes]
) -> tuple[Elements, BoolArray]:
    """The shares of the measurements alone, which for a helper saves the expansion of the proofs."""
    if not server:
        inputs = _expand(derivation, server, input_shares)
        return inputs.measurements, inputs.valid
    shares, valid = _of_size(input_shares, derivation.input_share_size(server))
    return derivation.helper_measurements(server, [share[:SEED_SIZE] for share in shares]), valid


def _joint(
    derivation: Derivation,
    server: int,
    nonces: Sequence[bytes],
    public_shares: Sequence[bytes],
    inputs: _Inputs,
) -> tuple[list[bytes], list[bytes]]:
    """This server's parts of the joint randomness, and the seeds of the joint randomness.

    For a seed, the server replaces the client's claim about the server's part by the part that it computed.
    """
    if not derivation.blind_size:
        return [b""] * len(nonces), [b""] * len(nonces)
    parts = derivation.joint_parts(server, inputs.blinds, nonces, inputs.measurements)
    start, stop = server * SEED_SIZE, (server + 1) * SEED_SIZE
    claimed = zip(public_shares, parts, strict=True)
    return parts, [derivation.joint_seed(public[:start] + part + public[stop:]) for public, part in claimed]
