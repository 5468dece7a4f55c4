"""Counts how many corrupted reports of each kind Prio3 accepts, in batches with honest ones.

    python -m tests.vdaf.corruptions --reports 10000 --seed 1

Exits with status 1 if a corrupted report is accepted, an honest one is rejected, or a sum is not that of the
honest reports.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpbandits.vdaf import NONCE_SIZE, Prio3, sum_vec_in_ball, sum_vec_with_multiproof
from dpbandits.vdaf._ball import SumVecInBall
from dpbandits.vdaf._field import Elements
from dpbandits.vdaf._flp import proof_length
from dpbandits.vdaf._sharding import Shares

SEED = 32
BATCH = 400


@dataclass
class Exchange:
    """All that travels for one batch: lists of one byte string per report."""

    nonces: list[bytes]
    public: list[bytes]
    inputs: list[list[bytes]]
    verifiers: list[list[bytes | None]] = field(default_factory=list)
    messages: list[bytes | None] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Where bytes are changed: which list of the exchange, and which part of each string."""

    name: str
    strings: Callable[[Exchange], list[Any]]
    part: Callable[[Prio3], tuple[int, int]]


def _measurement_size(vdaf: Prio3) -> int:
    return vdaf.circuit.sizes.measurement * 8


def _proof(vdaf: Prio3, start: int, stop: int) -> tuple[int, int]:
    """Elements `start` to `stop` of the second proof."""
    first = _measurement_size(vdaf) + proof_length(vdaf.circuit) * 8
    return first + 8 * start, first + 8 * stop


REPORT_PLACES = [
    Place("nonce", lambda sent: sent.nonces, lambda vdaf: (0, NONCE_SIZE)),
    Place("leader's part in the public share", lambda sent: sent.public, lambda vdaf: (0, SEED)),
    Place("helper's part in the public share", lambda sent: sent.public, lambda vdaf: (SEED, 2 * SEED)),
    Place("measurement share", lambda sent: sent.inputs[0], lambda vdaf: (0, _measurement_size(vdaf))),
    Place(
        "wire seeds of a proof",
        lambda sent: sent.inputs[0],
        lambda vdaf: _proof(vdaf, 0, vdaf.circuit.sizes.arity),
    ),
    Place(
        "gadget polynomial of a proof",
        lambda sent: sent.inputs[0],
        lambda vdaf: _proof(vdaf, vdaf.circuit.sizes.arity, proof_length(vdaf.circuit)),
    ),
    Place(
        "leader's blind",
        lambda sent: sent.inputs[0],
        lambda vdaf: (vdaf.leader_share_size - SEED, vdaf.leader_share_size),
    ),
    Place("helper's seed", lambda sent: sent.inputs[1], lambda vdaf: (0, SEED)),
    Place("helper's blind", lambda sent: sent.inputs[1], lambda vdaf: (SEED, 2 * SEED)),
]
VERIFIER_PLACES = [
    place
    for server, name in enumerate(["leader's", "helper's"])
    for place in (
        Place(
            f"{name} verifiers",
            lambda sent, server=server: sent.verifiers[server],
            lambda vdaf: (0, vdaf.verifier_share_size - SEED),
        ),
        Place(
            f"{name} part in the verifier share",
            lambda sent, server=server: sent.verifiers[server],
            lambda vdaf: (vdaf.verifier_share_size - SEED, vdaf.verifier_share_size),
        ),
    )
]
MESSAGE_PLACES = [Place("message", lambda sent: sent.messages, lambda vdaf: (0, SEED))]
LIES = ["a bit that is 2, with a proof made as usual", "a bit that is 2, with a proof of output zero"]
KINDS = [place.name for place in REPORT_PLACES + VERIFIER_PLACES + MESSAGE_PLACES] + LIES


def change(rng: np.random.Generator, string: bytes, start: int, stop: int) -> bytes:
    """Flip a bit, replace some bytes, or cut or lengthen the string there."""
    at, way = (
        int(rng.integers(start, stop)),
        rng.choice(["bit", "bytes", "cut", "longer"], p=[0.5, 0.4, 0.05, 0.05]),
    )
    if way == "cut":
        return string[:at]
    if way == "longer":
        return string[:at] + rng.bytes(1) + string[at:]
    if way == "bytes":
        end = min(stop, at + int(rng.integers(1, 40)))
        changed = string[:at] + rng.bytes(end - at) + string[end:]
        if changed != string:
            return changed
    return string[:at] + bytes([string[at] ^ (1 << int(rng.integers(8)))]) + string[at + 1 :]


def lying(vdaf: Prio3, elements: Elements, nonce: bytes, rand: bytes) -> Shares:
    """A report of elements that are taken as they are, valid or not, with a proof made as usual."""
    circuit = copy(vdaf.circuit)
    circuit.encode = lambda measurements: measurements  # type: ignore[method-assign]
    return replace(vdaf, circuit=circuit).shard_batch(elements, [nonce], [rand])[0]


def lies(vdaf: Prio3, rng: np.random.Generator, numbers: Elements, nonce: bytes, forge: bool) -> Shares:
    """A report in which one element is 2 instead of a bit; if asked, the proof makes the output zero."""
    encoded = vdaf.circuit.encode([numbers])
    encoded[0, rng.integers(encoded.shape[1])] = 2
    report = lying(vdaf, encoded, nonce, rng.bytes(vdaf.rand_size))
    return forged(vdaf, report) if forge else report


def forged(vdaf: Prio3, report: Shares) -> Shares:
    """Change the leader's shares of the gadget's results so that all outputs are zero."""
    circuit, (leader, helper) = vdaf.circuit, report.input_shares
    field, sizes = circuit.field, circuit.sizes
    elements, _ = field.decode_rows([leader[:-SEED]], vdaf.leader_elements)
    proofs = elements[:, sizes.measurement :].reshape(1, vdaf.proofs, -1)  # a view
    rest, others = vdaf.helper_shares(1, [helper[:SEED]])
    results = field.add(proofs, others)[..., sizes.arity + 2 :: 2][..., : sizes.calls]
    outputs = circuit.outputs(field.add(elements[:, : sizes.measurement], rest), results, 1)
    for output, call in enumerate([0, sizes.joint][: sizes.evaluations]):
        place = sizes.arity + 2 + 2 * call
        proofs[..., place] = field.subtract(proofs[..., place], outputs[..., output])
    return Shares(report.public_share, (field.to_bytes(elements) + leader[-SEED:], helper))


def corrupt(
    vdaf: Prio3, rng: np.random.Generator, sent: Exchange, kinds: list[str | None], places: list[Place]
) -> None:
    by_name = {place.name: place for place in places}
    for at, kind in enumerate(kinds):
        if kind in by_name:
            place = by_name[kind]
            strings = place.strings(sent)
            strings[at] = change(rng, strings[at], *place.part(vdaf))


def run_batch(vdaf: Prio3, rng: np.random.Generator, kinds: list[str | None]) -> tuple[list[bool], bool]:
    """Run a batch in which report i is corrupted as `kinds[i]` says; None stands for an honest report.

    Returns:
        Which reports at least one server accepts, and whether the sums are those of the honest reports.
    """
    numbers = random_numbers(vdaf, rng, len(kinds))
    nonces, key = [rng.bytes(NONCE_SIZE) for _ in kinds], rng.bytes(SEED)
    reports = vdaf.shard_batch(numbers, nonces, [rng.bytes(vdaf.rand_size) for _ in kinds])
    for at, kind in enumerate(kinds):
        if kind in LIES:
            reports[at] = lies(vdaf, rng, numbers[at], nonces[at], forge=kind == LIES[1])
    public = [report.public_share for report in reports]
    sent = Exchange(
        nonces, public, [[report.input_shares[server] for report in reports] for server in (0, 1)]
    )
    corrupt(vdaf, rng, sent, kinds, REPORT_PLACES)
    states = []
    for server in (0, 1):
        state, verifiers = vdaf.prepare_batch(key, server, sent.nonces, sent.public, sent.inputs[server])
        states.append(state)
        sent.verifiers.append(verifiers)
    corrupt(vdaf, rng, sent, kinds, VERIFIER_PLACES)
    sent.messages = vdaf.combine_batch(*sent.verifiers)
    corrupt(vdaf, rng, sent, kinds, MESSAGE_PLACES)
    finished = [vdaf.finish_batch(state, sent.messages) for state in states]
    honest = np.array([kind is None for kind in kinds])
    sums = vdaf.unshard([vdaf.aggregate(out) for out in finished], len(kinds))
    accepted = finished[0].accepted | finished[1].accepted
    return accepted.tolist(), sums == numbers[honest].sum(axis=0).tolist()


def random_numbers(vdaf: Prio3, rng: np.random.Generator, reports: int) -> Elements:
    """Valid vectors; of a ball, those in the largest cube in it."""
    circuit, low, high = vdaf.circuit, 0, vdaf.circuit.largest
    if isinstance(circuit, SumVecInBall):
        most = math.isqrt(circuit.largest_square // circuit.numbers)  # of |2x - twice_centre|
        low, high = max(low, -((most - circuit.largest) // 2)), min(high, (circuit.largest + most) // 2)
    return rng.integers(low, high + 1, (reports, circuit.sizes.output))


def random_instance(rng: np.random.Generator) -> Prio3:
    """Of up to 20 numbers, whose range is often not a power of two; every second one in a ball."""
    numbers, largest = int(rng.integers(1, 21)), int(np.exp(rng.uniform(0, np.log(2**16))))
    chunk = int(rng.integers(1, numbers * largest.bit_length() + 1)) if rng.random() < 0.5 else None
    context = rng.bytes(int(rng.integers(0, 40)))
    if rng.random() < 0.5:
        square = int(numbers * np.exp(rng.uniform(0, 2 * np.log(largest))))
        return sum_vec_in_ball(
            numbers=numbers, largest=largest, twice_centre=largest, largest_square=square, chunk=chunk,
            context=context,
        )  # fmt: skip
    return sum_vec_with_multiproof(numbers=numbers, largest=largest, chunk=chunk, context=context)


def batches(rng: np.random.Generator, reports: int) -> Iterator[list[str | None]]:
    """The kinds of the reports in each batch: all kinds in turn, with an honest report after every third."""
    kinds = [KINDS[at % len(KINDS)] for at in range(reports)]
    for start in range(0, reports, BATCH):
        batch: list[str | None] = list(kinds[start : start + BATCH])
        mixed = batch + [None] * (1 + len(batch) // 3)
        yield [mixed[at] for at in rng.permutation(len(mixed))]


def count_accepted(reports: int, seed: int) -> tuple[Counter[str], Counter[str], int, int]:
    """Run batches of random reports.

    Returns:
        Corrupted reports by kind, those of them that were accepted, honest reports that were rejected, and
        batches with a wrong sum.
    """
    rng = np.random.default_rng(seed)
    tried: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    rejected = wrong = 0
    for kinds in batches(rng, reports):
        accepted, right = run_batch(random_instance(rng), rng, kinds)
        tried.update(kind for kind in kinds if kind is not None)
        passed.update(kind for kind, good in zip(kinds, accepted, strict=True) if good and kind is not None)
        rejected += sum(not good for kind, good in zip(kinds, accepted, strict=True) if kind is None)
        wrong += not right
    return tried, passed, rejected, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the corrupted reports that are accepted.")
    parser.add_argument("--reports", type=int, default=10_000, help="corrupted reports")
    parser.add_argument("--seed", type=int, default=1, help="seed of reports and corruptions")
    options = parser.parse_args()
    tried, passed, rejected, wrong = count_accepted(options.reports, options.seed)
    for kind in KINDS:
        print(f"{kind:45} {tried[kind]:6,} corrupted  {passed[kind]:3,} accepted")
    print(f"{'all':45} {tried.total():6,} corrupted  {passed.total():3,} accepted")
    print(f"honest reports rejected: {rejected}; batches with a wrong sum: {wrong}")
    sys.exit(1 if passed.total() or rejected or wrong else 0)


if __name__ == "__main__":
    main()
