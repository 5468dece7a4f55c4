"""What a report costs in each mode of the shuffler, for the output of `account` and `plan`."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import process_time
from typing import Any

from dpbandits.errors import InvalidValue
from dpbandits.privacy import Mechanism, Reach
from dpbandits.protocol import proof_system
from dpbandits.vdaf import LEADER, NONCE_SIZE, VERIFY_KEY_SIZE, Prio3

# As in service/wire, which cannot be imported without the extra `service`.
_SEALED = 48  # bytes that HPKE adds to a text
_TAG = 32  # bytes that bind the coordinator's part of a report to its client
_BATCH = 64  # reports that are verified together when times are measured


def modes_of(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return one entry per mode in which the mechanism can be used; no entry without a shuffler.

    `factor` is the reach of a lying client as a multiple of that of an honest one; None without a bound.
    `length` is the same for the length of the whole vector of means; None without a ball or without a bound.
    `bytes` is the length of a client's request body. `client_ms` and `server_ms` are the processor times per
    report for shares and proofs, measured now; None if they are negligible or cannot be measured. They do not
    include sealing, which takes some tenths of a millisecond in every mode.
    """
    if not mechanism.trust_model.shuffler or not mechanism.additive or mechanism.message.kind == "numbers":
        return []
    message, numbers = mechanism.message, mechanism.message.shape[0]
    reach = mechanism.reach_of_one(1)
    found: list[dict[str, Any]] = []
    if not mechanism.needs_shares:
        found.append(_entry("trusted", reach, message.size + _SEALED))
    found.append(_entry("split", None, 2 * (8 * numbers + _SEALED) + _TAG))
    if mechanism.limits_reports:
        prio3 = proof_system(message, b"account")
        parts = prio3.leader_share_size + prio3.helper_share_size
        body = parts + 2 * (NONCE_SIZE + prio3.public_share_size + _SEALED) + _TAG
        found.append(_entry("verified", reach, body) | _measured(prio3, numbers))
    return found


def _entry(mode: str, reach: Reach | None, size: int) -> dict[str, Any]:
    return {
        "mode": mode,
        "factor": None if reach is None else reach.factor,
        "length": None if reach is None else reach.length_factor,
        "bytes": size,
        "client_ms": None,
        "server_ms": None,
    }


def _measured(prio3: Prio3, numbers: int) -> dict[str, float | None]:
    """Measure the processor time of a client and of a server; None if TurboSHAKE128 is not installed."""
    nonces = [os.urandom(NONCE_SIZE) for _ in range(_BATCH)]
    try:
        one = prio3.shard([0] * numbers, nonces[0], os.urandom(prio3.rand_size))
    except InvalidValue:
        return {"client_ms": None, "server_ms": None}
    key, shares = bytes(VERIFY_KEY_SIZE), [one.input_shares[LEADER]] * _BATCH
    client = _milliseconds(lambda: prio3.shard([0] * numbers, nonces[0], os.urandom(prio3.rand_size)))
    server = _milliseconds(
        lambda: prio3.prepare_batch(key, LEADER, nonces, [one.public_share] * _BATCH, shares)
    )
    return {"client_ms": client, "server_ms": server / _BATCH}


def _milliseconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        began = process_time()
        work()
        times.append(process_time() - began)
    return 1000 * min(times)


def shown_mode(entry: dict[str, Any]) -> str:
    """One mode as a line of text."""
    factor, length = entry["factor"], entry["length"]
    reach = "no bound on a liar" if factor is None else f"a liar reaches {factor:.4g} ×"
    reach += "" if length is None else f" (the whole vector {length:.4g} ×)"
    text = f"{entry['mode']}: {reach}, {entry['bytes']:,} bytes per report"
    if entry["client_ms"] is None:
        return text
    return f"{text}, {entry['client_ms']:.2g} ms of a client and {entry['server_ms']:.2g} ms of each server"
