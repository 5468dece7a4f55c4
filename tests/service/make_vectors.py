"""The test vectors of docs/protocol.md: `python -m tests.service.make_vectors` writes vectors/*.json.

The library's own code makes them, with fixed values for every random draw. The library does not accept a
fixed ephemeral key for HPKE, so `own_hpke` does the sealing here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpbandits.privacy import MECHANISMS
from dpbandits.protocol import Plan, add_up, encode, nothing, report_totals, respond_with_averages
from dpbandits.service.wire import (
    KeyPair,
    Place,
    ProvedReports,
    ReportSlot,
    _shares as wire,
    bound_share,
    hashed,
    verification_key,
)

from . import own_hpke

VECTORS = Path(__file__).parent / "vectors"
STUDY = "5" * 64
TICKET = "ticket-of-a-client-in-test-vectors-00000001"
TOKEN = "token-of-a-client-in-test-vectors-000000001"
KEYS = {"coordinator": bytes(range(32)), "shuffler": bytes(range(32, 64))}
EPHEMERAL = bytes(range(64, 96))


class GivenNoise:
    """A noise source with fixed draws: a coin is heads if its given number in [0, 1) is below its chance.

    `below` has the numbers that are drawn uniformly below some bound, in the order in which they are drawn.
    """

    simulated = True

    def __init__(self, uniforms: list[float], draws: list[list[int]], below: Sequence[int] = ()) -> None:
        self._uniforms, self._draws = uniforms, [np.array(draw, dtype=np.int64) for draw in draws]
        self._below = list(below)

    def below(self, bound: int, shape: tuple[int, ...]) -> Any:
        drawn = self._below.pop(0)
        assert 0 <= drawn < bound
        return np.full(shape, drawn, dtype=np.int64)

    def bernoulli(self, probabilities: Any) -> Any:
        return (np.array([self._uniforms]) < probabilities).astype(np.int64)

    def _next(self, *_arguments: Any) -> Any:
        return self._draws.pop(0)[None, :]

    binomial = poisson = discrete_gaussian = polya = discrete_laplace = box_norm = ball_norm = _next


MIXED = {"mixing": ((2.0, 0.0, 1.0), (0.5, -1.0, 0.0)), "offsets": (0.25, -0.5)}
LATTICE = {"levels": 16, "noise": "discrete-gaussian", "scale": 3.5}
SHARES = {"least_reports": 5, "largest_share": 33}
LIST = {"size": 256, "near": 90, "top_weight": 2988782477960, "other_weight": 1 << 40}
BAND = {"levels": 4, "width": 3, "top_weight": 2988782477960, "other_weight": 1 << 40}
ONE = {"mixing": ((0.5, -1.0, 0.0),), "offsets": (0.25,)}
HEAVY = LIST["near"] * LIST["top_weight"]
Case = tuple[str, dict[str, Any], dict[str, Any], list[float], list[list[int]]]


def _wide(bits: int) -> Case:
    """Return shares whose sums need this many bits, with noise at both ends of the range."""
    cohort = 6 if bits == 33 else 1 << 20
    largest = 1 << 29 if bits == 33 else 1 << (bits - 22)
    fields = LATTICE | {"least_reports": 5, "largest_share": largest, "cohort": cohort}
    return "summed-shares", fields, {}, [0.1, 0.9, 0.5], [[-largest, 7, largest]]


def _edge(bound: float, first: float) -> Case:
    """Return a point on the edge of a ball that rounding puts outside the grid, unless p is clamped."""
    fields = LATTICE | {"shape": "ball", "bound": bound}
    return "local-lattice", fields, {"averages": [first, 0.0, 0.0]}, [0.5] * 3, [[1, -1, 0]]


# name: kind, fields of the mechanism, fields of the plan, uniform numbers for the coins, and the noise draws.
# `averages` and `below` among the fields of the plan are inputs of the client instead.
CASES: dict[str, Case] = {
    "none": ("none", {}, {}, [0.5] * 3, []),
    "central": ("central-lattice", LATTICE | {"levels": 8192}, {}, [0.1, 0.9, 0.5], []),
    "local": ("local-lattice", LATTICE, {}, [0.1, 0.9, 0.5], [[-23, 7, 0]]),
    "local, ball, mixing, offsets": (
        "local-lattice", LATTICE | {"shape": "ball"}, MIXED, [0.9, 0.1], [[-3, 12]]
    ),
    "local, box, mixing, offsets": ("local-lattice", LATTICE, MIXED, [0.9, 0.1], [[5, -24]]),
    "local, noise in a far tail": ("local-lattice", LATTICE, MIXED, [0.9, 0.1], [[5, -60]]),
    "shuffle, bits": (
        "shuffled-bits",
        {"reach": 1.0, "levels": 14, "noise_bits": 25, "least_reports": 5},
        {},
        [0.1, 0.9, 0.5],
        [[12, 0, 25]],
    ),
    "shuffle, sums": (
        "summed-shares", LATTICE | SHARES, {}, [0.1, 0.9, 0.5], [[-30, 7, 0]]
    ),
    "shuffle, noise of the servers": (
        "server-noise", LATTICE | {"levels": 64, "noise": "server-gaussian", "least_reports": 5}, MIXED,
        [0.1, 0.9], [],
    ),
    "shuffle, sums, noise in a far tail": (
        "summed-shares", LATTICE | SHARES, {}, [0.1, 0.9, 0.5], [[-60, 7, 0]]
    ),
    "shuffle, sums, ball": (
        "summed-shares", LATTICE | SHARES | {"shape": "ball"}, MIXED, [0.1, 0.9], [[-5, 20]]
    ),
    "shuffle, sums, polya": (
        "summed-shares", LATTICE | {"noise": "polya", "least_reports": 5}, MIXED, [0.1, 0.9],
        [[3, 4], [99, 1]],
    ),
    "shuffle, sums, skellam": (
        "summed-shares", LATTICE | SHARES | {"noise": "skellam"}, MIXED, [0.1, 0.9],
        [[3, 4], [9, 1]],
    ),
    "none, minus zero and NaN": ("none", {}, {"averages": [-0.0, "NaN", -7.0]}, [0.5] * 3, []),
    "none, infinite rewards": ("none", {"bound": 2.0}, {"averages": ["Infinity", "-Infinity", 1.9]}, [], []),
    "central, ball": ("central-lattice", LATTICE | {"shape": "ball"}, MIXED, [0.9, 0.1], []),
    "central, k-norm": ("central-lattice", LATTICE | {"noise": "k-norm"}, {}, [0.1, 0.9, 0.5], []),
    "central, ball-norm": (
        "central-lattice", LATTICE | {"noise": "ball-norm", "shape": "ball"}, {}, [0.1, 0.9, 0.5], []
    ),
    "local, minus zero": ("local-lattice", LATTICE, {"averages": [-0.0, 0.0, -1.0]}, [0.5] * 3, [[0, 0, 0]]),
    "local, laplace": ("local-lattice", LATTICE | {"noise": "laplace"}, {}, [0.1, 0.9, 0.5], [[-40, 7, 90]]),
    "local, laplace in a far tail": (
        "local-lattice", LATTICE | {"noise": "laplace"}, {}, [0.1, 0.9, 0.5], [[-40, 7, 130]]
    ),
    "local, k-norm": ("local-lattice", LATTICE | {"noise": "k-norm"}, {}, [0.1, 0.9, 0.5], [[-40, 7, 90]]),
    "local, lower edge of a ball": _edge(1.59, -5.66),
    "local, upper edge of a ball": _edge(0.11, 0.65),
    "list, near": ("local-list", LIST, {"below": [12345, 2**47 + 7, HEAVY - 1]}, [0.9], []),
    "list, ball, mixing, far": ("local-list", LIST, MIXED | {"below": [2**61, 99, HEAVY]}, [0.1], []),
    "list, box, short vector": (
        "local-list", LIST | {"shape": "box", "size": 8, "near": 3},
        {"averages": [0.01, 0.0, -0.02], "below": [7, 2**48 - 1, 3 * LIST["top_weight"] + 5]}, [0.1], [],
    ),
    "list, no rewards": (
        "local-list", LIST | {"size": 8, "near": 3}, {"averages": [0.0, 0.0, 0.0], "below": [3, 4, 0]},
        [0.9], [],
    ),
    "list, weights above 2^53": (
        "local-list", LIST | {"size": 8, "near": 3, "top_weight": 2**55 + 1, "other_weight": 2**54},
        {"below": [3, 4, 2**55]}, [0.9], [],
    ),
    "band, inside": ("local-band", BAND, ONE | {"below": [2 * BAND["top_weight"]]}, [0.1], []),
    "band, below": ("local-band", BAND, ONE | {"below": [3 * BAND["top_weight"]]}, [0.1], []),
    "band, above": (
        "local-band", BAND, ONE | {"below": [3 * BAND["top_weight"] + 4 * BAND["other_weight"] - 1]}, [0.1],
        [],
    ),
    "shuffle, bits, reach": (
        "shuffled-bits", {"reach": 1.7320508075688772, "levels": 13, "noise_bits": 25, "least_reports": 5},
        {}, [0.1, 0.9, 0.5], [[12, 0, 25]],
    ),
    "shuffle, sums, polya with a limit": (
        "summed-shares", LATTICE | SHARES | {"noise": "polya"}, MIXED, [0.1, 0.9], [[3, 4], [9, 1]],
    ),
    "shuffle, sums, half of them silent": (
        "summed-shares", LATTICE | SHARES | {"silent_share": 0.5}, {}, [0.1, 0.9, 0.5], [[-30, 7, 0]],
    ),
} | {f"shuffle, sums of {bits} bits": _wide(bits) for bits in (33, *range(54, 63))}  # fmt: skip
AVERAGES: list[Any] = [0.75, -0.3, 1.5]
INPUTS = ("averages", "below")


def plan_of(kind: str, mechanism: dict[str, Any], fields: dict[str, Any]) -> Plan:
    numbers = len(fields.get("mixing", ())) or 3
    named = {"coordinates": numbers, "cohort": 6, "bound": 1.0} | mechanism
    made = MECHANISMS[kind](**named)
    kept = {name: value for name, value in fields.items() if name not in INPUTS}
    return Plan(study=STUDY, phase=2, support=(0, 4, 9), plays=(20, 30, 10), rank=3, mechanism=made, **kept)


def reports() -> list[dict[str, Any]]:
    """Return per mechanism a plan as it is sent, and each step from averages to the plaintext of a report."""
    found = list[dict[str, Any]]()
    for name, (kind, mechanism, fields, uniforms, draws) in CASES.items():
        plan = plan_of(kind, mechanism, fields)
        assert plan.mechanism is not None
        averages, below = fields.get("averages", AVERAGES), fields.get("below", [])
        noise = GivenNoise(uniforms, draws, below)
        answer = respond_with_averages(plan, [float(one) for one in averages], noise)  # type: ignore[arg-type]
        case: dict[str, Any] = {
            "name": name,
            "plan": encode(plan).decode(),
            "plan_digest": plan.digest,
            "averages": averages,
            "uniforms": uniforms,
            "draws": draws,
            "below": [str(one) for one in below],
            "plaintext": answer.payload.hex(),
            "body_bytes": _slot(plan, mode="").body_size,
        }
        if plan.mechanism.trust == "shuffle":
            case |= _split(plan, answer, bytes(range(200, 200 + 8 * plan.numbers)))
        found.append(case)
    return found


def _slot(plan: Plan, *, mode: str) -> ReportSlot:
    place = Place(study=STUDY, phase=2, attempt=13, plan=plan.digest, pseudonym=hashed(TICKET))
    return ReportSlot(plan=plan, place=place, mode=mode)


def _split(plan: Plan, answer: Any, random: bytes) -> dict[str, Any]:
    assert plan.mechanism is not None
    with mock.patch.object(wire.os, "urandom", lambda size: random[:size]):
        one, other = wire.split_shares(plan, answer.payload)
    place = _slot(plan, mode="split").place
    return {
        "sum_bits": plan.mechanism.sum_bits,
        "sums": list(add_up(plan, nothing(plan), [answer.payload]).sums),
        "random": random.hex(),
        "share_shuffler": one.hex(),
        "share_coordinator": other.hex(),
        "token": TOKEN,
        "ticket": TICKET,
        "attempt": 13,
        "bound_share_coordinator": bound_share(other, place, hashed(TOKEN)).hex(),
        "split_body_bytes": _slot(plan, mode="split").body_size,
    }


def proofs() -> list[dict[str, Any]]:
    """Return the parts of reports in mode `verified`, and what both parties make of them."""
    found = list[dict[str, Any]]()
    for name in ("shuffle, sums", "shuffle, bits", "shuffle, sums, ball", "shuffle, noise of the servers"):
        kind, mechanism, fields, uniforms, draws = CASES[name]
        plan = plan_of(kind, mechanism, fields)
        noise = GivenNoise(uniforms, draws, fields.get("below", []))
        answer = respond_with_averages(plan, AVERAGES, noise)  # type: ignore[arg-type]
        place = _slot(plan, mode="verified").place
        proved = ProvedReports.of(plan, place)
        with mock.patch.object(wire.os, "urandom", lambda size: bytes(range(size, 2 * size))):
            one, other = proved.parts(answer.payload)
        keys = {reader: KeyPair(X25519PrivateKey.from_private_bytes(key)) for reader, key in KEYS.items()}
        key = verification_key(keys["shuffler"], keys["coordinator"].public, place)
        (told,) = proved.answers(key, [one])
        accepted = proved.accepted(key, [other], [told])
        found.append(
            {
                "name": name,
                "plan": encode(plan).decode(),
                "plan_digest": plan.digest,
                "attempt": 13,
                "plaintext": answer.payload.hex(),
                "low": proved.low,
                "high": proved.high,
                "largest_square": getattr(proved.prio3.circuit, "largest_square", None),
                "chunk": proved.prio3.circuit.sizes.arity // 2,
                "context": proved.prio3.context.hex(),
                "nonce": one[:16].hex(),
                "rand": bytes(range(128, 256)).hex(),
                "part_shuffler": one.hex(),
                "part_coordinator": other.hex(),
                "verified_body_bytes": _slot(plan, mode="verified").body_size,
                "private_keys": {reader: made.hex() for reader, made in KEYS.items()},
                "verification_key": key.hex(),
                "verifier": told.hex(),
                "share_shuffler": proved.added(0, [one])[0].hex(),
                "share_coordinator": proved.prio3.aggregate(accepted).hex(),
                "sums": list(report_totals(plan, answer.payload).tolist()),
            }
        )
    return found


def sealed() -> list[dict[str, Any]]:
    """Return one text per purpose, sealed with a fixed ephemeral key."""
    digest = plan_of(*CASES["shuffle, sums"][:3]).digest
    place = Place(study=STUDY, phase=2, attempt=13, plan=digest, pseudonym=hashed(TICKET))
    found = list[dict[str, Any]]()
    readers = {"report": "coordinator", "share-shuffler": "shuffler", "share-coordinator": "coordinator"}
    for purpose, reader in readers.items():
        info, plaintext = place.info(purpose), f"24 bytes of plain text {purpose[-1]}".encode()
        public = KeyPair(X25519PrivateKey.from_private_bytes(KEYS[reader])).public.raw
        found.append(
            {
                "purpose": purpose,
                "study": STUDY,
                "phase": 2,
                "attempt": 13,
                "plan": digest,
                "pseudonym": place.pseudonym,
                "info": info.hex(),
                "private_key": KEYS[reader].hex(),
                "public_key": public.hex(),
                "ephemeral_private_key": EPHEMERAL.hex(),
                "plaintext": plaintext.hex(),
                "sealed": own_hpke.seal(public, EPHEMERAL, info, plaintext).hex(),
            }
        )
    return found


def secrets() -> list[dict[str, str]]:
    """Return bearer secrets and their hashes."""
    made = {"code": "code-of-a-client-in-test-vectors-0000000001", "token": TOKEN}
    return [
        {"what": what, "secret": secret, "header": f"Authorization: Bearer {secret}", "hash": hashed(secret)}
        for what, secret in {**made, "ticket, whose hash is the pseudonym": TICKET}.items()
    ]


def made() -> dict[str, str]:
    """Return the content of each file."""
    from .exchange_vectors import exchanges
    from .plan_vectors import plans

    parts = {"reports": reports(), "proofs": proofs(), "sealing": sealed(), "secrets": secrets()}
    parts |= {"plans": plans(), "exchanges": exchanges()}
    return {f"{name}.json": json.dumps(part, indent=1) + "\n" for name, part in parts.items()}


if __name__ == "__main__":
    for name, text in made().items():
        (VECTORS / name).write_text(text, encoding="utf-8")
