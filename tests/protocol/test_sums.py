"""Sums of reports replace the shuffled batch: the release is the same, bit for bit."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from dpbandits.errors import InvalidValue, PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import Message, PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Plan,
    Report,
    Sums,
    _sums as sums_module,
    add_up,
    analyze,
    ask,
    combine,
    nothing,
    respond_with_averages,
    share_message,
    shuffle,
    summable,
)

from .helpers import small_study

NOISES = [
    ("central", None),
    ("central", "k-norm"),
    ("local", "discrete-gaussian"),
    ("shuffle", None),
    ("shuffle", "skellam"),
    ("shuffle", "polya"),
]


def _plan(trust: str, noise: str | None = None) -> Plan:
    delta = 0 if noise in ("k-norm", "polya") else 1e-3
    request = PrivacyRequest(trust=trust, epsilon=2, delta=delta, noise=noise)
    return ask(small_study(trust, privacy=request).begin())


def _noise(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def _reports(plan: Plan) -> list[Report]:
    rows = np.random.default_rng(1).uniform(-1.5, 1.5, size=(plan.cohort, len(plan.support)))
    return [respond_with_averages(plan, row.tolist(), _noise(i)) for i, row in enumerate(rows)]


def _payloads(plan: Plan) -> list[bytes]:
    return [report.payload for report in _reports(plan)]


@pytest.mark.parametrize(("trust", "noise"), NOISES)
def test_the_batch_of_sums_is_released_as_the_shuffled_one(trust: str, noise: str | None) -> None:
    plan = _plan(trust, noise)
    reports = _reports(plan)
    one_by_one = nothing(plan)
    for report in reversed(reports):
        one_by_one = add_up(plan, one_by_one, [report.payload])
    exchanged = analyze(plan, shuffle(plan, reports, _noise()), _noise(9))
    assert analyze(plan, one_by_one, _noise(9)) == exchanged
    assert add_up(plan, nothing(plan), _payloads(plan)) == one_by_one


@pytest.mark.parametrize(("trust", "noise"), NOISES)
def test_shares_modulo_the_power_of_two_give_the_same_sums(trust: str, noise: str | None) -> None:
    plan = _plan(trust, noise)
    assert plan.mechanism is not None
    sums = add_up(plan, nothing(plan), _payloads(plan))
    modulus = 1 << plan.mechanism.sum_bits
    masks = [int(x) for x in np.random.default_rng(2).integers(0, modulus - 1, len(plan.support))]
    mine = replace(sums, sums=tuple(masks))
    theirs = replace(
        sums, sums=tuple((total - mask) % modulus for total, mask in zip(sums.sums, masks, strict=True))
    )
    assert combine(plan, mine, theirs) == sums
    message = share_message(plan)
    packed = [message.pack(np.array(half.sums)) for half in (mine, theirs)]
    assert add_up(plan, nothing(plan), packed, shares=True) == replace(sums, reports=2)
    for low, high in ((-1, 0), (0, modulus)) if modulus < 2**63 else ((-1, 0),):
        false = message.pack(np.array([low, *([high] * (len(plan.support) - 1))]))
        with pytest.raises(InvalidValue, match="payload: got entries out of range"):
            add_up(plan, nothing(plan), [*packed, false], shares=True)


def test_blocks_of_reports_give_the_sums_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan("shuffle")
    payloads = 3 * _payloads(plan)
    whole = add_up(plan, nothing(plan), payloads)
    monkeypatch.setattr(sums_module, "_AT_ONCE", 2 * plan.asked_mechanism.message.entries)
    assert add_up(plan, nothing(plan), iter(payloads)) == whole
    assert whole.reports == len(payloads) > 2


def test_what_the_mechanism_cannot_have_made_is_refused() -> None:
    for trust in ("none", "central", "local", "shuffle"):
        plan = _plan(trust)
        good = _reports(plan)
        message = plan.asked_mechanism.message
        assert message.unpack([good[0].payload]).shape == (1, *message.shape)
        for payload in _spoilt(good[0].payload, message):
            with pytest.raises(InvalidValue, match="payload"):
                shuffle(plan, [*good[1:], replace(good[0], payload=payload)], _noise())
            if summable(plan):
                with pytest.raises(InvalidValue, match="payload"):
                    add_up(plan, nothing(plan), [good[1].payload, payload])
        with pytest.raises(PlanMismatch):
            shuffle(plan, [*good[1:], replace(good[0], plan="x")], _noise())


def _spoilt(good: bytes, message: Message) -> list[bytes]:
    spoilt = [b"", good[1:], good + b"\0"]
    if message.kind == "integers":
        spoilt += [struct.pack("<q", end) + good[8:] for end in (2**63 - 1, -(2**63))]
    if message.kind == "numbers":
        spoilt += [struct.pack("<d", end) + good[8:] for end in (1.001, math.nan, math.inf, -math.inf)]
    return spoilt


def test_sums_that_do_not_fit_are_refused() -> None:
    plan, plain = _plan("shuffle"), _plan("none")
    sums = add_up(plan, nothing(plan), _payloads(plan))
    with pytest.raises(TooFewReports):
        analyze(plan, replace(sums, reports=1), _noise())
    with pytest.raises(ProtocolError, match=f"over at most {plan.cohort}"):
        analyze(plan, replace(sums, reports=plan.cohort + 1), _noise())
    with pytest.raises(PlanMismatch):
        analyze(plan, replace(sums, plan="x"), _noise())
    with pytest.raises(ProtocolError, match="expected the same reports"):
        combine(plan, sums, nothing(plan))
    with pytest.raises(InvalidValue, match="sums"):
        Sums(plan="x", sums=(1 << 63,), reports=1)
    assert summable(plan)
    assert not summable(plain)
    with pytest.raises(ProtocolError, match="cannot be added up"):
        add_up(plain, nothing(plain), _payloads(plain))
