"""The test vectors of docs/protocol.md hold for the library, and for independent code."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from jsonschema import Draft202012Validator

from dpbandits.errors import Refused
from dpbandits.privacy import MECHANISMS
from dpbandits.protocol import Plan, decode, share_message
from dpbandits.service.client import ClientCore, Consent
from dpbandits.service.client._client import Agreed
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import RoleTokens
from dpbandits.service.wire import (
    KeyPair,
    Place,
    PublicKey,
    ReportSlot,
    SignedTerms,
    TaskReply,
    unbound_share,
)
from dpbandits.vdaf import sum_vec_in_ball, sum_vec_with_multiproof

from . import own_hpke
from .helpers import Deployment, small_study
from .live import served
from .make_vectors import VECTORS, made

BUILT_IN = (
    "none", "central-lattice", "local-lattice", "local-list", "local-band", "shuffled-bits", "summed-shares",
    "server-noise",
)  # fmt: skip


def _vectors(name: str) -> list[dict[str, Any]]:
    return list(json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8")))


REPORTS, SEALED, SECRETS = _vectors("reports"), _vectors("sealing"), _vectors("secrets")
PLANS, EXCHANGES, PROOFS = _vectors("plans"), _vectors("exchanges"), _vectors("proofs")


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


def _tamed(average: float) -> float:
    return 0.0 if math.isnan(average) else min(max(average, -(2.0**60)), 2.0**60)


MASK, GAMMA = 2**64 - 1, 0x9E3779B97F4A7C15


def _mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def _direction(seed: int, index: int, numbers: int) -> list[float]:
    half, found = -(-numbers // 2), list[float]()
    words = [
        _mix(_mix(seed + GAMMA & MASK) + (2 * half * index + i + 1) * GAMMA & MASK) for i in range(2 * half)
    ]
    for a, b in zip(words[::2], words[1::2], strict=True):
        r, angle = math.sqrt(-2 * math.log(((a >> 11) + 1) / 2**53)), 2 * math.pi * (b >> 11) / 2**53
        found += [r * math.cos(angle), r * math.sin(angle)]
    return _unit(found[:numbers])


def _unit(vector: list[float]) -> list[float]:
    return [x / math.hypot(*vector) for x in vector]


def _inner(one: list[float], other: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(one, other, strict=True))


def _from_list(mechanism: dict[str, Any], clipped: list[float], case: dict[str, Any]) -> list[float]:
    """Do what the section Lists says. In the vectors p comes from direction 0 of the first given seed."""
    numbers, (aside, seed, drawn) = len(clipped), map(int, case["below"])
    radius = mechanism["bound"] * (1 if mechanism["shape"] == "ball" else math.sqrt(numbers))
    inside = [x / radius for x in clipped]
    length = min(math.hypot(*inside), 1.0)
    toward = _unit(inside) if length > 0 else [1.0] + [0.0] * (numbers - 1)
    sign = 1 if case["uniforms"][0] < 0.5 else -1
    part = length + sign * math.sqrt(max(0.0, 1 / numbers - length**2))
    other = _direction(aside, 0, numbers)
    along = _inner(other, toward)
    across = _unit([x - along * w for x, w in zip(other, toward, strict=True)])
    own = [part * w + math.sqrt(1 - part**2) * x for w, x in zip(toward, across, strict=True)]
    size, near, top = mechanism["size"], mechanism["near"], mechanism["top_weight"]
    ranked = sorted(range(size), key=lambda j: (-_inner(_direction(seed, j, numbers), own), j))
    beyond = drawn - near * top
    place = drawn // top if beyond < 0 else near + beyond // mechanism["other_weight"]
    return [seed * size + ranked[place]]


def _from_band(mechanism: dict[str, Any], start: float, drawn: int) -> list[float]:
    inside = mechanism["width"] * mechanism["top_weight"]
    if drawn < inside:
        return [start + drawn // mechanism["top_weight"]]
    outside = (drawn - inside) // mechanism["other_weight"]
    return [outside if outside < start else outside + mechanism["width"]]


def _encoded(plan: dict[str, Any], case: dict[str, Any]) -> list[float]:
    """Compute in plain Python what docs/protocol.md says a client computes before the noise."""
    averages, mechanism = [_tamed(float(one)) for one in case["averages"]], plan["mechanism"]
    rows = plan["mixing"]
    mixed = [sum(a * b for a, b in zip(row, averages, strict=True)) for row in rows] or averages
    offsets = plan["offsets"] or [0.0] * len(mixed)
    mixed = [x - c for x, c in zip(mixed, offsets, strict=True)]
    bound = mechanism["bound"]
    if mechanism.get("shape", "box") == "ball":
        clipped = [x * bound / max(bound, math.hypot(*mixed)) for x in mixed]
    else:
        clipped = [min(max(x, -bound), bound) for x in mixed]
    if mechanism["kind"] in ("none", "local-list"):
        return clipped
    reach, levels = mechanism.get("reach", bound), mechanism["levels"]
    places = [min(max((x + reach) * levels / (2 * reach), 0.0), levels) for x in clipped]
    floors = [min(math.floor(place), levels - 1) for place in places]
    heads = [u < p - f for u, p, f in zip(case["uniforms"], places, floors, strict=True)]
    return [floor + head for floor, head in zip(floors, heads, strict=True)]


def _answer(plan: dict[str, Any], case: dict[str, Any]) -> list[float]:
    answer, draws = _encoded(plan, case), case["draws"]
    if plan["mechanism"]["kind"] == "local-list":
        return _from_list(plan["mechanism"], answer, case)
    if plan["mechanism"]["kind"] == "local-band":
        return _from_band(plan["mechanism"], answer[0], int(case["below"][0]))
    if len(draws) == 2:  # Skellam: the difference of two Poisson variables
        draws = [[a - b for a, b in zip(*draws, strict=True)]]
    for draw in draws:
        answer = [x + z for x, z in zip(answer, draw, strict=True)]
    return _kept(plan["mechanism"], answer, case.get("sum_bits", 0))


def _gaussian_chance(n: int, scale: float, numbers: int, ball: bool) -> float:
    longer = math.exp(-((n / scale) ** 2) / 2) if ball else 0.0
    return 2 * numbers * math.exp(-(((n + 1) / scale) ** 2) / 2) + longer


def _laplace_chance(n: int, scale: float, numbers: int, _ball: bool) -> float:
    return 2 * numbers * math.exp(-(n + 1) / scale)


def _k_norm_chance(n: int, scale: float, numbers: int, _ball: bool) -> float:
    """P(numbers + N > n): at most `numbers` of n + 1 trials succeed, each with chance 1 − e^(−1/scale)."""
    success, trials = -math.expm1(-1 / scale), n + 1
    return sum(math.comb(trials, k) * success**k * (1 - success) ** (trials - k) for k in range(numbers + 1))


def _kept(mechanism: dict[str, Any], answer: list[float], sum_bits: int) -> list[float]:
    """Values out of range are replaced by the centre of the grid; Pólya shares are reduced instead."""
    if mechanism["kind"] not in ("local-lattice", "summed-shares"):
        return answer
    if mechanism["noise"] == "polya" and mechanism["largest_share"] is None:
        return [(int(x) + 2 ** (sum_bits - 1)) % 2**sum_bits - 2 ** (sum_bits - 1) for x in answer]
    levels, scale, numbers = mechanism["levels"], mechanism["scale"], len(answer)
    ball = mechanism["shape"] == "ball"
    chance = {"discrete-gaussian": _gaussian_chance, "laplace": _laplace_chance, "k-norm": _k_norm_chance}
    largest = mechanism.get("largest_share") or next(
        n for n in range(1, 1000) if chance[mechanism["noise"]](n, scale, numbers, ball) <= 1e-12
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
        assert case["sum_bits"] == (6 * (plan["mechanism"]["levels"] + 25)).bit_length()
    elif plan["mechanism"]["kind"] == "server-noise":
        most = math.ceil(2 * plan["mechanism"]["scale"] * math.sqrt(math.log(2 * len(answer) * 1e12)))
        assert case["sum_bits"] == (6 * plan["mechanism"]["levels"] + 2 * most + 1).bit_length()
    elif plan["mechanism"]["largest_share"] is not None:
        most = plan["mechanism"]["levels"] + 2 * plan["mechanism"]["largest_share"]
        assert case["sum_bits"] == (plan["mechanism"]["cohort"] * most + 1).bit_length()
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


@pytest.mark.parametrize("case", PROOFS, ids=lambda case: case["name"])
def test_proved_parts_are_what_the_page_says(case: dict[str, Any]) -> None:
    """With Prio3 as tests/vdaf checks it, and a verification key from the standard library's HMAC."""
    plan = json.loads(case["plan"])
    lines = ("dpbandits v1", "verified-sums", plan["study"], "2", "13", case["plan_digest"])
    context, low, numbers = "\n".join(lines).encode(), case["low"], len(case["sums"])
    largest = case["high"] - low
    mechanism = plan["mechanism"]
    most = mechanism.get("largest_share", 0)
    assert (low, case["high"]) == (-most, mechanism["levels"] + most + mechanism.get("noise_bits", 0))
    parameters = {"numbers": numbers, "largest": largest, "context": context, "chunk": case["chunk"]}
    if mechanism.get("shape") == "ball":
        root = math.sqrt(numbers)
        rounded = (mechanism["levels"] + 2 * root) * (1 + 2**-30)
        square = math.floor((rounded + 2 * (root * mechanism["scale"] + most)) ** 2)
        assert case["largest_square"] == square
        prio3 = sum_vec_in_ball(**parameters, twice_centre=largest, largest_square=square)
    else:
        assert case["largest_square"] is None
        prio3 = sum_vec_with_multiproof(**parameters)
    nonce, rand = bytes.fromhex(case["nonce"]), bytes.fromhex(case["rand"])
    public, shares = prio3.shard([one - low for one in case["sums"]], nonce, rand)
    parts = [nonce + public + share for share in shares]
    assert [part.hex() for part in parts] == [case["part_shuffler"], case["part_coordinator"]]
    assert case["verified_body_bytes"] == sum(map(len, parts)) + 48 + 32 + 48
    keys = {name: X25519PrivateKey.from_private_bytes(bytes.fromhex(key)) for name, key in _keys_of(case)}
    secret = keys["coordinator"].exchange(keys["shuffler"].public_key())
    info = "\n".join((lines[0], "verification-key", *lines[2:])).encode()
    extracted = hmac.digest(bytes(32), secret, "sha256")
    assert hmac.digest(extracted, info + b"\1", "sha256").hex() == case["verification_key"]
    key = bytes.fromhex(case["verification_key"])
    ready, verifiers = zip(
        *(prio3.prepare_batch(key, at, [nonce], [public], [shares[at]]) for at in (0, 1)), strict=True
    )
    messages = prio3.combine_batch(*verifiers)
    assert case["verifier"] == (verifiers[0][0] + messages[0]).hex()
    found = [prio3.aggregate(prio3.finish_batch(one, messages)) for one in ready]
    assert [share.hex() for share in found] == [case["share_shuffler"], case["share_coordinator"]]
    assert [one + low for one in prio3.unshard(found, 1)] == case["sums"]


def _keys_of(case: dict[str, Any]) -> list[tuple[str, str]]:
    return list(case["private_keys"].items())


def test_the_vectors_cover_every_kind_of_mechanism_and_noise() -> None:
    mechanisms = [json.loads(case["plan"])["mechanism"] for case in REPORTS]
    kinds = {kind for kind, made in MECHANISMS.items() if not made.simulated_only and kind in BUILT_IN}
    assert {one["kind"] for one in mechanisms} == kinds == set(BUILT_IN)
    laws = {"discrete-gaussian", "laplace", "k-norm", "ball-norm", "skellam", "polya", "server-gaussian"}
    assert {one["noise"] for one in mechanisms if "noise" in one} == laws
    assert {33, *range(54, 63)} <= {case.get("sum_bits") for case in REPORTS}


@pytest.mark.parametrize("case", PLANS, ids=lambda case: case["name"])
def test_a_client_accepts_and_refuses_the_plans_of_the_vectors(case: dict[str, Any]) -> None:
    signed = SignedTerms(terms=case["terms"])
    consent = Consent(trusts=("local", "shuffle"), epsilon=1.0, delta=1e-6)
    core = ClientCore(url="https://nowhere", consent=consent)
    task = TaskReply(
        study=signed.digest,
        state="joined",
        poll_seconds=1.0,
        phase=case["phase"],
        attempt=1,
        plan_digest=case["plan_digest"],
        plan=case["plan"],
    )
    agreed = Agreed(terms=signed.opened(), signed=signed)
    if case["accept"]:
        assert core._checked(task, case["plan"], agreed).digest == case["plan_digest"]
    else:
        with pytest.raises(Refused):
            core._checked(task, case["plan"], agreed)


def _schema() -> Draft202012Validator:
    """Return the validator of a plan from the OpenAPI document of a coordinator."""
    deployed = Deployment(study=small_study("local"), mode=None)
    with served(coordinator_app(deployed.coordinator, RoleTokens())) as url:
        document = httpx.get(f"{url}/openapi.json").json()
    # The document refers to its own components, so the schema keeps them in the same place.
    return Draft202012Validator({**document, "$ref": "#/components/schemas/Plan"})


def test_the_schema_of_a_plan_accepts_every_plan_and_refuses_every_wrong_shape() -> None:
    validator = _schema()
    for case in REPORTS:
        assert validator.is_valid(json.loads(case["plan"])), case["name"]
    for case in PLANS:
        plan = json.loads(case["plan"], parse_constant=str)  # NaN is no JSON
        assert validator.is_valid(plan) is not case["schema_refuses"], case["name"]
    assert sum(case["schema_refuses"] for case in PLANS) >= 10


def test_the_schema_of_terms_accepts_the_terms_of_the_vectors() -> None:
    schema = _schema().schema
    validator = Draft202012Validator({**schema, "$ref": "#/components/schemas/Terms"})
    for case in PLANS:
        terms = json.loads(case["terms"])
        assert validator.is_valid(terms)
        assert not validator.is_valid({**terms, "trust": "magic"})
        assert not validator.is_valid({**terms, "more": 1})


@pytest.mark.parametrize("case", EXCHANGES, ids=lambda case: case["name"])
def test_the_report_of_an_exchange_is_accepted(case: dict[str, Any]) -> None:
    *before, last = case["steps"]
    signed, task = SignedTerms(terms=before[0]["reply"]["terms"]), before[2]["reply"]
    assert before[0]["reply"]["study"] == signed.digest == task["study"]
    plan, mode = decode(task["plan"], Plan), signed.opened().mode
    assert hashlib.sha256(task["plan"].encode()).hexdigest() == task["plan_digest"] == plan.digest
    place = Place.of(signed.digest, plan, 13, hashlib.sha256(case["ticket"].encode()).hexdigest())
    slot = ReportSlot(plan=plan, place=place, mode=mode)
    report = slot.received(bytes.fromhex(last["body_hex"]))
    keys = {name: bytes.fromhex(key) for name, key in case["private_keys"].items()}
    mine = own_hpke.open_sealed(keys[last["to"]], place.info(slot.purpose), report.sealed)
    slot.check(mine)
    if mode == "split":
        theirs = own_hpke.open_sealed(keys["coordinator"], place.info("share-coordinator"), report.relayed)
        share = unbound_share(theirs, place, hashlib.sha256(case["token"].encode()).hexdigest())
        modulus = 2 ** task["sum_bits"]
        shares = (struct.unpack(f"<{plan.numbers}q", one) for one in (mine, share))
        total = [sum(pair) % modulus for pair in zip(*shares, strict=True)]
        assert total == [int(x) % modulus for x in _answer(json.loads(task["plan"]), case)]
    else:
        given = case | {"sum_bits": task["sum_bits"]}
        assert mine == _packed(json.loads(task["plan"]), _answer(json.loads(task["plan"]), given))
