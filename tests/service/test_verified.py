"""Mode `verified`: reports with a false proof are left out, and the answer is that of the other clients."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from dpbandits.errors import ProtocolError, Refused
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Plan, Release, Schedule, decode, nothing, report_range, respond_with_averages
from dpbandits.service.shuffler._own_noise import noised as own_noised
from dpbandits.service.wire import KeyPair, Place, ProvedReports, hashed, verification_key

from .helpers import Deployment, Member, client_averages, client_noise, released, small_study
from .lying_proofs import HARMLESS, LIES, corner, lying_body, sealed_parts

COHORT = len(LIES) + 8


def collecting(**changes: Any) -> tuple[Deployment, list[Member], Plan]:
    """Return a study whose first cohort is about to report."""
    schedule = Schedule(cohorts=(COHORT, 10), first_length=60, growth=8)
    study = small_study("shuffle", schedule=schedule, **{"share": 0.3, **changes})
    deployed = Deployment(study=study, mode="verified")
    deployed.advance()
    members = deployed.join(COHORT)
    deployed.play()
    return deployed, members, deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))


def lie(deployed: Deployment, plan: Plan, member: Member, kind: str) -> None:
    averages = client_averages(deployed.study.actions, plan, member.pseudonym)
    report = respond_with_averages(plan, averages, client_noise(member.pseudonym))
    place = deployed.context.place(plan, 1, member.pseudonym)
    keys = (deployed.shuffler_keys.public, deployed.keys.public)
    deployed.send(member, lying_body(kind, plan, place, report.payload, keys, hashed(member.token)))


def test_liars_are_left_out_and_the_release_is_that_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The shuffler accepts every report here, since it cannot see that it is false."""
    deployed, members, plan = collecting()
    for kind, member in zip(LIES, members, strict=False):
        lie(deployed, plan, member, kind)
    false = len(LIES) - len(HARMLESS)
    with caplog.at_level(logging.WARNING, logger="dpbandits.service"):
        deployed.report(members[len(LIES) :])
    honest = [member.pseudonym for member in members[len(LIES) :]]
    honest += [member.pseudonym for kind, member in zip(LIES, members, strict=False) if kind in HARMLESS]
    with deployed.store.transaction() as transaction:
        (release,) = (decode(record.body, Release) for record in transaction.releases())
    noise = SimulatedNoise(np.random.default_rng(0))
    assert release.reports == len(honest) == COHORT - false
    assert release.means == released(deployed.study, plan, honest, noise).means
    assert deployed.run(deployed.coordinator.operator.status).excluded == false
    told = [record for record in caplog.records if record.message == "reports-excluded"]
    assert [record.__dict__["count"] for record in told] == [false, false]  # of both parties
    assert {record.module for record in told} == {"_shuffling", "_shuffler"}
    assert not any(
        member.pseudonym in str(record.__dict__) for record in caplog.records for member in members
    )
    deployed.close()


@pytest.mark.parametrize("noise", ["server-gaussian", "discrete-gaussian"])
def test_a_report_outside_the_ball_is_left_out(noise: str) -> None:
    """In the second phase clients clip to a ball. The liar's numbers are in range, but all at its end."""
    privacy = PrivacyRequest(trust="shuffle", epsilon=20, delta=1e-3, minimum_share=0.5, noise=noise)
    schedule = Schedule(cohorts=(12, 20), first_length=60, growth=8)
    study = small_study("shuffle", privacy=privacy, schedule=schedule, horizon=10**7)
    deployed = Deployment(study=study, mode="verified")
    deployed.advance()
    for phase in (1, 2):
        cohort = deployed.run(deployed.coordinator.operator.status).cohort
        members = deployed.join(cohort)
        deployed.play()
        if phase == 2:
            plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 2))
            assert plan.mechanism.message.largest_square is not None
            liar = members.pop()
            place = deployed.context.place(plan, 1, liar.pseudonym)
            keys = (deployed.shuffler_keys.public, deployed.keys.public)
            parts = corner(ProvedReports.of(plan, place))
            deployed.send(liar, sealed_parts(parts, place, keys, hashed(liar.token)))
        deployed.report(members)
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.releases, status.excluded) == (2, 1)
    with deployed.store.transaction() as transaction:
        assert decode(transaction.releases()[1].body, Release).reports == cohort - 1
    deployed.close()


def test_with_too_few_valid_reports_nothing_is_released() -> None:
    deployed, members, plan = collecting(share=1.0)
    lie(deployed, plan, members[0], "far out of range")
    deployed.report(members[1:])
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.releases, status.failed_attempts, status.excluded) == (0, 1, 1)
    deployed.close()


def test_noise_without_a_limit_is_refused_because_no_range_could_be_proved() -> None:
    privacy = PrivacyRequest(trust="shuffle", epsilon=20, delta=0)
    deployed = Deployment(study=small_study("shuffle", privacy=privacy), mode="verified")
    with pytest.raises(Refused, match="polya noise have no range that could be proved"):
        deployed.advance()
    deployed.close()


def test_the_paper_s_bits_are_proved_as_counts() -> None:
    privacy = PrivacyRequest(trust="shuffle", epsilon=20, delta=1e-3, noise="binomial")
    deployed = Deployment(study=small_study("shuffle", privacy=privacy), mode="verified")
    reported = deployed.whole_study()
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    mechanism = plan.asked_mechanism
    assert report_range(plan) == (0, mechanism.width)  # type: ignore[attr-defined]
    with deployed.store.transaction() as transaction:
        release = decode(transaction.releases()[0].body, Release)
    assert release.means == released(deployed.study, plan, reported[1], SimulatedNoise(0)).means
    deployed.close()


@pytest.mark.parametrize("mode", ["split", "verified"])
def test_the_shuffler_adds_its_own_noise_once(mode: str) -> None:
    """The coordinator sees sums with the shuffler's noise. They are the same whenever it asks."""
    privacy = PrivacyRequest(trust="shuffle", epsilon=20, delta=1e-3, noise="server-gaussian")
    deployed = Deployment(study=small_study("shuffle", privacy=privacy), mode=mode)
    reported = deployed.whole_study()[1]
    assert deployed.link is not None
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    reply = deployed.link.sums(1, 1, [])
    assert (reply.state, reply.reports, reply) == ("summed", len(reported), deployed.link.sums(1, 1, []))
    context, sums = deployed.link.shuffler.context, nothing(plan)
    noised = [own_noised(context, plan, 1, sums, b"", checksum)[0].sums for checksum in ("a", "a", "b")]
    assert noised[0] == noised[1] != noised[2]
    results = deployed.run(deployed.coordinator.operator.results)
    assert [phase.plausible for phase in results.phases] == [True, True]
    assert "clients may lie and collude" in results.guarantee.needs
    deployed.close()


def test_the_servers_noise_is_refused_where_a_server_sees_reports() -> None:
    privacy = PrivacyRequest(trust="shuffle", epsilon=20, delta=1e-3, noise="server-gaussian")
    deployed = Deployment(study=small_study("shuffle", privacy=privacy), mode="trusted")
    with pytest.raises(Refused, match="server-gaussian noise needs a shuffler of mode split or verified"):
        deployed.advance()
    deployed.close()


@pytest.fixture(scope="module")
def proved() -> tuple[ProvedReports, bytes, Plan]:
    deployed = Deployment(study=small_study("shuffle"), mode="verified")
    deployed.advance()
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    payload = respond_with_averages(plan, [0.5] * len(plan.support), client_noise("0" * 64)).payload
    deployed.close()
    return ProvedReports.of(plan, Place.of(plan.study, plan, 1, "")), payload, plan


def test_both_parties_have_one_key_per_attempt_and_nobody_else_has_it(
    proved: tuple[ProvedReports, bytes, Plan],
) -> None:
    plan, (one, other, third) = proved[2], (KeyPair.new() for _ in range(3))
    first, second = (Place.of(plan.study, plan, attempt, "") for attempt in (1, 2))
    key = verification_key(one, other.public, first)
    assert key == verification_key(other, one.public, first)
    assert key == verification_key(one, other.public, Place.of(plan.study, plan, 1, "a client"))
    others = [
        verification_key(one, other.public, second),
        verification_key(third, other.public, first),
        verification_key(one, third.public, first),
    ]
    assert len({key, *others}) == 4


def test_a_report_of_one_attempt_is_not_valid_in_another(
    proved: tuple[ProvedReports, bytes, Plan],
) -> None:
    here, payload, plan = proved
    elsewhere = ProvedReports.of(plan, Place.of(plan.study, plan, 2, ""))
    key, (one, other) = bytes(32), here.parts(payload)
    assert here.accepted(key, [other], here.answers(key, [one])).accepted.tolist() == [True]
    assert elsewhere.accepted(key, [other], elsewhere.answers(key, [one])).accepted.tolist() == [False]


def test_an_answer_of_the_shuffler_that_is_altered_makes_the_report_invalid(
    proved: tuple[ProvedReports, bytes, Plan],
) -> None:
    here, payload, _ = proved
    key, (one, other) = bytes(32), here.parts(payload)
    (answer,) = here.answers(key, [one])
    assert len(answer) == here.answer_size
    altered = [answer[:at] + bytes([answer[at] ^ 1]) + answer[at + 1 :] for at in range(0, len(answer), 8)]
    altered += [b"", answer[:-1], answer + b"\0"]
    found = here.accepted(key, [other] * (len(altered) + 1), [*altered, answer])
    assert found.accepted.tolist() == [False] * len(altered) + [True]


def test_sums_that_valid_reports_cannot_have_are_refused(proved: tuple[ProvedReports, bytes, Plan]) -> None:
    here, payload, plan = proved
    parts = [here.parts(payload) for _ in range(3)]
    shares = [here.added(server, [pair[server] for pair in parts]) for server in (0, 1)]
    assert [count for _, count in shares] == [3, 3]
    one, other = (share for share, _ in shares)
    assert here.sums([one, other], 3).reports == 3
    far = here.prio3.shift(one, [3 * (here.high - here.low)] + [0] * (plan.numbers - 1))
    with pytest.raises(ProtocolError, match="cannot have"):
        here.sums([far, other], 3)
