"""Reports and shares, as bytes, with entries that no honest client sends."""

from __future__ import annotations

import random

import numpy as np

from dpbandits.protocol import Plan
from dpbandits.service.wire._binding import TAG
from dpbandits.service.wire._sealing import OVERHEAD

_HELPER = 16 + 64 + 64  # in mode `verified`, the coordinator's part: nonce, public share, input share

_FAR = {
    "integers": (2**61, -(2**61), 2**62, 2**63 - 1, -(2**63), 2**40, -(2**40)),
    "numbers": (np.nan, np.inf, -np.inf, 1e308, -1e308, 2.0**61),
}


def outside_range(plan: Plan, dice: random.Random, *, inside: bool = False) -> bytes:
    """Return a report with one entry or all entries out of range; with `inside`, at the edge of the range.

    Every bit is in range, so a report of bits is out of range if its padding is not zero.
    """
    assert plan.mechanism is not None
    message = plan.mechanism.message
    if message.kind == "bits":
        count = int(np.prod(message.shape))
        ones = dice.choice((0, 1))
        if inside:
            return np.packbits(np.full(count, ones, dtype=np.uint8)).tobytes()
        return bytes([0xFF]) * -(-count // 8)
    edge = dice.choice((message.low, message.high))
    step = 1 if message.kind == "integers" else abs(edge) * 1e-9 + 1e-9
    beyond = edge + step if edge == message.high else edge - step
    value = edge if inside else dice.choice((beyond, beyond, *_FAR[message.kind]))
    kind = np.dtype("<i8") if message.kind == "integers" else np.dtype("<f8")
    middle = (message.low + message.high) / 2
    entries = np.full(message.shape, int(middle) if message.kind == "integers" else middle, dtype=kind)
    places = range(len(entries)) if dice.random() < 0.5 else [dice.randrange(len(entries))]
    for place in places:
        entries[place] = max(-(2**63), min(2**63 - 1, int(value))) if message.kind == "integers" else value
    return entries.tobytes()


def outside_modulus(plan: Plan, dice: random.Random) -> bytes:
    """Return a share in which at least one entry is not a residue."""
    assert plan.mechanism is not None
    modulus = 1 << plan.mechanism.sum_bits
    residues = [dice.randrange(modulus) for _ in range(plan.numbers)]
    wrong = [-1, -(2**63), 2**63 - 1, modulus] if modulus < 2**63 else [-1, -(2**63)]
    residues[dice.randrange(plan.numbers)] = dice.choice(wrong)
    return np.array(residues, dtype="<i8").tobytes()


def second_part(body: bytes, mode: str | None) -> int:
    """Return where the coordinator's part of a body begins; 0 if the body has one part only."""
    starts = {"split": (len(body) - TAG) // 2, "verified": len(body) - _HELPER - TAG - OVERHEAD}
    return starts.get(mode or "", 0)
