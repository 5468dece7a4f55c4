"""The state machines of coordinator and shuffler, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbandits.errors import FloatingPointNoise, InvalidValue, Unreachable
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Release, decode
from dpbandits.rounds import _journal as journal
from dpbandits.service.coordinator import Context
from dpbandits.service.shared import ShufflerAddress
from dpbandits.service.wire import KeyPair
from dpbandits.storage._sql import SqlStore

from .helpers import MODELS, Deployment, Member, NearLink, expected_course, refused, small_study


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_a_study_learns_what_the_protocol_alone_would(trust: str, mode: str | None) -> None:
    study = small_study(trust)
    deployed = Deployment(study=study, mode=mode)
    reported = deployed.whole_study()
    expected = expected_course(deployed.study, reported)
    final = deployed.coordinator.rounds.state
    assert final == expected[-1]
    assert len(reported) == 2
    with deployed.store.transaction() as transaction:
        releases = [decode(record.body, Release) for record in transaction.releases()]
        assert list(transaction.reports(1, 1)) == []
    assert [evidence.reports for evidence in final.history] == [release.reports for release in releases]
    assert tuple(deployed.run(deployed.coordinator.operator.progress).phases) == expected[-1].progress
    results = deployed.run(deployed.coordinator.operator.results)
    assert results.ended
    assert results.active == final.active_actions.tolist()
    assert (results.guarantee is None) == (trust == "none")
    deployed.close()


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_too_few_reports_release_nothing_and_fresh_clients_are_asked(trust: str, mode: str | None) -> None:
    study = small_study(trust, share=0.5)
    deployed = Deployment(study=study, mode=mode)
    first = deployed.collect(2)
    deployed.clock.time += 61
    deployed.advance()
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.phase, status.attempt, status.state, status.releases) == (1, 2, "gathering", 0)
    assert status.failed_attempts == 1
    assert status.rounds_played == 0
    assert status.rounds_repeated > 0
    assert {deployed.task(member).state for member in first} == {"over"}
    with deployed.store.transaction() as transaction:
        assert list(transaction.reports(1, 1)) == []
    second = deployed.join(6)
    deployed.play()
    for member in second[:3]:
        deployed.send(member, deployed.body(member))
    deployed.clock.time += 61
    deployed.advance()
    with deployed.store.transaction() as transaction:
        (release,) = transaction.releases()
    assert (release.phase, release.attempt) == (1, 2)
    assert decode(release.body, Release).reports == 3
    deployed.close()


def test_a_client_is_asked_once_and_its_task_repeats() -> None:
    deployed = Deployment(study=small_study("central"), mode=None)
    assert deployed.task(deployed.enrolled(1)[0]).state == "wait"
    deployed.advance()
    members = deployed.enrolled(7)
    tasks = [deployed.task(member) for member in members]
    assert [task.state for task in tasks] == ["joined"] * 6 + ["wait"]
    assert deployed.task(members[0]) == tasks[0]
    other_pseudonym = Member(token=members[0].token)
    assert refused(lambda: deployed.task(other_pseudonym)) == "already-asked"
    stolen = Member(token=members[6].token, ticket=members[0].ticket)
    assert deployed.task(stolen).state == "wait"  # the cohort is full
    assert refused(lambda: deployed.task(Member(token="forged"))) == "unknown-credential"
    deployed.close()


def test_nobody_joins_under_anothers_pseudonym() -> None:
    deployed = Deployment(study=small_study("central"), mode=None)
    deployed.advance()
    one, other = deployed.enrolled(2)
    deployed.task(one)
    assert refused(lambda: deployed.task(Member(token=other.token, ticket=one.ticket))) == "already-asked"
    assert deployed.task(other).state == "joined"
    deployed.close()


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_a_report_counts_once_and_belongs_to_its_place(trust: str, mode: str | None) -> None:
    deployed = Deployment(study=small_study(trust), mode=mode)
    deployed.advance()
    members = deployed.join(6)
    early = deployed.body(members[0])
    if mode is None:
        assert refused(lambda: deployed.send(members[0], early)) == "closed"
    deployed.play()
    deployed.send(members[0], early)
    deployed.send(members[0], early)
    assert refused(lambda: deployed.send(members[0], deployed.body(members[0]))) == "already-reported"
    assert refused(lambda: deployed.send(members[1], early)) == "unreadable"
    assert refused(lambda: deployed.send(members[1], early[:-1])) == "unreadable"
    flipped = early[:40] + bytes([early[40] ^ 1]) + early[41:]
    assert refused(lambda: deployed.send(members[1], flipped)) == "unreadable"
    deployed.report(members[1:])
    deployed.send(members[0], early)  # a retry after the release is still accepted
    deployed.close()


def test_a_study_goes_on_after_a_restart(tmp_path: object) -> None:
    study = small_study("central")
    deployed = Deployment(study=study, mode=None, store=SqlStore(f"sqlite:///{tmp_path}/one.sqlite"))
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    deployed.send(members[0], deployed.body(members[0]))
    deployed.coordinator.close()
    deployed.store = SqlStore(f"sqlite:///{tmp_path}/one.sqlite")
    deployed.start()
    deployed.report(members[1:])
    reported = deployed.whole_study()
    by_phase = {1: [member.pseudonym for member in members], **reported}
    expected = expected_course(deployed.study, by_phase)
    assert deployed.coordinator.rounds.state == expected[-1]
    deployed.close()
    for other in (
        Deployment,
        lambda **options: Deployment(**options, keys=KeyPair.new()),
    ):
        store = SqlStore(f"sqlite:///{tmp_path}/one.sqlite")
        changed = small_study("central", horizon=30_000) if other is Deployment else study
        with pytest.raises(InvalidValue, match="storage"):
            other(study=changed, mode=None, store=store)


@pytest.mark.parametrize("mode", ["trusted", "split"])
def test_an_unreachable_shuffler_delays_and_then_clients_have_time_again(mode: str) -> None:
    deployed = Deployment(study=small_study("shuffle"), mode=mode)
    assert deployed.link is not None
    deployed.advance()
    members = deployed.join(6)
    deployed.link.reachable = False
    with pytest.raises(Unreachable):
        deployed.play()
    assert deployed.task(members[0]).state == "joined"
    deployed.link.reachable = True
    deployed.advance()
    assert deployed.task(members[0]).state == "report"
    deployed.link.reachable = False
    deployed.clock.time += 61
    for _ in range(2):
        with pytest.raises(Unreachable):
            deployed.advance()
    deployed.link.reachable = True
    deployed.advance()
    deployed.report(members)
    with deployed.store.transaction() as transaction:
        assert len(transaction.releases()) == 1
    deployed.close()


@pytest.mark.parametrize("mode", ["trusted", "split"])
def test_a_restart_does_not_lose_that_the_shuffler_was_away_at_the_deadline(
    mode: str, tmp_path: Path
) -> None:
    """After a restart the shuffler is reachable again, and clients that could not reach it get full time."""
    url = f"sqlite:///{tmp_path / 'one.sqlite'}"
    deployed = Deployment(study=small_study("shuffle"), mode=mode, store=SqlStore(url))
    assert deployed.link is not None
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    deployed.link.reachable = False
    deployed.clock.time += 61
    with pytest.raises(Unreachable):
        deployed.advance()
    deployed.coordinator.close()
    deployed.store = SqlStore(url)
    deployed.link.reachable = True
    deployed.start()
    deployed.advance()
    deployed.clock.time += 59
    deployed.advance()
    assert deployed.task(members[0]).state == "report"
    deployed.report(members)
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.releases, status.failed_attempts) == (1, 0)
    deployed.close()


@pytest.mark.parametrize(("mode", "unheard"), [("trusted", "close"), ("split", "close"), ("split", "sums")])
def test_a_collection_that_was_closed_unheard_is_not_waited_for(
    mode: str, unheard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed = Deployment(study=small_study("shuffle"), mode=mode)
    deployed.collect()
    deployed.clock.time += 61

    def done_but_lost(link: NearLink, *told: object) -> None:
        asked(link, *told)
        raise Unreachable

    asked = getattr(NearLink, unheard)
    with monkeypatch.context() as patched:
        patched.setattr(NearLink, unheard, done_but_lost)
        with pytest.raises(Unreachable):
            deployed.advance()
    deployed.advance()
    assert deployed.run(deployed.coordinator.operator.status).releases == 1
    deployed.close()


def test_the_shuffle_model_closes_at_the_deadline_and_not_before() -> None:
    deployed = Deployment(study=small_study("shuffle"), mode="trusted")
    deployed.collect()
    deployed.clock.time += 59
    deployed.advance()
    assert deployed.run(deployed.coordinator.operator.status).state == "collecting"
    deployed.clock.time += 2
    deployed.advance()
    assert deployed.run(deployed.coordinator.operator.status).releases == 1
    deployed.close()


def test_split_sums_leave_out_clients_with_an_unreadable_share(caplog: pytest.LogCaptureFixture) -> None:
    study = small_study("shuffle", share=0.5)
    deployed = Deployment(study=study, mode="split")
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    spoilt = bytearray(deployed.body(members[0]))
    spoilt[-1] ^= 1  # in the coordinator's share, which the shuffler cannot check
    deployed.send(members[0], bytes(spoilt))
    deployed.report(members[1:])
    with deployed.store.transaction() as transaction:
        release = decode(transaction.releases()[0].body, Release)
    assert release.reports == 5
    told = [record.__dict__ for record in caplog.records if record.message == "reports-excluded"]
    assert [(one["module"], one["count"]) for one in told] == [("_shuffling", 1), ("_shuffler", 1)]
    deployed.close()


def test_status_waits_for_no_learning_and_learning_is_a_step_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployed = Deployment(study=small_study("central"), mode=None)
    deployed.collect()

    def learning(*_told: object) -> None:
        raise RuntimeError("the learner was told")

    with monkeypatch.context() as patched:
        patched.setattr(journal, "tell", learning)
        with pytest.raises(RuntimeError, match="the learner was told"):
            deployed.advance()
        status = deployed.run(deployed.coordinator.operator.status)
        assert (status.state, status.releases, status.actions_left) == ("released", 1, 12)
        assert status.rounds_played == deployed.coordinator.rounds.plan(1).rounds
        assert deployed.run(deployed.coordinator.operator.progress).phases == []
        assert deployed.run(deployed.coordinator.operator.results).phases == []
    deployed.advance()
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.phase, status.state) == (2, "gathering")
    assert status.rounds_played == deployed.coordinator.rounds.plan(1).rounds
    (record,) = deployed.run(deployed.coordinator.operator.progress).phases
    assert (record.phase, record.reports, record.actions_left) == (1, 6, status.actions_left)
    assert len(deployed.run(deployed.coordinator.operator.results).phases) == 1
    deployed.close()


def test_rounds_are_counted_once() -> None:
    deployed = Deployment(study=small_study("none"), mode=None)
    deployed.advance()
    playing = deployed.coordinator.actuator
    assert deployed.run(playing.play).action is None
    assert refused(lambda: deployed.run(lambda t: playing.rounds(t, 1, 1, 5))) == "not-playing"
    assert refused(lambda: deployed.run(lambda t: playing.rounds(t, 2, 1, 5))) == "not-playing"
    deployed.join(6)
    schedule = deployed.run(playing.schedule)
    assert deployed.run(playing.play).action == schedule.runs[0].action
    for played in (schedule.runs[0].plays, 1, schedule.runs[0].plays):
        deployed.run(lambda t, n=played: playing.rounds(t, 1, 1, n))
    now = deployed.run(playing.play)
    assert (now.round, now.action) == (schedule.runs[0].plays, schedule.runs[1].action)
    too_many = schedule.rounds + 1
    assert refused(lambda: deployed.run(lambda t: playing.rounds(t, 1, 1, too_many))) == "too-many-rounds"
    deployed.play()
    deployed.run(lambda t: playing.rounds(t, 1, 1, schedule.rounds))
    deployed.close()


def test_what_a_service_must_not_do_is_refused_at_once() -> None:
    privacy = PrivacyRequest(trust="central", noise="gaussian")
    with pytest.raises(FloatingPointNoise):
        Context(study=small_study("central", privacy=privacy), keys=KeyPair.new())
    with pytest.raises(InvalidValue, match="shuffler"):
        Context(study=small_study("shuffle"), keys=KeyPair.new())
    address = ShufflerAddress(url="x", key="0" * 64)
    with pytest.raises(InvalidValue, match="shuffler"):
        Context(study=small_study("none"), keys=KeyPair.new(), shuffler=address)
    with pytest.raises(InvalidValue, match="assignment"):
        Context(study=small_study("none", assignment="one_per_round"), keys=KeyPair.new())
