"""`Replay`: studies on people with one measured option each. Nobody is asked twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import dpbandits as dp
from dpbandits.choosing import _replay
from dpbandits.errors import InvalidValue

OPTIONS = dp.Options.from_table({"name": ["a", "b", "c"]}, features={"name": dp.Category()}, current="a")
CHANCES = {"a": 0.2, "b": 0.5, "c": 0.8}


def _table(sizes: dict[str, int], chances: dict[str, float] = CHANCES) -> dict[str, list[Any]]:
    """Return people with rewards 0 and 1, of which exactly the stated share is 1."""
    rows = [
        (label, float(place < chances[label] * size))
        for label, size in sizes.items()
        for place in range(size)
    ]
    return {"had": [label for label, _ in rows], "liked": [reward for _, reward in rows]}


def _choose(table: object, *, phases: int = 1, **settings: Any) -> dp.Found:
    chosen: dict[str, Any] = {
        "participants": 600,
        "trust": "none",
        "horizon": 3000,
        "reward_range": (0, 1),
        "seed": 1,
        "noise": dp.SimulatedNoise(np.random.default_rng(2)),
    }
    people = dp.Replay(table=table, option="had", reward="liked", phases=phases)
    return dp.choose(OPTIONS, people=people, **{**chosen, **settings})


ENOUGH = {"a": 600, "b": 600, "c": 600}


@pytest.mark.parametrize("trust", ["none", "central", "shuffle"])
def test_the_best_option_is_found_with_intervals_around_the_means_of_the_table(trust: str) -> None:
    found = _choose(_table(ENOUGH), trust=trust)
    assert found.best == "c"
    assert found.state.study.assignment == "one_per_round"
    assert found.state.history[0].counts == (200, 200, 200)
    for one in found.options:
        assert one.low < CHANCES[one.option] < one.high
    assert found.lead_over_current is not None
    assert found.lead_over_current.low > 0


def test_without_privacy_a_census_gives_the_means_of_the_table_and_hoeffdings_radius() -> None:
    found = _choose(_table({"a": 200, "b": 200, "c": 200}))
    # Half the range times the radius at a share of the failure probability for each of three options.
    low, high = (0.5 * np.sqrt(2 * np.log(3 / (share * 0.049)) / 200) for share in (0.53, 0.05))
    best = max(CHANCES.values()) + 0.5 * np.sqrt(2 * np.log(1 / (0.42 * 0.049)) / 200)
    for one in found.options:
        assert one.estimate == pytest.approx(CHANCES[one.option], abs=1e-6)
        assert one.estimate - one.low == pytest.approx(low, rel=1e-6)
        assert one.high == pytest.approx(min(one.estimate + high, best), rel=1e-6)


def test_the_guarantee_is_the_requested_one_with_secure_noise() -> None:
    found = _choose(_table(ENOUGH), trust="central", noise=None)
    assert found.guarantee is not None
    assert (found.guarantee.epsilon, found.simulated) == (1.0, False)
    assert found.guarantee.delta <= 1e-6


@pytest.mark.parametrize("phases", [1, 3])
def test_nobody_is_asked_twice_and_everybody_about_their_own_option(
    phases: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reward tells who was asked: 0 to 999 had a, 1000 to 1999 had b, 2000 to 2999 had c.
    table = {"had": ["abc"[one // 1000] for one in range(3000)], "liked": list(range(3000))}
    asked, respond = Counter[int](), _replay.respond_with_averages

    def watched(plan: dp.Plan, averages: Any, noise: Any) -> Any:
        reward = round((averages[0] + 1) * 1500)
        assert reward // 1000 == plan.support[0]
        asked[reward] += 1
        return respond(plan, averages, noise)

    monkeypatch.setattr(_replay, "respond_with_averages", watched)
    found = _choose(table, phases=phases, reward_range=(0, 3000), participants=1000)
    assert set(asked.values()) == {1}
    assert len(asked) == found.participants
    assert 900 < found.participants <= 1000
    assert len(found.state.history) == phases


def test_a_plan_with_too_few_people_is_refused_before_anybody_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_replay, "respond_with_averages", lambda *_: pytest.fail("somebody was asked"))
    with pytest.raises(
        InvalidValue, match=r"people with 'b': got 199, expected at least 200, since each person"
    ):
        _choose(_table({**ENOUGH, "b": 199}))
    with pytest.raises(InvalidValue, match=r"people with 'b': got 0, expected at least 200"):
        _choose({"had": ["a"] * 300 + ["c"] * 300, "liked": [0.5] * 600})


def test_a_study_stops_and_says_so_when_the_people_of_an_option_run_out() -> None:
    same = dict.fromkeys("abc", 0.5)  # no option is dropped, so phase 2 needs 132 of each after 66
    table = _table({"a": 600, "b": 197, "c": 600}, same)
    found = _choose(table, phases=2)
    assert found.stopped == "phase 2 needs 132 people with 'b', 131 are left"
    assert f"stopped    {found.stopped}" in repr(found)
    assert len(found.state.history) == 1
    assert found.participants == 198
    assert all(one.low < 0.5 < one.high for one in found.options)
    assert _choose(_table({"a": 600, "b": 198, "c": 600}, same), phases=2).stopped == ""


def test_the_seed_decides_who_is_asked() -> None:
    table = _table(ENOUGH)
    assert repr(_choose(table, seed=3)) == repr(_choose(table, seed=3))
    assert _choose(table, seed=3).estimate != _choose(table, seed=4).estimate


def test_labels_are_compared_as_text_and_other_labels_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    rows = [f"{label},{place % 2}" for label in ("01", "02", "9") for place in range(300)]
    path.write_text("\n".join(["had,liked", *rows]), encoding="utf-8")
    options = dp.Options.from_table({"name": ["01", "02"]}, features={"name": dp.Category()})
    people = dp.Replay(table=path, option="had", reward="liked")
    found = dp.choose(
        options, people=people, participants=600, trust="none", horizon=900, reward_range=(0, 1)
    )
    assert [one.estimate for one in found.options] == pytest.approx([0.5, 0.5])
    assert found.participants == 600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"option": "plan"}, "people: got no column 'plan'"),
        ({"reward": "visits"}, "people: got no column 'visits'"),
        ({"phases": 0}, "phases: got 0, expected"),
        ({"phases": 1.5}, "phases: got 1.5, expected"),
        ({"table": {"had": ["a", "b"], "liked": [1.0, None]}}, "row 2: got a missing value"),
        ({"table": {"had": ["a", "b"], "liked": [1.0, "x"]}}, "row 2: got str"),
    ],
)
def test_wrong_replays_are_named(change: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"table": _table(ENOUGH), "option": "had", "reward": "liked"}
    with pytest.raises(InvalidValue, match=message):
        dp.choose(OPTIONS, people=dp.Replay(**{**right, **change}), participants=600)


def test_too_few_participants_are_refused() -> None:
    with pytest.raises(
        InvalidValue, match=r"participants: got 8, expected at least 13 for 3 options in 3 phases"
    ):
        _choose(_table(ENOUGH), phases=3, participants=8)
    with pytest.raises(InvalidValue, match=r"participants: got 6, expected about \d+ to learn anything"):
        _choose(_table(ENOUGH), participants=6)
    with pytest.raises(InvalidValue, match="horizon: got 100, expected at least"):
        _choose(_table(ENOUGH), horizon=100)


def _outside(shrink: float, trust: str) -> tuple[int, int]:
    """Count replays in which an interval, shrunk by a factor, misses a mean of the table."""
    missed, studies, rng = 0, 100, np.random.default_rng(5)
    sizes = {"a": 150, "b": 200, "c": 100}
    for _ in range(studies):
        chances = dict(zip("abc", rng.uniform(0.1, 0.9, 3), strict=True))
        table = _table(sizes, chances)
        truth = {
            label: np.mean([y for had, y in zip(table["had"], table["liked"], strict=True) if had == label])
            for label in "abc"
        }
        noise = dp.SimulatedNoise(rng)
        found = _choose(
            table, participants=90, level=0.9, trust=trust, seed=int(rng.integers(2**32)), noise=noise
        )
        missed += any(
            abs(truth[one.option] - (one.low + one.high) / 2) > shrink * (one.high - one.low) / 2
            for one in found.options
        )
    return missed, studies


@pytest.mark.parametrize("trust", ["none", "central"])
def test_intervals_cover_the_means_of_the_table_as_often_as_stated(trust: str) -> None:
    # At level .9, a false alarm has a probability below 10⁻⁶. Intervals a quarter as wide are rejected.
    missed, studies = _outside(1.0, trust)
    assert missed <= binom.isf(1e-6, studies, 0.1)
    missed, studies = _outside(0.25, trust)
    assert missed > binom.isf(1e-6, studies, 0.1)
