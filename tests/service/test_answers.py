"""The answer of a deployed study: by name, from the pooled estimate, with the intervals of `choose`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

import dpbandits as dp
from dpbandits import choosing
from dpbandits.answers import Knowledge, RewardRange
from dpbandits.errors import InvalidValue, StorageError
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Confirmation, FitTest, Schedule, leader
from dpbandits.service.coordinator import coordinator_app, stored_results
from dpbandits.service.dashboard import _health
from dpbandits.service.shared import RoleTokens
from dpbandits.service.wire import ResultsReply, hashed, new_secret
from dpbandits.storage import StudyRecord, open_store

from ..protocol.toy_reward_model import Tanh  # noqa: TID252
from .helpers import MODELS, THETA, Deployment, small_study
from .live import served

OPTIONS = Options.grid(price=[1, 2, 3, 4], colour=["red", "green"], current={"price": 3, "colour": "red"})
EXPLAINED = "your features explain what was measured"
SMALL = Schedule(cohorts=(60, 40), first_length=40, growth=4)


def _deployment(options: Options = OPTIONS, store: Any = None, **changes: Any) -> Deployment:
    trust, mode = changes.pop("trust", "central"), changes.pop("mode", None)
    study = small_study(trust, actions=options.actions, options=options.digest, **changes)
    given = {} if store is None else {"store": store}
    return Deployment(study=study, mode=mode, options=options, **given)


def _results(deployed: Deployment) -> ResultsReply:
    found = deployed.run(deployed.coordinator.operator.results)
    assert isinstance(found, ResultsReply)
    return found


@pytest.fixture(name="deployed", scope="module")
def _deployed() -> Deployment:
    found = _deployment(schedule=SMALL)
    found.whole_study()
    return found


def test_the_answer_names_the_leader_of_the_pooled_estimate(deployed: Deployment) -> None:
    reply, state = _results(deployed), deployed.coordinator.rounds.state
    answer = reply.answer
    assert answer is not None
    assert (answer.action, answer.option) == (leader(state), OPTIONS.labels[leader(state)])
    pooled = state.study.reward_model.pool([dp.protocol.fitted(state.study, one) for one in state.history])
    assert answer.estimate == pytest.approx(float(OPTIONS.actions.matrix[answer.action] @ pooled))
    assert answer.parameter == pytest.approx(pooled.tolist())
    assert reply.estimate == list(state.estimate or ())  # of the last phase, as before
    assert reply.learning_over
    assert reply.ended
    assert answer.participants == 100
    assert {one.action for one in answer.options} == set(reply.active)
    assert [phase.labels for phase in reply.phases] == [
        [OPTIONS.labels[action] for action in evidence.plan.support] for evidence in state.history
    ]


def test_the_last_phase_alone_may_prefer_another_option(monkeypatch: pytest.MonkeyPatch) -> None:
    # All options are equally good, so noise decides. The last phase has as many clients as the first one, and
    # prefers another option than both together in about half of the studies: none of 24 does so with a
    # probability below 1e-6.
    monkeypatch.setattr("tests.service.helpers.THETA", np.zeros(3))
    options, differ = Options.grid(a=[0, 1, 2], b=[0, 1, 2]), 0
    schedule = Schedule(cohorts=(3, 3), first_length=6, growth=1.1)
    for seed in range(24):
        study = small_study("none", actions=options.actions, options=options.digest, schedule=schedule)
        deployed = Deployment(study=study, mode=None, options=options, seed=seed)
        deployed.whole_study()
        answer, state = _results(deployed).answer, deployed.coordinator.rounds.state
        assert answer is not None
        assert answer.action == leader(state)
        scores = options.actions.matrix[state.active_actions] @ np.array(state.estimate)
        differ += answer.action != int(state.active_actions[int(np.argmax(scores))])
    assert differ > 0


def test_the_intervals_are_those_of_choose(deployed: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    state, answer = deployed.coordinator.rounds.state, _results(deployed).answer
    assert answer is not None
    population = dp.Population(dp.Instance(OPTIONS.actions, THETA), heterogeneity=0.1)
    people = choosing.people_of(population, OPTIONS, RewardRange())
    people.knowledge = Knowledge.MODEL  # a deployed study does not assume that people are normal
    monkeypatch.setattr("dpbandits.choosing._people.run_in_process", lambda *_args, **_kwargs: state)
    found = choosing.answer(OPTIONS, state.study, people, rewards=RewardRange(), level=0.95)
    assert (answer.option, answer.low, answer.high) == (found.best, *found.interval)
    assert answer.lead == found.lead
    assert answer.lead_over_current == found.lead_over_current
    assert answer.effects == found.effects
    left = {one.option: one for one in answer.options}
    assert len(left) >= 2
    for one in found.options:
        if one.may_be_best:
            assert (left[one.option].low, left[one.option].high) == pytest.approx((one.low, one.high))
    wider = choosing.answer(OPTIONS, state.study, people, rewards=RewardRange(), level=0.99)
    assert wider.interval[0] < answer.low  # another level gives another interval


def test_the_truth_is_in_the_intervals(deployed: Deployment) -> None:
    # Rewards scatter less than the intervals assume: the deviation of an error is a tenth of the half width,
    # so an error outside would be ten deviations.
    answer = _results(deployed).answer
    assert answer is not None
    means = OPTIONS.actions.matrix @ THETA
    for one in answer.options:
        assert one.low <= means[one.action] <= one.high
        assert one.behind_low <= means[answer.action] - means[one.action] <= one.behind_high
    change = answer.lead_over_current
    assert change is not None
    assert change.low <= means[answer.action] - means[OPTIONS.index(OPTIONS.current or "")] <= change.high
    truth = OPTIONS.effects(THETA)
    for effect, true in zip(answer.effects, truth, strict=True):
        assert effect.low is not None
        assert effect.high is not None
        assert effect.low <= true.estimate <= effect.high
        assert effect.high - effect.low < 2  # and they say something


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_a_stopped_coordinator_has_the_same_results(trust: str, mode: str | None, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.sqlite'}"
    deployed = _deployment(store=open_store(url), trust=trust, mode=mode)
    study = deployed.study.without_terms

    def stored() -> bytes:
        store = open_store(url, read_only=True)
        try:
            return msgspec.json.encode(stored_results(study, OPTIONS, store))
        finally:
            store.close()

    deployed.advance()
    assert msgspec.json.encode(_results(deployed)) == stored()
    members = deployed.join(6)
    deployed.play()
    assert msgspec.json.encode(_results(deployed)) == stored()
    deployed.report(members)
    after_one = _results(deployed)
    assert after_one.answer is not None
    assert not after_one.learning_over
    assert msgspec.json.encode(after_one) == stored()  # read while the coordinator has the store open
    members = deployed.join(10)
    deployed.play()
    deployed.report(members)
    deployed.play()
    live = msgspec.json.encode(_results(deployed))
    assert deployed.coordinator.ended
    deployed.close()
    assert stored() == live
    assert msgspec.json.decode(live, type=ResultsReply).answer is not None


def test_a_store_that_is_only_read_is_not_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.sqlite'}"
    with pytest.raises(InvalidValue, match="an existing store: `dpbandits serve` creates it"):
        open_store(url, read_only=True)
    assert list(tmp_path.iterdir()) == []
    open_store(url).close()
    store = open_store(url, read_only=True)
    with pytest.raises(StorageError, match="readonly"), store.transaction() as transaction:
        transaction.begin_study(StudyRecord(digest="0" * 64, body=b"{}"))
    with store.transaction() as transaction:
        assert transaction.study() is None
    with pytest.raises(InvalidValue, match="an empty store, expected the store of a study that has been"):
        stored_results(small_study("central"), None, store)
    store.close()


def test_names_cannot_be_swapped_once_the_study_has_started(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.sqlite'}"
    deployed = _deployment(store=open_store(url))
    deployed.close()
    rows = list(OPTIONS.labels)
    rows[0], rows[1] = rows[1], rows[0]
    swapped = replace(OPTIONS, labels=tuple(rows))
    assert swapped.actions == OPTIONS.actions
    with pytest.raises(InvalidValue, match="options: got other options, expected those that the store has"):
        _deployment(swapped, store=open_store(url))
    study = small_study("central", actions=OPTIONS.actions, options=swapped.digest)
    with pytest.raises(InvalidValue, match="the options of the study"):
        stored_results(study, swapped, open_store(url, read_only=True))
    small = small_study("central", actions=OPTIONS.actions, options=OPTIONS.digest)
    with pytest.raises(InvalidValue, match="the options of the study"):
        Deployment(study=small, mode=None, options=swapped)


def test_before_the_first_release_there_is_no_answer() -> None:
    deployed = _deployment()
    deployed.advance()
    reply = _results(deployed)
    assert reply.answer is None
    assert not reply.learning_over
    assert reply.needed == "the first release: no phase has been released yet"


def test_actions_without_names_are_numbered() -> None:
    deployed = Deployment(study=small_study("central"), mode=None)
    deployed.whole_study()
    answer = _results(deployed).answer
    assert answer is not None
    assert answer.option == f"action {leader(deployed.coordinator.rounds.state)}"
    assert (answer.effects, answer.lead_over_current) == ((), None)


def test_a_horizon_too_short_for_the_level_gives_the_range_of_rewards() -> None:
    deployed = _deployment(horizon=100, schedule=Schedule(cohorts=(6, 6), first_length=20, growth=1.1))
    deployed.whole_study()
    reply = _results(deployed)
    answer = reply.answer
    assert answer is not None
    assert "horizon: got 100, expected more than 120" in answer.intervals
    assert (answer.low, answer.high) == (-1, 1)
    assert answer.lead is not None
    assert answer.lead.interval == (-2, 2)
    assert not answer.decided
    assert "intervals, which cannot be computed" in reply.needed


def test_intervals_are_not_stated_where_they_are_not_proved() -> None:
    paper = PrivacyRequest(trust="central", epsilon=20, delta=1e-3, preset="paper", noise="discrete-gaussian")
    for bounded in (True, False):
        deployed = _deployment(privacy=paper, bounded_rewards=bounded)
        deployed.whole_study()
        answer = _results(deployed).answer
        assert answer is not None
        assert (answer.intervals == "") == bounded
        assert ((answer.low, answer.high) == (-1, 1)) != bounded
    curved = _deployment(trust="none", model=Tanh.name, heterogeneity=0.0)
    curved.whole_study()
    answer = _results(curved).answer
    assert answer is not None
    assert answer.option == OPTIONS.labels[leader(curved.coordinator.rounds.state)]
    assert "model: got tanh, expected linear" in answer.intervals
    assert (answer.low, answer.high, answer.effects) == (-1, 1, ())


def test_what_is_needed_is_told_until_the_best_is_decided() -> None:
    deployed = _deployment(schedule=Schedule(cohorts=(6,), first_length=20), trust="central")
    deployed.whole_study()
    reply = _results(deployed)
    assert reply.answer is not None
    assert not reply.answer.decided
    assert reply.needed_participants is not None
    assert reply.needed_participants > 6
    assert f"would need about {reply.needed_participants:,}" in reply.needed
    many = _deployment(trust="none", schedule=Schedule(cohorts=(60, 60), first_length=500, growth=8))
    many.whole_study()
    reply = _results(many)
    assert reply.answer is not None
    assert reply.answer.decided
    assert reply.answer.option == OPTIONS.labels[int(np.argmax(OPTIONS.actions.matrix @ THETA))]
    assert "nothing:" in reply.needed
    assert reply.needed_participants is None


def test_the_actuator_gets_names() -> None:
    deployed = _deployment()
    deployed.advance()
    deployed.join(6)
    schedule = deployed.run(deployed.coordinator.actuator.schedule)
    assert [run.label for run in schedule.runs] == [OPTIONS.labels[run.action] for run in schedule.runs]
    play = deployed.run(deployed.coordinator.actuator.play)
    assert play.label == OPTIONS.labels[play.action]
    plain = Deployment(study=small_study("central"), mode=None)
    plain.advance()
    assert {run.label for run in plain.run(plain.coordinator.actuator.schedule).runs} == {""}


@pytest.mark.parametrize(("trust", "mode"), [("central", None), ("local", None), ("shuffle", "trusted")])
def test_the_status_says_what_the_study_waits_for(trust: str, mode: str | None) -> None:
    deployed = _deployment(trust=trust, mode=mode, share=0.5)

    def status() -> Any:
        return deployed.run(deployed.coordinator.operator.status)

    assert status().waiting == "the first phase is being planned"
    deployed.advance()
    assert status().waiting == "phase 1 waits for clients: 0 of 6 have joined; it starts when all have"
    assert (status().minimum, status().reports, status().deadline) == (3, 0, None)
    members = deployed.join(6)
    assert "the actuator has played 0 of" in status().waiting
    deployed.play()
    assert status().deadline == deployed.clock.time + 60
    deployed.clock.time += 10
    assert status().seconds_left == 50
    for member in members[:4]:
        deployed.send(member, deployed.body(member))
    if mode is None:
        assert status().reports == 4
        assert "4 of 6 clients have reported. It is released when all have, or in 50 s" in status().waiting
    else:
        assert status().reports is None
        assert "Only the shuffler knows how many have" in status().waiting
    assert "at least 3" in status().waiting
    deployed.clock.time += 60
    deployed.advance()
    assert (status().phase, status().releases) == (2, 1)
    assert "phase 2 waits for clients: 0 of 10" in status().waiting


def test_the_status_says_what_the_fit_test_and_the_confirmation_found() -> None:
    deployed = _deployment(
        schedule=SMALL,
        fit_test=FitTest(cohort=30, plays=4, coordinates=4),
        confirmation=Confirmation(current=OPTIONS.index(str(OPTIONS.current)), cohort=20),
    )
    operator, token = deployed.coordinator.operator, new_secret()
    assert operator.concluded() == {}
    deployed.whole_study()
    answer = _results(deployed).answer
    assert answer is not None
    app = coordinator_app(deployed.coordinator, RoleTokens(hashes={"operator": hashed(token)}))
    with served(app) as url:
        status = httpx.get(f"{url}/v1/status", headers={"Authorization": f"Bearer {token}"}).json()
    assert status["fit"] == str(answer.fit) == f"{EXPLAINED} (test at level 1 %)"
    assert status["confirmation"] == str(answer.confirmation)
    assert "(95 %), whatever the model" in status["confirmation"]
    # The page Health has the verdict too, also a bad one.
    bent = replace(answer, fit=replace(answer.fit, explained=False))  # type: ignore[type-var]
    for one, level in ((answer, "good"), (bent, "bad")):
        snapshot = SimpleNamespace(analysis=SimpleNamespace(answer=one), study=deployed.study)
        card = _health._fit(snapshot)  # type: ignore[arg-type]
        assert (card.level, str(one.fit) in card.found, bool(card.advice)) == (level, True, level == "bad")


def test_the_status_shows_a_failed_attempt() -> None:
    deployed = _deployment()
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    deployed.send(members[0], deployed.body(members[0]))
    deployed.clock.time += 61
    told = list[str]()
    while deployed.coordinator.advance():
        told.append(deployed.run(deployed.coordinator.operator.status).waiting)
    assert any("attempt 1 had fewer than 6 reports. Its reports were deleted" in words for words in told)
    deployed.whole_study()
    assert deployed.run(deployed.coordinator.operator.status).waiting == "the study has ended"
