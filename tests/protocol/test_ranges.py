"""Every number in a plan has a range, no hostile plan crashes its reader, and no data crashes a client.

A client need not trust the party that sends a plan, so decoding a bad plan may only raise a `DpbanditsError`.
Whether a client reports must not depend on its data, so `respond` raises for no reward value.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits.errors import DpbanditsError, InvalidValue
from dpbandits.privacy import MECHANISMS, Mechanism, PrivacyRequest, SimulatedNoise, calibrate
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.protocol import (
    Batch,
    Plan,
    Release,
    Report,
    decode,
    encode,
    respond,
    respond_with_averages,
    shuffle,
)
from dpbandits.protocol._messages import LARGEST_ACTION, MOST_PLAYS
from tests.privacy.noises import NOISES

LARGEST, SMALLEST = 2.0**60, 2.0**-60
COHORT = 6
EXTREME_FLOATS = [0.0, -0.0, 5e-324, 1e-310, 1e-200, SMALLEST, 1e-3, 0.5, 1.0, 1e9, LARGEST, 1.7e308,
                  math.inf, -math.inf, math.nan, -1.0, -1.7e308]  # fmt: skip
EXTREME_INTS = [-(2**63), -1, 0, 1, 2, 3, 2**11, 2**11 + 1, 2**20, 2**40, 2**62, 2**64, 10**400]
ODD = [True, None, "x", "nan", [], {}, [1], "polya", "ball", "skellam"]
ANYTHING = st.sampled_from(EXTREME_FLOATS + EXTREME_INTS + ODD)


def _mechanisms() -> list[Any]:
    made = list[Any]()
    for trust, noises in NOISES.items():
        for noise in noises or (None,):
            delta = 0.0 if noise in ("k-norm", "ball-norm", "polya", "list") else 1e-3
            request = PrivacyRequest(trust=trust, noise=noise, epsilon=2.0, delta=delta)
            shapes = ("box", "ball") if noise in ("discrete-gaussian", "list", "ball-norm") else ("box",)
            made += [
                calibrate(request, coordinates=2, cohort=COHORT, bound=1.0, shape=shape) for shape in shapes
            ]
    return made


MADE = _mechanisms()


def _plan(mechanism: Mechanism, **changes: Any) -> Plan:
    given: dict[str, Any] = {
        "study": "s",
        "phase": 1,
        "support": (0, 3),
        "plays": (2, 1),
        "rank": 2,
        "mechanism": mechanism,
        "offsets": (0.5, -0.25),
        "mixing": ((1.0, 0.5), (-2.0, 1.0)),
    }
    return Plan(**(given | changes))


# Ranges


@pytest.mark.parametrize("mechanism", MADE, ids=lambda m: f"{m.kind}-{m.noise_name}-{m.shape}")
@pytest.mark.parametrize("bound", [1.7e308, 1e-310, 1e-200, 0.0, -1.0, math.nan, math.inf, 2.0**61, 2.0**-61])
def test_bounds_outside_the_range_are_refused(mechanism: Any, bound: float) -> None:
    changes = {"bound": bound} | ({"reach": bound} if hasattr(mechanism, "reach") else {})
    with pytest.raises(InvalidValue, match="bound"):
        replace(mechanism, **changes)


@pytest.mark.parametrize("mechanism", MADE, ids=lambda m: f"{m.kind}-{m.noise_name}-{m.shape}")
def test_the_ends_of_the_range_are_accepted_and_others_refused(mechanism: Any) -> None:
    reach = hasattr(mechanism, "reach")
    for bound in (LARGEST, SMALLEST):
        assert replace(mechanism, **({"bound": bound} | ({"reach": bound} if reach else {}))).bound == bound
    for name, value in (
        ("coordinates", 2**11 + 1),
        ("cohort", 2**40 + 1),
        ("coordinates", 0),
        ("cohort", 2.0),
    ):
        with pytest.raises(InvalidValue, match=name):
            replace(mechanism, **{name: value})
    for value in (math.nan, math.inf, 2.0**41, 2.0**-11):
        if isinstance(mechanism, NoisyLattice):
            with pytest.raises(InvalidValue, match="scale"):
                replace(mechanism, scale=value)
    if reach:
        with pytest.raises(InvalidValue, match="noise_bits"):
            replace(mechanism, noise_bits=2**40 + 1)
        with pytest.raises(InvalidValue, match="largest_sum"):
            replace(mechanism, noise_bits=2**40, cohort=2**39)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"offsets": (math.nan, 0.0)}, "offsets"),
        ({"offsets": (0.0, math.inf)}, "offsets"),
        ({"offsets": (0.0, 2.0**61)}, "offsets"),
        ({"offsets": (0.0, "x")}, "offsets"),
        ({"mixing": ((1.0, 0.0), (0.0, math.nan))}, "mixing"),
        ({"mixing": ((-1.7e308, 0.0), (0.0, 1.0))}, "mixing"),
        ({"plays": (1, MOST_PLAYS + 1)}, "plays"),
        ({"plays": (MOST_PLAYS, MOST_PLAYS)}, "rounds"),
        ({"plays": (0, 1)}, "plays"),
        ({"support": (0, -1)}, "support"),
        ({"support": (0, LARGEST_ACTION + 1)}, "support"),
        ({"rank": 2**20 + 1}, "rank"),
        ({"phase": 2**20 + 1}, "phase"),
    ],
)
def test_numbers_of_a_plan_outside_their_ranges_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        _plan(MADE[0], **changes)


@pytest.mark.parametrize("mechanism", [own for own in MADE if own.noise_name in ("laplace", "polya")])
def test_the_least_scale_overflows_nothing(mechanism: Any) -> None:
    found = replace(mechanism, scale=2.0**-10)
    assert found.error_deviation(COHORT) > 0
    radius = found.error_radius(np.eye(2), np.zeros(2), 1e-9, COHORT)
    assert np.isfinite(radius).all()


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_building_a_mechanism_raises_nothing_but_our_errors(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(MADE))
    names = data.draw(st.lists(st.sampled_from([f.name for f in fields(base)]), min_size=1, max_size=3))
    try:
        made = replace(base, **{name: data.draw(ANYTHING) for name in names if name != "kind"})
        _ = made.message, made.sum_bits, made.message_size, made.minimum_reports, made.needs, made.event
        assert made.reach_of_one(1).mean > 0
        assert made.error_deviation(1) >= 0
    except DpbanditsError:
        return


@settings(max_examples=800, deadline=None)
@given(st.data())
def test_decoding_a_hostile_plan_raises_nothing_but_our_errors(data: st.DataObject) -> None:
    plan = json.loads(encode(_plan(data.draw(st.sampled_from(MADE)))))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([plan, plan["mechanism"]])) if plan.get("mechanism") else plan
        if isinstance(place, dict) and place:
            name = data.draw(st.sampled_from(sorted(place)))
            nested = data.draw(st.sampled_from(["plain", "list", "pair"]))
            value = data.draw(ANYTHING)
            place[name] = {"plain": value, "list": [value], "pair": [value, value]}[nested]
    text = json.dumps(plan).replace("NaN", "1e999").replace("Infinity", "1e400")
    try:
        found = decode(text, Plan)
        assert found.digest
        _ = [(own.message, own.sum_bits, own.event) for own in found.mechanisms], found.parts
    except DpbanditsError:
        return


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b'{"study":"\xc3\x28"}',
        b"[" * 100_000,
        b'{"mechanism":' * 50_000,
        b'{"study":"s","phase":1,"support":[0],"plays":[1],"rank":1,"mechanism":{"kind":["x"]}}',
        b'{"study":"s","phase":1,"support":[0],"plays":[1],"rank":1,"mechanism":{"kind":{}}}',
        b'{"study":"s","phase":' + b"9" * 5000 + b"}",
        b"null",
        b"",
    ],
    ids=range(9),
)
@pytest.mark.parametrize("kind", [Plan, Report, Batch, Release])
def test_what_is_no_message_is_refused(text: bytes, kind: Any) -> None:
    with pytest.raises(InvalidValue, match="unreadable JSON"):
        decode(text, kind)


# Data


DATA = st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1.7e308, 5e-324, -1e-310, 0.0, 0.3, -1.0,
                        2.0**60, 10**400, -(10**400), True])  # fmt: skip
PLANS = [
    {},
    {"offsets": (), "mixing": ()},
    {"offsets": (LARGEST, -LARGEST), "mixing": ((LARGEST, LARGEST), (LARGEST, -LARGEST))},
    {"offsets": (0.0, SMALLEST), "mixing": ((SMALLEST, 0.0), (5e-324, LARGEST))},
]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(MADE),
    st.sampled_from([SMALLEST, 1.0, LARGEST]),
    st.sampled_from(PLANS),
    st.lists(DATA, min_size=3, max_size=3),
)
def test_no_data_makes_a_client_raise_or_stay_silent(
    mechanism: Any, bound: float, fields_of_plan: dict[str, Any], data: list[float]
) -> None:
    changes = {"bound": bound} | ({"reach": bound} if hasattr(mechanism, "reach") else {})
    plan = _plan(replace(mechanism, **changes), **fields_of_plan)
    noise = SimulatedNoise(np.random.default_rng(0))
    for report in (
        respond(plan, [data[:2], data[2:]], noise),
        respond_with_averages(plan, data[1:], noise),
    ):
        message = plan.asked_mechanism.message
        assert message.unpack([report.payload]).shape == (1, *message.shape)


def test_nan_counts_as_zero_and_the_rest_is_forced_into_the_range() -> None:
    plan = _plan(MADE[0], offsets=(), mixing=())
    noise = SimulatedNoise(np.random.default_rng(0))
    assert _numbers(respond(plan, [[math.nan, 0.5], [math.inf]], noise)) == (0.25, 1.0)
    assert _numbers(respond_with_averages(plan, [math.nan, -math.inf], noise)) == (0.0, -1.0)
    mixed = replace(plan, mixing=((2.0**-60, 0.0), (0.0, 2.0**-61)))
    assert _numbers(respond_with_averages(mixed, [math.inf, -(10**400)], noise)) == (1.0, -0.5)


def _numbers(report: Report) -> tuple[float, ...]:
    return struct.unpack("<2d", report.payload)


# Reports that the third party accepts


def test_the_third_party_refuses_what_no_honest_client_sends() -> None:
    """A report of whole numbers must lie near the clipping grid; other residues are refused."""
    request = PrivacyRequest(trust="shuffle", noise="discrete-gaussian", epsilon=1, delta=1e-6)
    for shape in ("box", "ball"):
        plan = _plan(calibrate(request, coordinates=2, cohort=COHORT, bound=1.0, shape=shape))
        noise = SimulatedNoise(np.random.default_rng(0))
        reports = [respond_with_averages(plan, (0.1, 0.2), noise) for _ in range(COHORT)]
        shuffle(plan, reports, noise)
        mechanism: Any = plan.mechanism
        for lie in (1 << mechanism.modulus_bits - 1, mechanism.message.high + 1, mechanism.message.low - 1):
            false = replace(reports[0], payload=struct.pack("<2q", int(lie), 0))
            with pytest.raises(InvalidValue, match="payload"):
                shuffle(plan, [false, *reports[1:]], noise)


def test_every_registered_mechanism_is_tried_here() -> None:
    tried = {own.kind for own in MADE}
    assert set(MECHANISMS) <= tried | {"one-bit", "local-band"}  # a band has one number, plans here two
    assert all(field.default is not MISSING for own in MADE for field in fields(own) if field.name == "kind")
