"""Messages survive JSON, and each party refuses those that do not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpbandits.errors import InvalidValue, PlanMismatch, ProtocolError, TooFewReports
from dpbandits.privacy import SecureNoise, SimulatedNoise
from dpbandits.protocol import (
    Batch,
    Plan,
    Report,
    Safeguard,
    Study,
    analyze,
    ask,
    decode,
    encode,
    respond,
    respond_with_averages,
    shuffle,
    tell,
)

from .helpers import simulate_release, small_study


def _noise(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


def _plan(trust: str = "none", preset: str = "tight") -> Plan:
    return ask(small_study(trust, preset).begin())


def _reports(plan: Plan) -> list[Report]:
    rng = np.random.default_rng(1)
    rows = rng.uniform(-0.9, 0.9, size=(plan.cohort, len(plan.support)))
    return [respond_with_averages(plan, row.tolist(), _noise(i)) for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("trust", "preset"),
    [("none", "tight"), ("central", "tight"), ("central", "paper"), ("local", "tight"), ("shuffle", "tight")],
)
def test_every_message_survives_json_bit_for_bit(trust: str, preset: str) -> None:
    plan = _plan(trust, preset)
    reports = _reports(plan)
    assert [decode(encode(report), Report) for report in reports] == reports
    batch = shuffle(plan, reports, _noise())
    assert decode(encode(batch), Batch) == batch
    release = analyze(plan, batch, _noise())
    assert decode(encode(release), type(release)) == release
    assert release.simulated
    assert release.reports == plan.cohort
    assert release.plan == plan.digest == decode(encode(plan), Plan).digest


@pytest.mark.parametrize("one", [1, np.int64(1), np.float64(1), np.float32(1)])
def test_a_study_has_the_same_digest_however_its_numbers_are_written(one: float) -> None:
    study = small_study("central")
    numbers = {"bound": one, "heterogeneity": one, "confidence": 0.9, "reward_range": (0 * one, one)}
    safeguard = Safeguard(current=0, margin=one, allowance=one)
    changed = replace(study, **numbers, privacy=replace(study.privacy, epsilon=one), safeguard=safeguard)
    usual = {"bound": 1.0, "heterogeneity": 1.0, "confidence": 0.9, "reward_range": (0.0, 1.0)}
    safeguard = Safeguard(current=0, margin=1.0, allowance=1.0)
    expected = replace(study, **usual, privacy=replace(study.privacy, epsilon=1.0), safeguard=safeguard)
    assert changed.digest == expected.digest == decode(encode(changed), Study, actions=study.actions).digest
    assert changed == expected
    assert replace(study, horizon=np.int64(study.horizon)).digest == study.digest
    assert changed != study


def test_a_client_averages_then_clips() -> None:
    plan = _plan()
    rewards = [[2.0 * (-1) ** j, 4.0 * (-1) ** j][:plays] or [0.0] for j, plays in enumerate(plan.plays)]
    report = respond(plan, [seen[:1] for seen in rewards], _noise())
    expected = [float(np.clip(np.mean(seen[:1]), -1, 1)) for seen in rewards]
    assert plan.asked_mechanism.message.unpack([report.payload])[0].tolist() == expected


def test_the_simulated_release_without_privacy_is_the_exchanged_one() -> None:
    plan = _plan()
    averages = np.random.default_rng(3).normal(size=(plan.cohort, len(plan.support)))
    reports = [respond_with_averages(plan, row.tolist(), _noise()) for row in averages]
    exchanged = analyze(plan, shuffle(plan, reports, _noise()), _noise())
    assert simulate_release(plan, averages, _noise()) == exchanged


def test_what_does_not_fit_is_refused() -> None:
    plan = _plan()
    reports = _reports(plan)
    with pytest.raises(ProtocolError, match="one for each play"):
        respond(plan, [[0.0, 0.0, 0.0]] * len(plan.support), _noise())
    with pytest.raises(ProtocolError, match="one per action"):
        respond_with_averages(plan, [0.0], _noise())
    with pytest.raises(ProtocolError, match="at most the cohort"):
        shuffle(plan, [*reports, reports[0]], _noise())
    shuffled = _plan("shuffle")
    with pytest.raises(TooFewReports, match="nothing is released"):
        shuffle(shuffled, _reports(shuffled)[1:], _noise())
    with pytest.raises(PlanMismatch):
        shuffle(plan, [replace(reports[0], plan="x"), *reports[1:]], _noise())
    with pytest.raises(PlanMismatch):
        analyze(plan, replace(shuffle(plan, reports, _noise()), plan="x"), _noise())
    with pytest.raises(ProtocolError, match="asks no clients"):
        shuffle(replace(plan, mechanism=None), [], _noise())


def test_only_simulated_noise_may_take_the_short_cut() -> None:
    plan = _plan()
    with pytest.raises(ProtocolError, match="expected simulated noise"):
        simulate_release(plan, np.zeros((plan.cohort, len(plan.support))), SecureNoise())


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_a_payload_of_another_length_is_refused(trust: str) -> None:
    plan = _plan(trust)
    reports = _reports(plan)
    batch = shuffle(plan, reports, _noise())
    for change in (lambda data: data[:-1], lambda data: data + b"\0", lambda _data: b""):
        false = replace(reports[0], payload=change(reports[0].payload))
        with pytest.raises(InvalidValue, match="payload: got another length"):
            shuffle(plan, [false, *reports[1:]], _noise())
        with pytest.raises(InvalidValue, match="payload: got another length"):
            analyze(plan, replace(batch, payload=change(batch.payload)), _noise())
    long, short = reports[0].payload + b"\0", reports[1].payload[:-1]
    swapped = [replace(reports[0], payload=long), replace(reports[1], payload=short), *reports[2:]]
    with pytest.raises(InvalidValue, match="payload: got another length"):
        shuffle(plan, swapped, _noise())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"plan": 3}',
        b'{"plan":"x","payload":{"shape":["a"]}}',
        b'{"plan":"x","payload":"?"}',
        b"\xff",
    ],
)
def test_unreadable_messages_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidValue, match="Report: got unreadable JSON"):
        decode(data, Report)


def test_a_plan_with_an_unknown_mechanism_is_refused() -> None:
    data = encode(_plan()).replace(b'"kind":"none"', b'"kind":"magic"')
    with pytest.raises(InvalidValue, match="magic"):
        decode(data, Plan)


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_a_release_with_secure_noise_is_not_stamped_as_simulated(trust: str) -> None:
    plan, noise = _plan(trust), SecureNoise()
    averages = np.zeros((plan.cohort, len(plan.support)))
    reports = [respond_with_averages(plan, row.tolist(), noise) for row in averages]
    assert not analyze(plan, shuffle(plan, reports, noise), noise).simulated


def test_clients_that_drop_out_are_not_in_the_mean() -> None:
    study = small_study("central", "tight", bound=1.0)
    plan = ask(study.begin())
    reports = _reports(plan)[:1]
    release = analyze(plan, shuffle(plan, reports, _noise()), _noise())
    assert release.reports == 1
    assert tell(study.begin(), plan, release).width is not None
    with pytest.raises(PlanMismatch, match="cannot have a release of 9 reports"):
        tell(study.begin(), plan, replace(release, reports=9))
