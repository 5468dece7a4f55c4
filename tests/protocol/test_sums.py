"""Adding answers up stands for S: the release is the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbandits.errors import InvalidValue, PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Payload,
    Plan,
    Report,
    Sums,
    add_shares,
    add_up,
    analyze,
    ask,
    batch_of,
    checked_payload,
    combine,
    nothing,
    one_report,
    respond_with_averages,
    shuffle,
    summable,
)

from .helpers import small_study

NOISES = [
    ("central", None),
    ("central", "k-norm"),
    ("local", None),
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


@pytest.mark.parametrize(("trust", "noise"), NOISES)
def test_the_batch_of_sums_is_released_as_the_shuffled_one(trust: str, noise: str | None) -> None:
    plan = _plan(trust, noise)
    reports = _reports(plan)
    one_by_one = nothing(plan)
    for report in reversed(reports):
        one_by_one = add_up(plan, one_by_one, [report])
    exchanged = analyze(plan, shuffle(plan, reports, _noise()), _noise(9))
    assert analyze(plan, batch_of(plan, one_by_one), _noise(9)) == exchanged


@pytest.mark.parametrize(("trust", "noise"), NOISES)
def test_shares_modulo_the_power_of_two_give_the_same_sums(trust: str, noise: str | None) -> None:
    plan = _plan(trust, noise)
    assert plan.mechanism is not None
    sums = add_up(plan, nothing(plan), _reports(plan))
    modulus = 1 << plan.mechanism.sum_bits
    masks = [int(x) for x in np.random.default_rng(2).integers(0, modulus - 1, len(plan.support))]
    mine = replace(sums, sums=tuple(masks))
    theirs = replace(
        sums, sums=tuple((total - mask) % modulus for total, mask in zip(sums.sums, masks, strict=True))
    )
    assert combine(plan, mine, theirs) == sums
    halves = add_shares(plan, nothing(plan), [replace(mine, reports=1), replace(theirs, reports=2)])
    assert halves == replace(sums, reports=3)


def test_what_the_mechanism_cannot_have_made_is_refused() -> None:
    for trust in ("none", "central", "local", "shuffle"):
        plan = _plan(trust)
        good = _reports(plan)[0]
        assert checked_payload(plan, good).shape == good.payload.shape
        for payload in _spoilt(good.payload):
            with pytest.raises(InvalidValue, match="payload"):
                checked_payload(plan, replace(good, payload=payload))
        with pytest.raises(PlanMismatch):
            checked_payload(plan, replace(good, plan="x"))


def _spoilt(good: Payload) -> list[Payload]:
    spoilt = [
        Payload(shape=(0, 10**30)),
        Payload(shape=good.shape),
        replace(good, shape=(*good.shape, 1)),
        replace(good, bits=good.bits[1:] + b"\0\0") if good.bits else replace(good, bits=b"\1"),
    ]
    if good.integers:
        spoilt += [replace(good, integers=(10**40, *good.integers[1:])), replace(good, integers=(1,))]
    if good.numbers:
        spoilt += [
            replace(good, numbers=(value, *good.numbers[1:])) for value in (1.001, float("nan"), float("inf"))
        ]
    return spoilt


def test_sums_that_do_not_fit_are_refused() -> None:
    plan, plain = _plan("shuffle"), _plan("none")
    sums = add_up(plan, nothing(plan), _reports(plan))
    with pytest.raises(TooFewReports):
        batch_of(plan, replace(sums, reports=1))
    with pytest.raises(ProtocolError, match="cohort"):
        batch_of(plan, replace(sums, reports=plan.cohort + 1))
    with pytest.raises(PlanMismatch):
        batch_of(plan, replace(sums, plan="x"))
    with pytest.raises(ProtocolError, match="expected equal sets"):
        combine(plan, sums, nothing(plan))
    with pytest.raises(InvalidValue, match="sums"):
        Sums(plan="x", sums=(1 << 63,), reports=1)
    assert summable(plan)
    assert not summable(plain)
    with pytest.raises(ProtocolError, match="floating point"):
        one_report(plain, _reports(plain)[0])
