"""The test vectors of docs/protocol.md hold for the library, and for independent code."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpbandits.errors import Refused
from dpbandits.protocol import Plan, decode, share_message
from dpbandits.service.wire import KeyPair, Place, PublicKey

from . import own_hpke
from .make_vectors import VECTORS, made


def _vectors(name: str) -> list[dict[str, Any]]:
    return list(json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8")))


REPORTS, SEALED, SECRETS = _vectors("reports"), _vectors("sealing"), _vectors("secrets")


def test_the_library_makes_the_vectors_that_are_kept() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in VECTORS.glob("*.json")} == made()


@pytest.mark.parametrize("case", SECRETS, ids=lambda case: case["what"])
def test_hashes_of_secrets(case: dict[str, str]) -> None:
    assert hashlib.sha256(case["header"].split()[-1].encode("ascii")).hexdigest() == case["hash"]


@pytest.mark.parametrize("case", SEALED, ids=lambda case: case["purpose"])
def test_what_is_sealed_opens_by_two_codes(case: dict[str, Any]) -> None:
    private, info = bytes.fromhex(case["private_key"]), bytes.fromhex(case["info"])
    lines = ("dpbandits v1", case["purpose"], case["study"], "2", "13", case["plan"], case["pseudonym"])
    assert info == "\n".join(lines).encode("ascii")
    sealed, plaintext = bytes.fromhex(case["sealed"]), bytes.fromhex(case["plaintext"])
    assert own_hpke.open_sealed(private, info, sealed) == plaintext
    place = Place(**{name: case[name] for name in ("study", "phase", "attempt", "plan", "pseudonym")})
    keys = KeyPair(X25519PrivateKey.from_private_bytes(private))
    assert keys.public == PublicKey.parse(case["public_key"])
    assert keys.open(sealed, place, case["purpose"]) == plaintext
    for bit in (0, 8 * 32, 8 * len(sealed) - 1):  # one bit in the key, in the text and in the tag
        broken = bytearray(sealed)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Refused, match="cannot be decrypted"):
            keys.open(bytes(broken), place, case["purpose"])
    by_library = keys.public.seal(plaintext, place, case["purpose"])
    assert own_hpke.open_sealed(private, info, by_library) == plaintext


def _encoded(plan: dict[str, Any], case: dict[str, Any]) -> list[float]:
    """Compute in plain Python what docs/protocol.md says a client computes before the noise."""
    averages, mechanism = case["averages"], plan["mechanism"]
    rows = plan["mixing"] or [[float(i == j) for j in range(len(averages))] for i in range(len(averages))]
    offsets = plan["offsets"] or [0.0] * len(rows)
    mixed = [sum(a * b for a, b in zip(row, averages, strict=True)) for row in rows]
    mixed = [x - c for x, c in zip(mixed, offsets, strict=True)]
    bound = mechanism["bound"]
    if mechanism.get("shape", "box") == "ball":
        clipped = [x * bound / max(bound, math.hypot(*mixed)) for x in mixed]
    else:
        clipped = [min(max(x, -bound), bound) for x in mixed]
    if mechanism["kind"] == "none":
        return clipped
    reach, levels = mechanism.get("reach", bound), mechanism["levels"]
    places = [(x + reach) * levels / (2 * reach) for x in clipped]
    floors = [min(math.floor(place), levels - 1) for place in places]
    heads = [u < p - f for u, p, f in zip(case["uniforms"], places, floors, strict=True)]
    return [floor + head for floor, head in zip(floors, heads, strict=True)]


def _answer(plan: dict[str, Any], case: dict[str, Any]) -> list[float]:
    answer, draws = _encoded(plan, case), case["draws"]
    if len(draws) == 2:  # Skellam: the difference of two Poisson variables
        draws = [[a - b for a, b in zip(*draws, strict=True)]]
    for draw in draws:
        answer = [x + z for x, z in zip(answer, draw, strict=True)]
    return _kept(plan["mechanism"], answer, case.get("sum_bits", 0))


def _kept(mechanism: dict[str, Any], answer: list[float], sum_bits: int) -> list[float]:
    """Values out of range are replaced by the centre of the grid; Pólya shares are reduced instead."""
    if mechanism["kind"] not in ("local-lattice", "summed-shares"):
        return answer
    if mechanism["noise"] == "polya":
        return [(int(x) + 2 ** (sum_bits - 1)) % 2**sum_bits - 2 ** (sum_bits - 1) for x in answer]
    levels, scale, numbers = mechanism["levels"], mechanism["scale"], len(answer)
    ball = mechanism["shape"] == "ball"
    largest = mechanism.get("largest_share") or next(
        n
        for n in range(1, 1000)
        if 2 * numbers * math.exp(-(((n + 1) / scale) ** 2) / 2) + ball * math.exp(-((n / scale) ** 2) / 2)
        <= 1e-12
    )
    inside = all(-largest <= x <= levels + largest for x in answer)
    if ball:
        far = (levels + 2 * math.sqrt(numbers)) / 2 + scale * math.sqrt(numbers) + largest
        inside = inside and math.dist(answer, [levels / 2] * numbers) <= far
    return answer if inside else [levels // 2] * numbers


def _packed(plan: dict[str, Any], answer: list[float]) -> bytes:
    mechanism = plan["mechanism"]
    if mechanism["kind"] == "none":
        return struct.pack(f"<{len(answer)}d", *answer)
    if mechanism["kind"] != "shuffled-bits":
        return struct.pack(f"<{len(answer)}q", *answer)
    width = mechanism["levels"] + mechanism["noise_bits"]
    bits = "".join("1" * int(ones) + "0" * (width - int(ones)) for ones in answer)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: case["name"])
def test_reports_are_what_the_page_says(case: dict[str, Any]) -> None:
    plan, plaintext = json.loads(case["plan"]), bytes.fromhex(case["plaintext"])
    assert hashlib.sha256(case["plan"].encode()).hexdigest() == case["plan_digest"]
    assert _packed(plan, _answer(plan, case)) == plaintext
    assert case["body_bytes"] == len(plaintext) + 32 + 16
    known = decode(case["plan"], Plan)
    assert known.digest == case["plan_digest"]
    message = known.asked_mechanism.message
    assert message.pack(message.unpack([plaintext])[0]) == plaintext


@pytest.mark.parametrize(
    "case", [case for case in REPORTS if "random" in case], ids=lambda case: case["name"]
)
def test_shares_are_what_the_page_says(case: dict[str, Any]) -> None:
    plan, modulus = json.loads(case["plan"]), 2 ** case["sum_bits"]
    answer = [int(x) % modulus for x in _answer(plan, case)]
    assert answer == case["sums"]
    assert case["sum_bits"] == decode(case["plan"], Plan).mechanism.sum_bits  # type: ignore[union-attr]
    if plan["mechanism"]["kind"] == "shuffled-bits":
        assert case["sum_bits"] == (6 * (14 + 25)).bit_length()
    elif plan["mechanism"]["noise"] != "polya":
        assert case["sum_bits"] == (6 * (16 + 2 * 33) + 1).bit_length()
    random = struct.unpack(f"<{len(answer)}Q", bytes.fromhex(case["random"]))
    one = [value % modulus for value in random]
    other = [(x - y) % modulus for x, y in zip(answer, one, strict=True)]
    assert struct.pack(f"<{len(answer)}q", *one).hex() == case["share_shuffler"]
    assert struct.pack(f"<{len(answer)}q", *other).hex() == case["share_coordinator"]
    lines = ("dpbandits v1", "share-coordinator", plan["study"], "2", "13", case["plan_digest"])
    share, key = bytes.fromhex(case["share_coordinator"]), hashlib.sha256(case["token"].encode()).digest()
    info = "\n".join((*lines, hashlib.sha256(case["ticket"].encode()).hexdigest())).encode()
    tag = hmac.new(key, info + b"\n" + share, hashlib.sha256).digest()
    assert (share + tag).hex() == case["bound_share_coordinator"]
    assert case["split_body_bytes"] == 2 * (8 * len(answer) + 48) + 32
    known = decode(case["plan"], Plan)
    for name, residues in (("share_shuffler", one), ("share_coordinator", other)):
        assert share_message(known).unpack([bytes.fromhex(case[name])]).tolist() == [residues]
