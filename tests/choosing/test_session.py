"""`session`: a study with the user's own loop ends as `choose` does, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dp
from dpbandits.answers import RewardRange
from dpbandits.choosing import SessionTask, answer, people_of
from dpbandits.errors import InvalidValue
from dpbandits.protocol import play_order
from dpbandits.storage import open_store

OPTIONS = dp.Options.grid(price=[1, 2, 3, 4], colour=["red", "green"], current={"price": 3, "colour": "red"})
RANGE = (0.0, 10.0)
NAMES = [f"person {number:02d}" for number in range(40)]


def _study(**changes: Any) -> dp.Study:
    settings: dict[str, Any] = {
        "actions": OPTIONS.actions,
        "horizon": 20_000,
        "privacy": dp.PrivacyRequest(trust="central", epsilon=20, delta=1e-3, minimum_share=0.5),
        "schedule": dp.Schedule(cohorts=(6, 10), first_length=60, growth=8),
        "heterogeneity": 0.0,
    }
    return dp.Study(**{**settings, **changes})


def _reward(label: str) -> float:
    return 9 - int(label[6]) + (0.25 if label.endswith("green") else 0.0)


def _answers(task: SessionTask) -> dict[str, float]:
    return {label: _reward(label) for label in task.plays}


def _noise(seed: int = 2) -> dp.SimulatedNoise:
    return dp.SimulatedNoise(np.random.default_rng(seed))


def _run(session: dp.Session, told: list[str] | None = None) -> dp.Found:
    with session as s:
        while (task := s.ask(NAMES)) is not None:
            for person in task.people:
                s.tell(person, _answers(task))
                if told is not None:
                    told.append(person)
        assert s.over
        assert s.needed() == 0
        return s.found()


def test_the_same_answer_as_choose() -> None:
    settled = dp.PrivacyRequest(trust="central", epsilon=20.0, delta=1e-3, minimum_share=0.5)
    study = _study(reward_range=RANGE, privacy=settled)  # the same digest, so the same draws for intervals
    people = people_of(_reward, OPTIONS, RewardRange.of(RANGE))
    expected = answer(OPTIONS, study, people, rewards=RewardRange.of(RANGE), noise=_noise())
    found = _run(dp.session(study, options=OPTIONS, noise=_noise()))
    assert found == expected
    assert found.best == "price=1, colour=green"
    assert found.interval[0] < 8.25 < found.interval[1]
    assert found.participants == 16


def test_it_goes_on_from_the_file_after_every_interruption(tmp_path: Path) -> None:
    file, study = tmp_path / "study.sqlite", _study(privacy=dp.PrivacyRequest(minimum_share=0.5))
    expected = _run(dp.session(study, options=OPTIONS, reward_range=RANGE))
    told = list[str]()
    dp.session(study, file=file, options=OPTIONS, reward_range=RANGE).close()

    class InterruptedTelling(dp.Session):
        """It is interrupted after every second answer."""

        left = 2

        def tell(self, *given: Any) -> None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            super().tell(*given)

    for _interruption in count():
        again = dp.session(file)
        again.__class__ = InterruptedTelling
        try:
            found = _run(again, told)
        except KeyboardInterrupt:
            continue
        break
    assert _interruption == 7
    assert found == expected
    assert told == sorted(set(told)) == NAMES[:16]  # nobody answered twice
    assert _releases(file) == [1, 2]


def _releases(file: Path) -> list[int]:
    store = open_store(f"sqlite:///{file}")
    with store.transaction() as transaction:
        found = [one.phase for one in transaction.releases()]
    store.close()
    return found


@pytest.mark.parametrize("step", ["_releasing.analyze", "_journal.tell"])
def test_a_release_that_is_interrupted_happens_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    file = tmp_path / "study.sqlite"

    def interrupt(*_given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # in the transaction of the release, or after it
        patch.setattr(f"dpbandits.rounds.{step}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            _run(dp.session(_study(), file=file, options=OPTIONS, reward_range=RANGE, noise=_noise()))
    assert _releases(file) == ([] if step == "_releasing.analyze" else [1])
    found = _run(dp.session(file, noise=_noise()))
    assert found.participants == 16
    assert _releases(file) == [1, 2]


def test_people_who_do_not_answer_are_replaced_by_new_ones() -> None:
    with dp.session(_study(), options=OPTIONS, reward_range=RANGE, noise=_noise()) as s:
        first = s.ask(iter(NAMES))
        assert first is not None
        assert (s.needed(), first.people) == (0, tuple(NAMES[:6]))
        s.tell_all(dict.fromkeys(first.people[:4]))
        assert s.ask(NAMES).people == first.people[4:]  # type: ignore[union-attr]
        s.tell_all({person: _answers(first) for person in first.people[4:]})  # 2 of 6 are too few
        assert s.needed() == 6
        with pytest.raises(InvalidValue, match="found: got no release, expected at least one phase"):
            s.found()
        second = s.ask(NAMES)
        assert second is not None
        assert (second.phase, second.attempt, second.people) == (1, 2, tuple(NAMES[6:12]))
        with pytest.raises(InvalidValue, match="person: got 'person 01', expected a person of the current"):
            s.tell("person 01", _answers(second))
        s.tell_all({person: _answers(second) for person in second.people[:5]} | {second.people[5]: None})
        assert s.found().state.history[0].reports == 5
        with pytest.raises(InvalidValue, match="people: got 3 who did not .* at least 5 for phase 2"):
            s.ask(NAMES[:15])
        assert len(s.ask().people) == 10  # type: ignore[union-attr]
        assert "phase 2, 10 people still to answer" in repr(s)


def test_single_rewards_are_clipped_and_averaged_in_the_users_units() -> None:
    study = _study(privacy=dp.PrivacyRequest(), bound=0.5)
    with dp.session(study, options=OPTIONS, reward_range=(-3, 2)) as s:
        while (task := s.ask()) is not None:
            rewards = {
                label: [7.0] * n if "green" in label else [-9.0] * n for label, n in task.plays.items()
            }
            s.tell_all(dict.fromkeys(task.people, rewards))
        found = s.found()
    assert {round(one.estimate, 6) for one in found.options if "green" in one.option} == {2.0}
    assert found.interval[1] == pytest.approx(2.0)
    assert found.lead_over_current is not None
    assert found.lead_over_current.estimate == pytest.approx(5.0)


def test_the_order_of_a_task_is_random_within_blocks() -> None:
    with dp.session(_study(), noise=_noise()) as s:
        task = s.ask()
        assert task is not None
        order, plan = task.order, task.plan
    assert {label: order.count(label) for label in task.plays} == dict(task.plays)
    assert all(label.startswith("action ") for label in order)
    runs = play_order(plan)
    assert order[: runs[0][1]] == [f"action {runs[0][0]}"] * runs[0][1]


def _wrong(task: SessionTask) -> Iterator[tuple[object, str]]:
    right, first = _answers(task), next(iter(task.plays))
    yield 3, "rewards of 'person 00': got int, expected a mapping from "
    yield {**right, "other": 1}, "rewards of 'person 00': got other options, expected a mapping from "
    yield (
        {**right, first: "much"},
        f"{first!r}: got str, expected a number, or a list",
    )
    yield {**right, first: [1.0]}, f"{first!r}: got 1 rewards, expected {task.plays[first]}, one per play, or"
    yield {**right, first: float("nan")}, f"{first!r}: got a number that is not finite, expected finite"


def test_wrong_answers_are_refused_and_nothing_is_recorded() -> None:
    with dp.session(_study(), options=OPTIONS, reward_range=RANGE) as s:
        task = s.ask(NAMES)
        assert task is not None
        for rewards, message in _wrong(task):
            with pytest.raises(InvalidValue) as error:
                s.tell("person 00", rewards)  # type: ignore[arg-type]
            assert message in str(error.value)
        assert s.ask(NAMES) == task


def test_wrong_sessions_are_refused(tmp_path: Path) -> None:
    file, study = tmp_path / "study.sqlite", _study()
    dp.session(study, file=file, options=OPTIONS, reward_range=RANGE, noise=_noise()).close()
    same: dict[str, Any] = {"file": file, "options": OPTIONS, "reward_range": RANGE, "noise": _noise()}
    other = OPTIONS.with_current(None)
    store = tmp_path / "other.sqlite"
    dp.run_in_process(
        _study(privacy=dp.PrivacyRequest()),
        rewards=dict.fromkeys(NAMES, lambda _action: 0.0),
        store=open_store(f"sqlite:///{store}"),
    )
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (3, {}, "study: got int, expected a Study, or the file of a session"),
        (tmp_path / "none.sqlite", {}, "expected a Study, or the file of a session that began before"),
        (file, {"reward_range": RANGE}, "expected a Study, if file, options or reward_range are given"),
        (file, {}, "noise: got secure noise, expected simulated noise, with which the session began"),
        (store, {}, "expected the file of a session of this version"),
        (study, {**same, "reward_range": (0, 5)}, "study: got digest"),
        (
            _study(reward_range=(0, 5)),
            same,
            "reward_range: got (0.0, 10.0), expected (0.0, 5.0), the range of the",
        ),
        (study, {**same, "options": other}, "options: got digest"),
        (_study(horizon=30_000), same, "study: got digest"),
        (_study(actions=dp.Actions([[1.0]])), {}, "actions: got 1, expected a whole number >= 2"),
        (_study(options=other.digest), same, "options: got others, expected the options of the study"),
        (study, {"reward_range": (1, 1)}, "reward_range: got (1, 1), expected a pair of finite numbers"),
    ]
    for given, settings, message in cases:
        with pytest.raises(InvalidValue) as error:
            dp.session(given, **settings)
        assert message in str(error.value)
    with (
        dp.session(study, **same) as s,
        pytest.raises(InvalidValue, match="people: got 'abc', expected a list"),
    ):
        s.ask("abc")
