"""Prio3 gives the bytes of all test vectors of the specification, and rejects the malformed ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbandits.vdaf import (
    OutShares,
    Prepared,
    Prio3,
    sum_vec_with_multiproof,
)
from tests.vdaf.specified_types import count, histogram, sum_vec, total

VECTORS = sorted((Path(__file__).parent / "vectors").glob("Prio3*.json"))
MALFORMED = [path for path in VECTORS if "_bad_" in path.stem]


def instance(path: Path, vector: dict[str, Any]) -> Prio3:
    common = {"context": bytes.fromhex(vector["ctx"]), "shares": vector["shares"]}
    names = {"length": "numbers", "max_measurement": "largest", "chunk_length": "chunk"}
    given = {mine: vector[theirs] for theirs, mine in names.items() if theirs in vector}
    kind = path.stem.removeprefix("Prio3").split("_")[0]
    if kind == "Count":
        return count(**common)
    if kind == "Sum":
        return total(**given, **common)
    if kind == "Histogram":
        return histogram(length=given["numbers"], chunk=given["chunk"], **common)
    make = {"SumVec": sum_vec, "SumVecWithMultiproof": sum_vec_with_multiproof}[kind]
    return make(**given, **common)


@dataclass
class Replay:
    """Runs the operations of a vector, in order, and compares each result."""

    vdaf: Prio3
    vector: dict[str, Any]
    states: dict[tuple[int, int], Prepared] = field(default_factory=dict)
    outputs: dict[tuple[int, int], OutShares] = field(default_factory=dict)
    failures: int = 0

    def run(self) -> None:
        for operation in self.vector["operations"]:
            step = getattr(self, operation["operation"])
            accepted = step(operation.get("report_index"), operation.get("aggregator_id"))
            assert accepted is operation["success"], operation
            self.failures += not accepted

    def shard(self, at: int, _: None) -> bool:
        report = self.vector["reports"][at]
        nonce, rand = bytes.fromhex(report["nonce"]), bytes.fromhex(report["rand"])
        shares = self.vdaf.shard(report["measurement"], nonce, rand)
        assert shares.public_share.hex() == report["public_share"]
        assert [share.hex() for share in shares.input_shares] == report["input_shares"]
        assert len(rand) == self.vdaf.rand_size
        assert len(shares.public_share) == self.vdaf.public_share_size
        for server, share in enumerate(shares.input_shares):
            assert len(share) == self.vdaf.input_share_size(server)
        return True

    def verify_init(self, at: int, server: int) -> bool:
        report, key = self.vector["reports"][at], bytes.fromhex(self.vector["verify_key"])
        nonce, public = bytes.fromhex(report["nonce"]), bytes.fromhex(report["public_share"])
        share = bytes.fromhex(report["input_shares"][server])
        self.states[at, server], (verifier,) = self.vdaf.prepare_batch(
            key, server, [nonce], [public], [share]
        )
        if verifier is None:
            return False
        assert verifier.hex() == report["verifier_shares"][0][server]
        assert len(verifier) == self.vdaf.verifier_share_size
        return True

    def verifier_shares_to_message(self, at: int, _: None) -> bool:
        report = self.vector["reports"][at]
        (message,) = self.vdaf.combine_batch(*[[bytes.fromhex(one)] for one in report["verifier_shares"][0]])
        if message is None:
            return False
        assert message.hex() == report["verifier_messages"][0]
        assert len(message) == self.vdaf.message_size
        return True

    def verify_next(self, at: int, server: int) -> bool:
        report = self.vector["reports"][at]
        message = bytes.fromhex(report["verifier_messages"][0])
        finished = self.vdaf.finish_batch(self.states[at, server], [message])
        if not finished.accepted[0]:
            assert not finished.values.any()
            return False
        self.outputs[at, server] = finished
        assert self.vdaf.circuit.field.encode_rows(finished.values)[0].hex() == report["out_shares"][server]
        return True

    def aggregate(self, _: None, server: int) -> bool:
        mine = [self.outputs[at, server] for at in range(len(self.vector["reports"]))]
        values = np.concatenate([one.values for one in mine])
        share = self.vdaf.aggregate(OutShares(values, np.ones(len(values), dtype=np.bool_)))
        assert share.hex() == self.vector["agg_shares"][server]
        assert share == self.vdaf.merge([self.vdaf.aggregate(one) for one in mine])
        assert len(share) == self.vdaf.aggregate_share_size
        return True

    def unshard(self, _: None, __: None) -> bool:
        shares = [bytes.fromhex(share) for share in self.vector["agg_shares"]]
        sums = self.vdaf.unshard(shares, len(self.vector["reports"]))
        expected = self.vector["agg_result"]
        assert sums == (expected if isinstance(expected, list) else [expected])
        return True


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_every_operation_of_the_vector_gives_its_bytes(path: Path) -> None:
    vector = json.loads(path.read_text())
    replay = Replay(instance(path, vector), vector)
    replay.run()
    assert (replay.failures > 0) == (path in MALFORMED)


def test_all_vectors_are_here() -> None:
    assert len(VECTORS) == 19
    assert len(MALFORMED) == 8


@pytest.mark.parametrize(
    "path", [path for path in VECTORS if path not in MALFORMED], ids=lambda path: path.stem
)
def test_the_reports_of_a_vector_in_one_batch_give_the_same_bytes(path: Path) -> None:
    vector = json.loads(path.read_text())
    vdaf, reports = instance(path, vector), vector["reports"]
    nonces = [bytes.fromhex(report["nonce"]) for report in reports]
    public = [bytes.fromhex(report["public_share"]) for report in reports]
    for server in range(vdaf.shares):
        shares = [bytes.fromhex(report["input_shares"][server]) for report in reports]
        key = bytes.fromhex(vector["verify_key"])
        _, verifiers = vdaf.prepare_batch(key, server, nonces, public, shares)
        expected = [bytes.fromhex(report["verifier_shares"][0][server]) for report in reports]
        assert verifiers == expected
