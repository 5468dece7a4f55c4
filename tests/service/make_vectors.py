"""The test vectors of docs/protocol.md: `python -m tests.service.make_vectors` writes vectors/*.json.

The library's own code makes them, with fixed values for every random draw. The library does not accept a
fixed ephemeral key for HPKE, so `own_hpke` does the sealing here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpbandits.privacy import MECHANISMS
from dpbandits.protocol import Plan, add_up, encode, nothing, respond_with_averages
from dpbandits.service.wire import KeyPair, Place, ReportSlot, _shares as wire, bound_share, hashed

from . import own_hpke

VECTORS = Path(__file__).parent / "vectors"
STUDY = "5" * 64
TICKET = "ticket-of-a-client-in-test-vectors-00000001"
TOKEN = "token-of-a-client-in-test-vectors-000000001"
KEYS = {"coordinator": bytes(range(32)), "shuffler": bytes(range(32, 64))}
EPHEMERAL = bytes(range(64, 96))


class GivenNoise:
    """A noise source with fixed draws: a coin is heads if its given number in [0, 1) is below its chance."""

    simulated = True

    def __init__(self, uniforms: list[float], draws: list[list[int]]) -> None:
        self._uniforms, self._draws = uniforms, [np.array(draw, dtype=np.int64) for draw in draws]

    def bernoulli(self, probabilities: Any) -> Any:
        return (np.array([self._uniforms]) < probabilities).astype(np.int64)

    def _next(self, *_arguments: Any) -> Any:
        return self._draws.pop(0)[None, :]

    binomial = poisson = discrete_gaussian = polya = discrete_laplace = box_norm = _next


MIXED = {"mixing": ((2.0, 0.0, 1.0), (0.5, -1.0, 0.0)), "offsets": (0.25, -0.5)}
LATTICE = {"levels": 16, "noise": "discrete-gaussian", "scale": 3.5}
SHARES = {"least_reports": 5, "largest_share": 33}
# name: kind, fields of the mechanism, fields of the plan, uniform numbers for the coins, and the noise draws
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[float], list[list[int]]]] = {
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
}  # fmt: skip
AVERAGES = [0.75, -0.3, 1.5]


def plan_of(kind: str, mechanism: dict[str, Any], fields: dict[str, Any]) -> Plan:
    numbers = len(fields.get("mixing", ())) or 3
    made = MECHANISMS[kind](coordinates=numbers, cohort=6, bound=1.0, **mechanism)  # type: ignore[call-arg]
    return Plan(study=STUDY, phase=2, support=(0, 4, 9), plays=(20, 30, 10), rank=3, mechanism=made, **fields)


def reports() -> list[dict[str, Any]]:
    """Return per mechanism a plan as it is sent, and each step from averages to the plaintext of a report."""
    found = list[dict[str, Any]]()
    for name, (kind, mechanism, fields, uniforms, draws) in CASES.items():
        plan = plan_of(kind, mechanism, fields)
        assert plan.mechanism is not None
        answer = respond_with_averages(plan, AVERAGES, GivenNoise(uniforms, draws))  # type: ignore[arg-type]
        case: dict[str, Any] = {
            "name": name,
            "plan": encode(plan).decode(),
            "plan_digest": plan.digest,
            "averages": AVERAGES,
            "uniforms": uniforms,
            "draws": draws,
            "plaintext": answer.payload.hex(),
            "body_bytes": _slot(plan, split=False).body_size,
        }
        if plan.mechanism.trust == "shuffle":
            case |= _split(plan, answer, bytes(range(200, 200 + 8 * plan.numbers)))
        found.append(case)
    return found


def _slot(plan: Plan, *, split: bool) -> ReportSlot:
    place = Place(study=STUDY, phase=2, attempt=13, plan=plan.digest, pseudonym=hashed(TICKET))
    return ReportSlot(plan=plan, place=place, split=split)


def _split(plan: Plan, answer: Any, random: bytes) -> dict[str, Any]:
    assert plan.mechanism is not None
    with mock.patch.object(wire.os, "urandom", lambda size: random[:size]):
        one, other = wire.split_shares(plan, answer.payload)
    place = _slot(plan, split=True).place
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
        "split_body_bytes": _slot(plan, split=True).body_size,
    }


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
    parts = {"reports": reports(), "sealing": sealed(), "secrets": secrets()}
    return {f"{name}.json": json.dumps(part, indent=1) + "\n" for name, part in parts.items()}


if __name__ == "__main__":
    for name, text in made().items():
        (VECTORS / name).write_text(text, encoding="utf-8")
