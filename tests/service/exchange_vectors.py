"""One whole exchange of a client per trust model, byte by byte: vectors/exchanges.json."""

from __future__ import annotations

import hashlib
from typing import Any
from unittest import mock

import msgspec

from dpbandits.protocol import Plan, decode, respond_with_averages
from dpbandits.service.wire import (
    ClientReply,
    ClientRequest,
    Place,
    SignedTerms,
    StudyReply,
    TaskReply,
    TaskRequest,
    _shares as wire,
    bound_share,
    hashed,
)

from . import own_hpke
from .make_vectors import AVERAGES, EPHEMERAL, KEYS, TICKET, TOKEN, GivenNoise
from .plan_vectors import BITS, GAUSSIAN, LIST, SHARES, plan_text, terms_for

CODE = "code-of-a-client-in-test-vectors-0000000001"
EPHEMERAL_2 = bytes(range(96, 128))
RANDOM = bytes(range(200, 224))
NONE = {"coordinates": 3, "cohort": 6, "bound": 1.0, "kind": "none"}
CENTRAL = GAUSSIAN | {"kind": "central-lattice"}
# trust, mode, mechanism, uniforms, draws, below
EXCHANGES: list[tuple[str, str, dict[str, Any], list[float], list[list[int]], list[int]]] = [
    ("none", "", NONE, [], [], []),
    ("central", "", CENTRAL, [0.1, 0.9, 0.5], [], []),
    ("local", "", LIST, [0.9], [], [12345, 2**47 + 7, 90 * 2988782477960 - 1]),
    ("shuffle", "trusted", BITS, [0.1, 0.9, 0.5], [[990, 1010, 1003]], []),
    ("shuffle", "split", SHARES, [0.1, 0.9, 0.5], [[-30, 7, 0]], []),
]


def exchanges() -> list[dict[str, Any]]:
    """Return the exchanges: what is given, and each request with its reply."""
    return [_exchange(*one) for one in EXCHANGES]


def _exchange(
    trust: str,
    mode: str,
    mechanism: dict[str, Any],
    uniforms: list[float],
    draws: list[list[int]],
    below: list[int],
) -> dict[str, Any]:
    signed = terms_for(trust, mode)
    text = plan_text(signed.digest, mechanism, {})
    place = Place.of(signed.digest, decode(text, Plan), 13, hashed(TICKET))
    noise = GivenNoise(uniforms, draws, below)
    report = respond_with_averages(decode(text, Plan), AVERAGES, noise)  # type: ignore[arg-type]
    body = sealed_body(text, report.payload, place, mode)
    party = "shuffler" if mode else "coordinator"
    return {
        "name": f"{trust} {mode}".strip(),
        "code": CODE,
        "token": TOKEN,
        "ticket": TICKET,
        "averages": AVERAGES,
        "uniforms": uniforms,
        "draws": draws,
        "below": [str(one) for one in below],
        "random": RANDOM.hex(),
        "ephemeral_private_keys": [EPHEMERAL.hex(), EPHEMERAL_2.hex()],
        "private_keys": {name: key.hex() for name, key in KEYS.items()},
        "steps": [
            *_steps(signed, text, shuffled=bool(mode)),
            {
                "to": party,
                "method": "POST",
                "path": "/v1/phases/2/attempts/13/reports",
                "secret": TICKET,
                "body_hex": body.hex(),
                "status": 204,
            },
        ],
    }


def sealed_body(text: str, payload: bytes, place: Place, mode: str) -> bytes:
    """Seal a report for a place with the fixed keys of the vectors."""
    public = {name: own_hpke.public_of(key) for name, key in KEYS.items()}
    if mode != "split":
        reader = public["shuffler" if mode else "coordinator"]
        return own_hpke.seal(reader, EPHEMERAL, place.info("report"), payload)
    with mock.patch.object(wire.os, "urandom", lambda size: RANDOM[:size]):
        one, other = wire.split_shares(decode(text, Plan), payload)
    bound = bound_share(other, place, hashed(TOKEN))
    first = own_hpke.seal(public["shuffler"], EPHEMERAL, place.info("share-shuffler"), one)
    return first + own_hpke.seal(public["coordinator"], EPHEMERAL_2, place.info("share-coordinator"), bound)


def _steps(signed: SignedTerms, text: str, *, shuffled: bool) -> list[dict[str, Any]]:
    """Return the requests before the report, and their replies."""
    study = signed.digest
    about = StudyReply(
        study=study,
        terms=signed.terms,
        signature="",
        features=signed.opened().features,
        actions=12,
        dimension=3,
        horizon=20_000,
    )
    plan = decode(text, Plan)
    assert plan.mechanism is not None
    joined = TaskReply(
        study=study,
        state="joined",
        poll_seconds=0.5,
        phase=2,
        attempt=13,
        plan_digest=hashlib.sha256(text.encode()).hexdigest(),
        plan=text,
        sum_bits=plan.mechanism.sum_bits,
        reported=None if shuffled else False,
    )
    due = msgspec.structs.replace(joined, state="report", plan=None, seconds_left=59.5)
    first = TaskRequest(pseudonym=hashed(TICKET))
    again = TaskRequest(pseudonym=hashed(TICKET), have=joined.plan_digest or "")
    return [
        _step("GET", "/v1/study", "", None, about),
        _step("POST", "/v1/clients", CODE, ClientRequest(token=hashed(TOKEN)), ClientReply(study=study)),
        _step("POST", "/v1/tasks", TOKEN, first, joined),
        _step("POST", "/v1/tasks", TOKEN, again, due),
    ]


def _step(method: str, path: str, secret: str, body: Any, reply: Any) -> dict[str, Any]:
    return {
        "to": "coordinator",
        "method": method,
        "path": path,
        "secret": secret,
        "body": None if body is None else msgspec.to_builtins(body),
        "status": 200,
        "reply": {**msgspec.to_builtins(reply), "a-field-of-a-later-version": True},
    }
