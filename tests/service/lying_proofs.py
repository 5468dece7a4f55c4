"""Reports of mode `verified` that no honest client sends: out of range, or with a false proof."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpbandits.protocol import Plan, report_totals
from dpbandits.service.wire import Place, ProvedReports, PublicKey, bound_share
from dpbandits.vdaf import NONCE_SIZE
from dpbandits.vdaf._ball import SumVecInBall
from tests.vdaf.corruptions import lies, lying

Parts = tuple[bytes, bytes]
FAR = 2**40
HEAD = NONCE_SIZE + 64  # nonce and public share, before the input share


def _far(proved: ProvedReports, payload: bytes) -> Parts:
    """Add a large number to the shuffler's share of the first bit, as a liar in split mode does."""
    one, other = proved.parts(payload)
    element = (int.from_bytes(one[HEAD : HEAD + 8], "little") + FAR) % proved.prio3.circuit.field.modulus
    return one[:HEAD] + element.to_bytes(8, "little") + one[HEAD + 8 :], other


def _two(proved: ProvedReports, payload: bytes, *, forge: bool) -> Parts:
    """Claim that a bit is 2, with a proof."""
    rng, nonce = np.random.default_rng(), os.urandom(NONCE_SIZE)
    numbers = report_totals(proved.plan, payload) - proved.low
    public, shares = lies(proved.prio3, rng, numbers, nonce, forge)
    return nonce + public + shares[0], nonce + public + shares[1]


def _changed(at: Callable[[bytes], int], which: int) -> Callable[[ProvedReports, bytes], Parts]:
    """Flip a bit of one part."""

    def lie(proved: ProvedReports, payload: bytes) -> Parts:
        parts = list(proved.parts(payload))
        where = at(parts[which])
        part = bytearray(parts[which])
        part[where] ^= 1
        parts[which] = bytes(part)
        return parts[0], parts[1]

    return lie


def _made_up(proved: ProvedReports, payload: bytes) -> Parts:
    one, other = proved.parts(payload)
    return one[:HEAD] + os.urandom(len(one) - HEAD), other


def _no_proof(proved: ProvedReports, payload: bytes) -> Parts:
    """Send no proof, only the shares of the measurement."""
    one, other = proved.parts(payload)
    end = HEAD + 8 * proved.prio3.circuit.sizes.measurement
    return one[:end] + bytes(len(one) - end - 32) + one[-32:], other


def _no_element(proved: ProvedReports, payload: bytes) -> Parts:
    """Send an integer that is no element of the field."""
    one, other = proved.parts(payload)
    return one[:HEAD] + b"\xff" * 8 + one[HEAD + 8 :], other


def _mixed(proved: ProvedReports, payload: bytes) -> Parts:
    """Send parts of two different valid reports."""
    return proved.parts(payload)[0], proved.parts(payload)[1]


def _elsewhere(proved: ProvedReports, payload: bytes) -> Parts:
    """Prove the report for another attempt."""
    return replace(proved, prio3=replace(proved.prio3, context=b"elsewhere")).parts(payload)


def corner(proved: ProvedReports) -> Parts:
    """Claim that every number is the largest one, and that this is in the ball."""
    circuit, nonce = proved.prio3.circuit, os.urandom(NONCE_SIZE)
    assert isinstance(circuit, SumVecInBall)
    elements = circuit.field.zeros(1, circuit.sizes.measurement)
    elements[0, : circuit.numbers * circuit.largest.bit_length()] = 1
    public, shares = lying(proved.prio3, elements, nonce, os.urandom(proved.prio3.rand_size))
    return nonce + public + shares[0], nonce + public + shares[1]


LIES: dict[str, Callable[[ProvedReports, bytes], Parts]] = {
    "far out of range": _far,
    "a bit that is 2": lambda proved, payload: _two(proved, payload, forge=False),
    "a bit that is 2, with a forged proof": lambda proved, payload: _two(proved, payload, forge=True),
    "a measurement share": _changed(lambda part: HEAD, 0),
    "a proof share": _changed(lambda part: len(part) - 40, 0),
    "the shuffler's blind": _changed(lambda part: len(part) - 1, 0),
    "the shuffler's nonce": _changed(lambda part: 0, 0),
    "the shuffler's public share, its own part": _changed(lambda part: NONCE_SIZE, 0),
    "the shuffler's public share, the other part": _changed(lambda part: NONCE_SIZE + 32, 0),
    "the coordinator's nonce": _changed(lambda part: 0, 1),
    "the coordinator's public share, its own part": _changed(lambda part: NONCE_SIZE + 32, 1),
    "the coordinator's public share, the other part": _changed(lambda part: NONCE_SIZE, 1),
    "the coordinator's seed": _changed(lambda part: HEAD, 1),
    "the coordinator's blind": _changed(lambda part: HEAD + 32, 1),
    "random bytes": _made_up,
    "no proof": _no_proof,
    "no element of the field": _no_element,
    "parts of two reports": _mixed,
    "a proof for another attempt": _elsewhere,
}
HARMLESS = ("the shuffler's public share, its own part", "the coordinator's public share, its own part")
"""A party replaces its own part of the public share by what it computes. So a wrong one changes nothing."""


def lying_body(
    lie: str, plan: Plan, place: Place, payload: bytes, keys: tuple[PublicKey, PublicKey], credential: str
) -> bytes:
    """Return the body of a liar. `keys` are those of the shuffler and of the coordinator."""
    return sealed_parts(LIES[lie](ProvedReports.of(plan, place), payload), place, keys, credential)


def sealed_parts(parts: Parts, place: Place, keys: tuple[PublicKey, PublicKey], credential: str) -> bytes:
    """Return the body that has these parts."""
    one, other = parts
    sealed = keys[0].seal(one, place, "share-shuffler")
    return sealed + keys[1].seal(bound_share(other, place, credential), place, "share-coordinator")
