"""`choose` finds the best option with people of every kind, and says how sure it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import dpbandits as dp
from dpbandits import examples
from dpbandits.answers import RewardRange, answer_of
from dpbandits.choosing import answer, people_of, planned
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Spending, check_level, fitted, leader
from dpbandits.world import FittedPopulation

OPTIONS = dp.Options.grid(price=[1, 2, 3, 4], colour=["red", "green"], current={"price": 3, "colour": "red"})
MEANS = {
    label: 7.0 - row[1] + (1.0 if row[2] == "green" else 0.0)
    for label in OPTIONS.labels
    for row in [(None, int(label[6]), label.rpartition("=")[2])]
}
BEST = "price=1, colour=green"


def _person(label: str, rng: np.random.Generator) -> float:
    return MEANS[label] + rng.uniform(-1, 1)


def _clients(count: int) -> list[Callable[[str], float]]:
    rng = np.random.default_rng(3)
    return [lambda label, taste=taste: MEANS[label] + taste for taste in rng.uniform(-1, 1, count)]  # type: ignore[misc]


def _table(count: int) -> dict[str, list[float]]:
    rng = np.random.default_rng(4)
    return {label: (mean + rng.uniform(-1, 1, count)).tolist() for label, mean in MEANS.items()}


def _choose(people: object = _person, **settings: Any) -> dp.Found:
    chosen = {
        "participants": 400,
        "trust": "central",
        "horizon": 5000,
        "reward_range": (0, 10),
        "seed": 1,
        "noise": dp.SimulatedNoise(np.random.default_rng(2)),
    }
    return dp.choose(OPTIONS, people=people, **{**chosen, **settings})


@pytest.mark.parametrize("level", [1 - 3e-7, 1 - 1e-7, 1 - 1e-12])
def test_a_level_that_no_confirmation_can_have_is_refused_before_anybody_is_asked(level: float) -> None:
    def nobody(*_asked: object) -> float:
        raise AssertionError("somebody was asked")

    with pytest.raises(InvalidValue, match=r"level: got 0\.99999.*, expected below 0\.9999997"):
        _choose(nobody, level=level, horizon=10**14)
    state = examples.after_one_phase(
        replace(examples.study(), confirmation=dp.Confirmation(current=0, cohort=9))
    )
    with pytest.raises(InvalidValue, match=r"expected below 0\.9999997 with a confirmation"):
        answer_of(state, None, level=level)
    assert answer_of(examples.after_one_phase(examples.study()), None, level=level).level == level


def test_the_highest_level_that_a_confirmation_can_have_is_accepted() -> None:
    check_level(1 - 3.0001e-7, dp.Confirmation(current=0, cohort=9))


@pytest.fixture(name="found", scope="module")
def _found() -> dp.Found:
    return _choose()


@pytest.mark.parametrize("trust", ["none", "central", "shuffle", "local"])
def test_the_best_option_is_found_in_every_trust_model(trust: str) -> None:
    found = _choose(trust=trust, epsilon=8)
    assert found.best == BEST
    low, high = found.interval
    assert low <= MEANS[BEST] <= high
    assert found.lead.low <= MEANS[BEST] - MEANS[found.lead.over] <= found.lead.high
    change = found.lead_over_current
    assert change is not None
    assert change.over == "price=3, colour=red"
    assert change.low <= 3 <= change.high
    confirmed = found.confirmation
    assert confirmed is not None
    assert (confirmed.best, confirmed.current, confirmed.participants) == (BEST, found.current, 80)
    for one in confirmed.compared:
        assert one.low <= MEANS[one.option] - MEANS[confirmed.current] <= one.high
    assert f"confirmed  {BEST} beats the current option by " in repr(found)
    assert sum(one.cohort for one in found.state.progress) == 400


@pytest.mark.parametrize(
    "people",
    [
        _person,
        lambda label: MEANS[label],
        lambda: _clients(400),
        lambda: iter(_clients(10_000)),
        lambda: {f"customer {n}": one for n, one in enumerate(_clients(400))},
        lambda: _table(450),
    ],
    ids=["label and rng", "label", "list", "iterator", "mapping", "table"],
)
def test_every_kind_of_people_is_accepted(people: Any) -> None:
    given = people() if people is not _person and not people.__code__.co_argcount else people
    found = _choose(given, trust="central")
    assert found.best == BEST
    assert found.participants == 400
    for one in found.options:
        assert one.low <= MEANS[one.option] <= one.high
        assert one.behind_low <= MEANS[BEST] - MEANS[one.option] <= one.behind_high


def test_what_is_known_about_rewards_and_models_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_search(study: dp.Study, participants: int) -> Spending:
        schedule = dp.Schedule(cohorts=(participants,), first_length=40)
        return Spending(schedule=schedule, design_tolerance=study.design_tolerance)

    monkeypatch.setattr("dpbandits.choosing._planning.budgeted", without_search)
    known = _choose(trust="none", reward_variance=1 / 3, notice_misfit=1.0, misfit=0.01, confirm=0.5)
    assert known.fit is not None
    assert known.fit.explained
    assert f"fit        {known.fit}" in repr(known)
    study = known.state.study
    assert study.misfit == pytest.approx(0.002)
    assert study.reward_variance == pytest.approx(1 / 75)
    assert study.confirmation is not None
    assert 0 < study.confirmation.cohort < 80
    assert known.participants == 400
    assert _choose(trust="none", confirm=False).confirmation is None
    for setting in ({"reward_variance": 1.0}, {"notice_misfit": 1.0}):
        with pytest.raises(InvalidValue, match="expected none, because only the range of these rewards"):
            _choose(people=_clients(400), **setting)
    with pytest.raises(InvalidValue, match="reward_variance: got much, expected a finite number > 0"):
        _choose(reward_variance="much")


def test_a_population_of_the_library_is_accepted() -> None:
    theta = np.linalg.lstsq(OPTIONS.actions.matrix, np.array(list(MEANS.values())) / 10 - 0.5, rcond=None)[0]
    population = dp.Population(dp.Instance(OPTIONS.actions, theta), heterogeneity=0.1, size=400)
    found = _choose(population, reward_range=(-1, 1))
    assert found.best == BEST
    assert found.state.study.heterogeneity == 0.1
    with pytest.raises(InvalidValue, match=r"people: got 0, expected at least 400, since each participant"):
        _choose(population, reward_range=(-1, 1))


def test_each_person_of_a_table_is_asked_at_most_once() -> None:
    people = people_of(_table(30), OPTIONS, RewardRange(low=0, high=10))
    seen = list(people.clients(30, seed=5).values())
    plan = type("Plan", (), {"support": tuple(range(8))})()
    rows = {tuple(client(plan) or ()) for client in seen}  # type: ignore[arg-type]
    assert len(rows) == 30
    assert max(max(row) for row in rows) <= 1


def test_the_answer_is_the_leader_of_the_pooled_estimate(found: dp.Found) -> None:
    state = found.state
    assert found.best == OPTIONS.labels[leader(state)]
    pooled = state.study.reward_model.pool([fitted(state.study, one) for one in state.history])
    expected = 5 + 5 * float(OPTIONS.actions.matrix[leader(state)] @ pooled)
    assert found.estimate == pytest.approx(expected)


def test_the_pooled_leader_may_differ_from_the_last_phase() -> None:
    # Near ties, little data: the last phase alone often prefers another option.
    options = dp.Options.grid(a=[0, 1, 2], b=[0, 1, 2])
    differ = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        theta = 0.02 * rng.standard_normal(3)
        people = people_of(
            dp.Population(dp.Instance(options.actions, theta), heterogeneity=0.0), options, RewardRange()
        )
        study = dp.Study(
            actions=options.actions,
            horizon=10**4,
            heterogeneity=0.0,
            schedule=dp.Schedule(cohorts=(60, 40), first_length=6, growth=2),
        )
        found = answer(options, study, people, rewards=RewardRange(), seed=seed)
        assert found.best == options.labels[leader(found.state)]
        scores = options.actions.matrix @ np.array(found.state.estimate)
        differ += found.best != options.labels[int(np.argmax(scores))]
    assert differ > 0


def test_rewards_are_scaled_back_and_clipped() -> None:
    narrow = _choose(lambda label: 1e9 if label == BEST else -1e9, reward_range=(2, 4), trust="none")
    assert narrow.best == BEST
    for one in narrow.options:
        assert 2 - 1e-9 <= one.low <= one.high <= 4 + 1e-9
    same = _choose(lambda label, rng: 100 * _person(label, rng), reward_range=(0, 1000))
    once = _choose()
    assert same.estimate == pytest.approx(100 * once.estimate)
    assert same.interval == pytest.approx([100 * end for end in once.interval])
    assert same.lead.interval == pytest.approx([100 * end for end in once.lead.interval])
    effects = zip(same.effects, once.effects, strict=True)
    assert all(one.estimate == pytest.approx(100 * two.estimate) for one, two in effects)


def test_effects_are_in_the_users_units(found: dp.Found) -> None:
    truth = {"intercept": 7.0, "price": -1.0, "colour=green": 1.0}
    assert {one.term for one in found.effects} == set(truth)
    for one in found.effects:
        assert one.low is not None
        assert one.high is not None
        assert one.low <= truth[one.term] <= one.high


def test_phases_that_contradict_each_other_are_reported() -> None:
    bent = {label: (9.0 if label == "price=4, colour=red" else 1.0) for label in OPTIONS.labels}
    found = _choose(lambda label: bent[label], trust="none", participants=2000, horizon=10**5)
    assert not found.consistent
    assert "phases contradict each other" in repr(found)
    assert _choose(trust="none").consistent


def test_the_noise_is_secure_unless_it_is_replaced(found: dp.Found) -> None:
    assert found.simulated
    assert found.guarantee is None
    assert "no guarantee" in repr(found)
    real = _choose(noise=None)
    assert not real.simulated
    assert real.guarantee is not None
    assert real.guarantee.delta <= 1e-6
    assert "-DP, trust central" in repr(real)
    again = _choose(noise=None)
    assert again.estimate != real.estimate  # equal seeds do not repeat the privacy noise
    assert _choose() == found


def test_too_few_participants_are_refused_with_a_number_that_suffices() -> None:
    with pytest.raises(InvalidValue) as caught:
        _choose(trust="local", epsilon=0.5, participants=100)
    match = re.fullmatch(
        r"participants: got 100, expected about ([\d,]+) to learn anything about 3 columns "
        r"\(intercept, price, colour=green\), .*",
        str(caught.value),
    )
    assert match is not None
    enough = int(match[1].replace(",", ""))
    people = people_of(_person, OPTIONS, RewardRange(low=0, high=10))
    privacy = dp.PrivacyRequest(trust="local", epsilon=0.5)
    study = planned(OPTIONS, people, participants=enough, horizon=5000, privacy=privacy, failure=0.05)
    assert study.schedule.cohorts is not None
    assert sum(study.schedule.cohorts) == enough


def _wrong_calls() -> dict[str, tuple[dict[str, Any], str]]:
    other = dp.Actions.generate("sphere", count=8, dimension=3, rng=1)
    stranger = dp.Population(dp.Instance(other, [1, 0, 0]), heterogeneity=0.1)
    own = dp.Instance(OPTIONS.actions, [0.1, 0, 0])
    semi_real = FittedPopulation(own, covariance=np.eye(3) * 0.01)
    table = _table(400)
    holes = {**table, BEST: [*table[BEST][:-1], None]}
    words = {**table, BEST: ["fine", *table[BEST][1:]]}
    return {
        "participants": ({"participants": 0}, "participants: got 0, expected a whole number >= 1"),
        "participants as text": ({"participants": "many"}, "participants: got many, expected a whole number"),
        "trust": ({"trust": "blind"}, "trust: got 'blind', expected one of none, central, local, shuffle"),
        "epsilon": ({"epsilon": -1}, "epsilon: got -1, expected a finite number > 0"),
        "delta": ({"delta": 1}, "delta: got 1, expected a number >= 0 and < 1"),
        "horizon": ({"horizon": 0}, "horizon: got 0, expected a whole number >= 1"),
        "short horizon": ({"horizon": 3}, "horizon: got 3, expected more than 60 for this level"),
        "horizon of a table": (
            {"horizon": 2, "people": _table(400)},
            "horizon: got 2, expected at least 4 rounds, which one phase needs",
        ),
        "level": ({"level": 1.0}, "level: got 1.0, expected a number strictly between 0 and 1"),
        "level for the horizon": ({"level": 0.9999, "horizon": 500}, "horizon: got 500, expected more than"),
        "seed": ({"seed": -1}, "seed: got -1, expected a whole number >= 0"),
        "reward range": (
            {"reward_range": (1, 0)},
            "reward_range: got (1, 0), expected a pair of finite numbers",
        ),
        "one end": (
            {"reward_range": 5},
            "reward_range: got 5, expected a pair of finite numbers (low, high)",
        ),
        "infinite range": ({"reward_range": (0, np.inf)}, "reward_range: got (0, inf), expected a pair"),
        "heterogeneity": ({"heterogeneity": -0.1}, "heterogeneity: got -0.1, expected a finite number >= 0"),
        "nobody": ({"people": None}, "people: got NoneType, expected a function people(label)"),
        "a number": ({"people": 7}, "people: got int, expected a function people(label)"),
        "three arguments": (
            {"people": lambda a, b, c: 0.0},
            "people: got a function of 3 arguments, expected a function people(label) or people(label, rng)",
        ),
        "no arguments": (
            {"people": lambda: 0.0},
            "people: got a function of 0 arguments, expected a function",
        ),
        "few clients": ({"people": _clients(399)}, "people: got 399, expected at least 400, since each"),
        "few rows": ({"people": _table(399)}, "people: got 399, expected at least 400, since each"),
        "client that is none": (
            {"people": [*_clients(399), 3]},
            "people, client 400: got int, expected a function of a label",
        ),
        "column": (
            {"people": {"price=1, colour=red": [1.0]}},
            "people: got no column 'price=1, colour=green'",
        ),
        "hole": (
            {"people": holes},
            f"people, column {BEST}, row 400: got a missing value, expected a finite number",
        ),
        "text": ({"people": words}, f"people, column {BEST}, row 1: got str, expected a finite number"),
        "reward": (
            {"people": lambda label: None},
            "people, reward of 'price=",
        ),
        "infinite reward": ({"people": lambda label: np.inf}, "people, reward of 'price="),
        "stranger": (
            {"people": stranger, "reward_range": (-1, 1)},
            "people: got a population with other actions, expected one whose instance has options.actions",
        ),
        "scaled population": (
            {"people": dp.Population(own, heterogeneity=0.1)},
            "reward_range: got (0.0, 10.0), expected (-1, 1) for a population",
        ),
        "unknown spread": (
            {"people": semi_real, "reward_range": (-1, 1)},
            "heterogeneity: got None, expected a number >= 0, which a FittedPopulation does not state",
        ),
        "missing file": ({"people": "people.csv"}, "people: got people.csv, expected an existing file"),
    }


@pytest.mark.parametrize("case", _wrong_calls())
def test_a_wrong_call_is_explained_in_one_line(case: str) -> None:
    settings, message = _wrong_calls()[case]
    with pytest.raises(InvalidValue) as caught:
        _choose(**settings)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_options_must_be_options() -> None:
    with pytest.raises(InvalidValue, match=r"options: got list, expected Options, from Options.from_table"):
        dp.choose([1, 2], people=_person)  # type: ignore[arg-type]


def test_a_short_horizon_is_refused_before_anybody_is_asked() -> None:
    asked = list[str]()

    def people(label: str) -> float:
        asked.append(label)
        return 5.0

    with pytest.raises(InvalidValue, match=r"horizon: got 50, expected more than 60 for this level"):
        _choose(people, horizon=50)
    assert asked == []


def test_no_error_contains_a_reward() -> None:
    with pytest.raises(InvalidValue) as caught:
        _choose(lambda label: "secret 123")
    assert "secret" not in str(caught.value)


def test_rows_and_text(found: dp.Found) -> None:
    rows = found.to_rows()
    assert len(rows) == 8
    assert rows[0]["option"] == found.best
    assert [row["estimate"] for row in rows] == sorted((row["estimate"] for row in rows), reverse=True)
    lines = repr(found).splitlines()
    assert lines[0].startswith(f"best       {BEST}: mean reward ")
    assert lines[-1] == "asked      400 people about 8 options"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_escapes_names_and_needs_no_other_file(tmp_path: Path) -> None:
    evil = ['<script>alert("1")</script>', "a & b", "'\"><img src=x>"]
    options = dp.Options.from_table({"name": evil, "<b>price": [1, 2, 3]}, current="a & b")
    noise = dp.SimulatedNoise(np.random.default_rng(1))
    found = dp.choose(
        options,
        people=lambda label: 0.1 * len(label),
        trust="none",
        participants=20,
        horizon=1000,
        noise=noise,
    )
    found.save(tmp_path / "study.html")
    text = (tmp_path / "study.html").read_text(encoding="utf-8")
    for written in (text, found._repr_html_()):
        page = _Page()
        page.feed(written)
        assert not {"script", "img", "link", "iframe"} & set(page.tags)
        assert page.addresses == []
        assert any(evil[0] in one for one in page.text)
    assert "svg" in text
    with pytest.raises(InvalidValue, match=r"path: got .*study.pdf, expected a path that ends in .html"):
        found.save(tmp_path / "study.pdf")


def test_the_plot_is_drawn(found: dp.Found, tmp_path: Path) -> None:
    figure = found.plot(tmp_path / "found.svg", most=5)
    assert len(figure.axes[0].get_yticklabels()) == 5
    assert BEST in figure.axes[0].get_yticklabels()[0].get_text()
    assert (tmp_path / "found.svg").stat().st_size > 1000


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_of_results_and_of_people(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = pytest.importorskip(package)
    if package == "polars":
        monkeypatch.setitem(sys.modules, "pandas", None)
    found = _choose(frames.DataFrame(_table(400)), trust="central")
    frame = found.to_frame()
    assert type(frame).__module__.startswith(package)
    assert next(iter(frame["option"])) == BEST
    assert len(frame) == 8


BLOCKED = """
import sys
sys.modules["pandas"] = sys.modules["polars"] = None
import numpy as np, dpbandits as dp
from dpbandits import *
options = dp.Options.from_table({"name": ["a", "b", "c"], "price": [1, 2, 3]}, current="a")
noise = dp.SimulatedNoise(np.random.default_rng(1))
found = dp.choose(options, people=lambda label: 0.5, trust="none", participants=20, horizon=1000, noise=noise)
print(found.best, len(found.to_rows()), len(found._repr_html_()) > 100)
sys.modules["matplotlib"] = None
for method in (found.to_frame, found.plot):
    try:
        method()
    except dp.DpbanditsError as error:
        print(error)
"""
UNUSED = """
import sys, dpbandits as dp
from dpbandits import *
dp.Options.from_table({"name": ["a", "b", "c"], "price": [1, 2, 3]})
print(sorted({"pandas", "polars", "matplotlib"} & set(sys.modules)))
"""


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_neither_pandas_nor_polars_is_needed() -> None:
    lines = _printed(BLOCKED).splitlines()
    assert lines[0].endswith(" 3 True")
    expected = (
        "to_frame: got neither pandas nor Polars, expected one of them installed; to_rows() needs neither"
    )
    assert lines[1] == expected
    assert lines[2].startswith("plot: got no matplotlib, expected an installed matplotlib: pip install")


def test_neither_pandas_nor_polars_is_imported_before_it_is_needed() -> None:
    assert _printed(UNUSED) == "[]\n"


def _outside(shrink: float) -> tuple[int, int]:
    """Count the studies in which one of all stated means misses the truth, for intervals that are shrunk."""
    options = dp.Options.grid(a=[0, 1, 2], b=[0, 1])
    study = dp.Study(
        actions=options.actions,
        horizon=10**6,
        heterogeneity=0.0,
        bounded_rewards=False,
        schedule=dp.Schedule(cohorts=(20, 20), first_length=6, growth=2),
    )
    missed, studies, rng = 0, 100, np.random.default_rng(11)
    for _ in range(studies):
        theta = 0.1 * rng.standard_normal(3)
        population = dp.Population(dp.Instance(options.actions, theta), heterogeneity=0.0)
        people = people_of(population, options, RewardRange())
        found = answer(
            options, study, people, rewards=RewardRange(), level=0.9, seed=int(rng.integers(2**32))
        )
        means = dict(zip(options.labels, options.actions.matrix @ theta, strict=True))
        missed += any(
            abs(means[one.option] - (one.low + one.high) / 2) > shrink * (one.high - one.low) / 2
            for one in found.options
        )
    return missed, studies


def test_intervals_cover_the_truth_as_often_as_stated() -> None:
    # At level .9, a false alarm has a probability below 10⁻⁶. Intervals a quarter as wide are rejected.
    missed, studies = _outside(1.0)
    assert missed <= binom.isf(1e-6, studies, 0.1)
    missed, studies = _outside(0.25)
    assert missed > binom.isf(1e-6, studies, 0.1)


def test_the_sixty_plans_are_answered_in_six_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = Path(__file__).parents[2] / "examples"
    monkeypatch.syspath_prepend(examples)
    import sixty_options  # type: ignore[import-not-found]

    body = (examples / "sixty_options.py").read_text().partition('"""Find the best plan."""\n')[2]
    answer_lines = body.partition("    return found")[0].splitlines()
    assert 3 <= len(answer_lines) <= 6
    found = sixty_options.main()
    assert len(found.options) == 60
    assert found.best == max(sixty_options.MEANS, key=sixty_options.MEANS.get)
    assert found.guarantee is not None
    assert capsys.readouterr().out == f"{found!r}\n"
