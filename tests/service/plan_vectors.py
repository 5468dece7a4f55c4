"""Plans that a client must accept or refuse under given terms, each with the reason: vectors/plans.json.

All numbers are chosen by hand. The accepted plans satisfy the closed-form checks of docs/protocol.md, so a
client that has no numerical accountant accepts them, too.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpbandits.service.wire import KeyPair, PartyTerms, SignedTerms, Terms

from .make_vectors import KEYS

RUN = "0123456789abcdef" * 2
GAUSSIAN = {
    "coordinates": 3, "cohort": 6, "bound": 1.0, "levels": 16, "noise": "discrete-gaussian", "scale": 150.0,
    "shape": "box", "kind": "local-lattice",
}  # fmt: skip
LAPLACE = GAUSSIAN | {"noise": "laplace", "scale": 48.0}
K_NORM = GAUSSIAN | {"noise": "k-norm", "scale": 16.0}
LIST = {
    "coordinates": 3, "cohort": 6, "bound": 1.0, "size": 256, "near": 90, "top_weight": 2988782477960,
    "other_weight": 1 << 40, "shape": "ball", "kind": "local-list",
}  # fmt: skip
BAND = {
    "cohort": 6, "bound": 1.0, "levels": 4, "width": 3, "top_weight": 2988782477960, "other_weight": 1 << 40,
    "coordinates": 1, "shape": "box", "kind": "local-band",
}  # fmt: skip
ONE = {"support": [4], "plays": [60]}
SHARES = {
    "coordinates": 3, "cohort": 100, "bound": 1.0, "levels": 16, "noise": "discrete-gaussian", "scale": 20.0,
    "least_reports": 80, "silent_share": 0.25, "largest_share": 250, "shape": "ball", "kind": "summed-shares",
}  # fmt: skip
SKELLAM = SHARES | {"noise": "skellam", "scale": 23.0, "largest_share": 300, "shape": "box"}
POLYA = SHARES | {"noise": "polya", "scale": 48.0, "largest_share": None, "shape": "box"}
BITS = {
    "coordinates": 3, "cohort": 100, "bound": 1.0, "reach": 1.0, "levels": 16, "noise_bits": 2000,
    "noise_probability": 0.5, "least_reports": 80, "silent_share": 0.25, "kind": "shuffled-bits",
}  # fmt: skip
PLAN: dict[str, Any] = {
    "phase": 2, "support": [0, 4, 9], "plays": [20, 30, 10], "rank": 3, "offsets": [], "per_action": [],
    "mixing": [],
}  # fmt: skip
DROPPED = object()  # the value of a field that a plan lacks

# name, trust, mechanism, fields of the plan or the task; accepted plans
ACCEPTED: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("discrete Gaussian in a box", "local", GAUSSIAN, {}),
    ("discrete Gaussian in a ball", "local", GAUSSIAN | {"shape": "ball"}, {}),
    ("Laplace", "local", LAPLACE, {}),
    ("K-norm", "local", K_NORM, {}),
    ("list", "local", LIST, {}),
    ("band", "local", BAND, ONE),
    ("shares", "shuffle", SHARES, {}),
    ("Skellam shares", "shuffle", SKELLAM, {}),
    ("Polya shares without a limit", "shuffle", POLYA, {}),
    ("bits", "shuffle", BITS, {}),
]
# the same, with the reason of the refusal; the last field tells whether the JSON schema refuses the plan, too
REFUSED: list[tuple[str, str, dict[str, Any], dict[str, Any], str, bool]] = [
    ("another digest", "local", LIST, {"plan_digest": "0" * 64}, "plan_digest is not the SHA-256", False),
    ("another phase", "local", LIST, {"task_phase": 3}, "the phases of task and plan differ", False),
    ("another study", "local", LIST, {"study": "0" * 64}, "study is not the digest of the terms", False),
    ("no mechanism", "local", LIST, {"mechanism": None}, "the plan asks for no report", True),
    ("an unknown field", "local", LIST, {"more": 1}, "the plan has an unknown field", True),
    ("an unknown field of the mechanism", "local", LIST | {"more": 1}, {}, "it has an unknown field", True),
    ("no kind", "local", LIST | {"kind": DROPPED}, {}, "kind is missing", True),
    ("an unknown kind", "local", LIST | {"kind": "local-magic"}, {}, "no such kind", True),
    ("a kind of another trust model", "local", SHARES, {}, "kind is not in the terms", False),
    ("a noise that the terms lack", "shuffle", SHARES | {"noise": "laplace"}, {}, "not for this kind", True),
    ("a cohort above the terms", "local", LIST | {"cohort": 101}, {}, "cohort > largest_cohort", False),
    ("too little noise", "local", GAUSSIAN | {"scale": 75.0}, {}, "(1, 1e-6) does not hold", False),
    ("too little Laplace noise", "local", LAPLACE | {"scale": 9.0}, {}, "(1, 1e-6) does not hold", False),
    ("too little K-norm noise", "local", K_NORM | {"scale": 15.9}, {}, "(1, 1e-6) does not hold", False),
    ("a list with a weight too large", "local", LIST | {"top_weight": 2988782477961 * 2}, {},
     "top_weight/other_weight > e^ε", False),
    ("a band with a weight too large", "local", BAND | {"other_weight": 1 << 39}, ONE,
     "top_weight/other_weight > e^ε", False),
    ("a list that is all near", "local", LIST | {"near": 256}, {}, "near is not below size", False),
    ("a list of 255", "local", LIST | {"size": 255}, {}, "size must be a power of two", False),
    ("a band for three numbers", "local", BAND | {"coordinates": 3}, {}, "a band has one number", False),
    ("Laplace noise in a ball", "local", LAPLACE | {"shape": "ball"}, {}, "no theorem covers it", False),
    ("no number", "local", GAUSSIAN | {"scale": "NaN!"}, {}, "scale is NaN, which is not JSON", True),
    ("a number as text", "local", GAUSSIAN | {"scale": "150"}, {}, "scale is not a number", True),
    ("no level", "local", GAUSSIAN | {"levels": 0}, {}, "levels must be 1 … 2^20", True),
    ("a huge bound", "local", GAUSSIAN | {"bound": 1e300}, {}, "bound must be 2^-60 … 2^60", True),
    ("too few plays", "local", LIST, {"plays": [20, 30]}, "one number of plays per action", False),
    ("a short row", "local", LIST, {"mixing": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]},
     "a row of mixing has one number per action", False),
    ("too many offsets", "local", LIST, {"offsets": [0.0] * 4}, "one offset per reported number", False),
    ("too few coordinates", "local", LIST | {"coordinates": 2}, {}, "coordinates is not 3", False),
    ("too few reports", "shuffle", SHARES | {"least_reports": 79}, {}, "least_reports < 80", False),
    ("too many silent clients", "shuffle", SHARES | {"silent_share": 0.2}, {}, "silent_share < 0.25", False),
    ("biased bits", "shuffle", BITS | {"noise_probability": 0.25}, {}, "noise_probability is not ½", False),
    ("too few bits", "shuffle", BITS | {"noise_bits": 500}, {}, "(1, 1e-6) does not hold", False),
    ("a reach below the bound", "shuffle", BITS | {"reach": 0.5}, {}, "reach must be at least bound", False),
    ("shares without a limit", "shuffle", SHARES | {"largest_share": None}, {},
     "only polya shares may have no limit", False),
    ("a limit that is often exceeded", "shuffle", SHARES | {"largest_share": 60}, {},
     "(1, 1e-6) does not hold: replaced reports count", False),
    ("too little Skellam noise", "shuffle", SKELLAM | {"scale": 8.0}, {}, "(1, 1e-6) does not hold", False),
    ("too little Polya noise", "shuffle", POLYA | {"scale": 40.0}, {}, "(1, 1e-6) does not hold", False),
    ("sums that need too many bits", "shuffle", SHARES | {"cohort": 1 << 40, "largest_share": 1 << 30}, {},
     "cohort × the largest report is not below 2^62", False),
]  # fmt: skip


def _party(name: str) -> PartyTerms:
    public = KeyPair(X25519PrivateKey.from_private_bytes(KEYS[name])).public
    return PartyTerms(url=f"https://{name}.test", key=str(public))


def terms_for(trust: str, mode: str = "", **changes: Any) -> SignedTerms:
    """Return fixed terms for a trust model, at (1, 10⁻⁶)."""
    kinds = {
        "none": (("none",), ("none",)),
        "central": (("central-lattice",), ("ball-norm", "discrete-gaussian", "k-norm", "laplace")),
        "local": (
            ("local-band", "local-lattice", "local-list"), ("discrete-gaussian", "k-norm", "laplace", "list"),
        ),
        "shuffle": (
            ("shuffled-bits", "summed-shares"), ("binomial", "discrete-gaussian", "polya", "skellam"),
        ),
    }  # fmt: skip
    shuffled = trust == "shuffle"
    fields: dict[str, Any] = {
        "run": RUN, "study": "7" * 64, "trust": trust, "mode": mode, "epsilon": 1.0, "delta": 1e-6,
        "minimum_reports": 80 if shuffled else 1, "largest_cohort": 100, "silent_share": 0.25 * shuffled,
        "mechanisms": kinds[trust][0], "noises": kinds[trust][1], "sum_bits": 63,
        "coordinator": _party("coordinator"), "shuffler": _party("shuffler") if shuffled else None,
    }  # fmt: skip
    return SignedTerms.of(msgspec.convert(fields | changes, Terms))


def plan_text(digest: str, mechanism: dict[str, Any] | None, fields: dict[str, Any]) -> str:
    """Return the JSON of a plan, with the fields in the order in which the library writes them."""
    kept = None if mechanism is None else {k: v for k, v in mechanism.items() if v is not DROPPED}
    plan: dict[str, Any] = {"study": digest}
    for name, value in PLAN.items():
        plan[name] = value
        if name == "rank":
            plan["mechanism"] = kept
    plan |= {name: value for name, value in fields.items() if name not in ("plan_digest", "task_phase")}
    text = json.dumps(plan, separators=(",", ":"), ensure_ascii=False)
    return text.replace('"NaN!"', "NaN")


def plans() -> list[dict[str, Any]]:
    """Return the plans, with the terms under which they arrive."""
    accepted = [(*one, "", False) for one in ACCEPTED]
    return [_vector(*one) for one in accepted + REFUSED]


def _vector(
    name: str, trust: str, mechanism: dict[str, Any], fields: dict[str, Any], reason: str, by_schema: bool
) -> dict[str, Any]:
    signed = terms_for(trust, "split" if trust == "shuffle" else "")
    text = plan_text(signed.digest, mechanism, fields)
    return {
        "name": name,
        "accept": not reason,
        "reason": reason,
        "schema_refuses": by_schema,
        "terms": signed.terms,
        "phase": fields.get("task_phase", 2),
        "plan_digest": fields.get("plan_digest", hashlib.sha256(text.encode()).hexdigest()),
        "plan": text,
    }
