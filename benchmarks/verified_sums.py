"""What verified sums cost: reports verified per second, bytes per report and processor time of a client.

    python benchmarks/verified_sums.py --numbers 20 --bits 13 --reports 2000
    python benchmarks/verified_sums.py --ball

With `--ball` reports also prove that the whole vector is in a ball whose diameter is the range of a number,
with room for rounding. The difference between the two results is the cost of limiting how far one dishonest
client can move the sums.

All times are processor times of one core. Rates are also printed as ratios: verification in batches over
verification of one report at a time, and verification over the hashing that it contains.

For 20 numbers of 13 bits, exits with status 1 if a server verifies fewer than 1,500 reports per second, if
more than 8,000 bytes per report are sent, or if a client needs more than 60 ms per report.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from time import process_time

import numpy as np

from dpbandits.vdaf import (
    HELPER,
    LEADER,
    NONCE_SIZE,
    VERIFY_KEY_SIZE,
    Prio3,
    sum_vec_in_ball,
    sum_vec_with_multiproof,
)
from dpbandits.vdaf._flp import proof_length, query_length
from dpbandits.vdaf._xof import derive_seed, expand_rows

LEAST_RATE = 1500
MOST_BYTES = 8000
MOST_CLIENT_SECONDS = 0.060
ONE_BY_ONE = 50  # reports made or verified one at a time


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of several runs."""
    times = []
    for _ in range(repeats):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


class Batch:
    """Reports of random numbers, and the servers' steps."""

    def __init__(self, vdaf: Prio3, reports: int) -> None:
        rng = np.random.default_rng(1)
        self.vdaf = vdaf
        self.key = os.urandom(VERIFY_KEY_SIZE)
        largest, numbers = vdaf.circuit.largest, vdaf.circuit.sizes.output
        edge = math.isqrt(largest**2 // (4 * numbers))  # of a cube that is in the ball, too
        middle = largest // 2
        self.numbers = rng.integers(middle - edge, middle + edge + 1, (reports, numbers))
        self.nonces = [os.urandom(NONCE_SIZE) for _ in range(reports)]
        self.rands = [os.urandom(vdaf.rand_size) for _ in range(reports)]
        made = vdaf.shard_batch(self.numbers, self.nonces, self.rands)
        self.public = [report.public_share for report in made]
        self.inputs = [[report.input_shares[server] for report in made] for server in (LEADER, HELPER)]

    def prepare(self, server: int, at: slice = slice(None)) -> list[bytes | None]:
        """The first step of one server, for some of the reports."""
        shares = self.inputs[server][at]
        return self.vdaf.prepare_batch(self.key, server, self.nonces[at], self.public[at], shares)[1]

    def verify(self, server: int, others: list[bytes | None]) -> None:
        """All steps of one server, which also combines the verifier shares."""
        shares = (self.key, server, self.nonces, self.public, self.inputs[server])
        state, mine = self.vdaf.prepare_batch(*shares)
        pair = (mine, others) if server == LEADER else (others, mine)
        finished = self.vdaf.finish_batch(state, self.vdaf.combine_batch(*pair))
        if not finished.accepted.all():
            raise SystemExit("an honest report was rejected")
        self.vdaf.aggregate(finished)

    def one_by_one(self) -> None:
        """The first step of the helper for single reports."""
        for at in range(ONE_BY_ONE):
            self.prepare(HELPER, slice(at, at + 1))

    def make_one_by_one(self) -> None:
        """What clients do."""
        for at in range(ONE_BY_ONE):
            self.vdaf.shard(self.numbers[at], self.nonces[at], self.rands[at])

    def hash(self) -> None:
        """The hashing that the helper cannot avoid: as many calls of the same lengths."""
        sizes, field, proofs = self.vdaf.circuit.sizes, self.vdaf.circuit.field, self.vdaf.proofs
        seeds, binders = [share[:32] for share in self.inputs[HELPER]], self.nonces
        lengths = (proof_length(self.vdaf.circuit), query_length(self.vdaf.circuit), sizes.joint)
        for length in (sizes.measurement, *[proofs * length for length in lengths]):
            expand_rows(field, seeds, b"benchmark", binders, length)
        for seed, nonce in zip(seeds, binders, strict=True):
            derive_seed(seed, b"benchmark", nonce + bytes(sizes.measurement * field.size))
            derive_seed(seed, b"benchmark", nonce)


def sizes(vdaf: Prio3) -> int:
    """Print the bytes per report, and return their sum."""
    common = NONCE_SIZE + vdaf.public_share_size
    leader, helper = common + vdaf.leader_share_size, common + vdaf.helper_share_size
    exchange = 2 * vdaf.verifier_share_size + vdaf.message_size
    print(f"upload              {leader + helper:7,} bytes per report")
    print(f"  to the leader     {leader:7,} with nonce and public share")
    print(f"  to the helper     {helper:7,} with nonce and public share")
    print(f"between servers     {exchange:7,} bytes per report")
    print(f"in total            {leader + helper + exchange:7,} bytes per report")
    return leader + helper + exchange


def measure(vdaf: Prio3, reports: int) -> tuple[float, float]:
    """Print times; return reports per second of the slower server, and seconds of a client per report."""
    batch = Batch(vdaf, reports)
    others = [batch.prepare(HELPER), batch.prepare(LEADER)]
    rates = [reports / seconds(lambda at=at: batch.verify(at, others[at])) for at in (LEADER, HELPER)]
    client = seconds(batch.make_one_by_one) / ONE_BY_ONE
    single = ONE_BY_ONE / seconds(batch.one_by_one)
    hashing = reports / seconds(batch.hash)
    print(f"leader verifies     {rates[LEADER]:7,.0f} reports per second and core")
    print(f"helper verifies     {rates[HELPER]:7,.0f} reports per second and core")
    print(f"  one at a time     {single:7,.0f}: batches are {rates[HELPER] / single:.1f} times as fast")
    print(
        f"  hashing alone     {hashing:7,.0f}: verification takes {hashing / rates[HELPER]:.1f} times as long"
    )
    print(f"a client takes      {1000 * client:7.1f} ms per report")
    return min(rates), client


def instance(options: argparse.Namespace) -> tuple[Prio3, float]:
    """Return the proof system, and the largest distance of two vectors that it accepts."""
    largest, numbers = 2**options.bits - 1, options.numbers
    common = {"numbers": numbers, "largest": largest, "context": b"benchmark", "chunk": options.chunk}
    if not options.ball:
        return sum_vec_with_multiproof(**common), math.sqrt(numbers) * largest
    diameter = largest + 2 * math.sqrt(numbers)  # rounding moves each number of either vector by up to one
    square = math.floor(diameter**2)
    return sum_vec_in_ball(**common, twice_centre=largest, largest_square=square), diameter


def chunk_of(vdaf: Prio3) -> int:
    """Return the number of products per call of the gadget."""
    return vdaf.circuit.sizes.arity // 2


def main() -> None:
    """Measure one shape of report."""
    parser = argparse.ArgumentParser(description="Measure the costs of verified sums.")
    parser.add_argument("--numbers", type=int, default=20, help="numbers per report")
    parser.add_argument("--bits", type=int, default=13, help="bits per number")
    parser.add_argument("--chunk", type=int, help="bits per call of the gadget (default: shortest proof)")
    parser.add_argument("--reports", type=int, default=2000, help="reports per batch")
    parser.add_argument("--ball", action="store_true", help="also prove the length of the vector")
    options = parser.parse_args()
    vdaf, longest = instance(options)
    honest = vdaf.circuit.largest
    print(f"{options.numbers} numbers of {options.bits} bits, {vdaf.proofs} proofs, chunk {chunk_of(vdaf)}")
    reach = f"{longest / honest:.3f} times the largest number"
    print(f"one dishonest client can move the vector of sums by up to {reach}")
    total = sizes(vdaf)
    rate, client = measure(vdaf, options.reports)
    if (options.numbers, options.bits) != (20, 13):
        return
    missed = rate < LEAST_RATE or total > MOST_BYTES or client > MOST_CLIENT_SECONDS
    print("targets missed" if missed else "targets met")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
