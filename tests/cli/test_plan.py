"""`dpbandits plan`: its rows, its study files, and errors in one line."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from dpbandits.cli import main
from dpbandits.cli._plan_reserving import reserve
from dpbandits.options import Options
from dpbandits.protocol import Safeguard
from dpbandits.service.config import TomlFile, study_of
from dpbandits.simulation import Setting

from .helpers import check_refused

SMALL = ["plan", "--actions", "60", "--dimension", "4", "--horizon", "20000", "--participants", "2000"]


def test_rows_for_every_schedule_and_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["--runs", "1", "--workers", "1"]
    assert main([*SMALL, "--epsilons", "1", "10", *runs, "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["epsilon"], row["schedule"]) for row in rows] == [
        (epsilon, schedule) for epsilon in (1, 10) for schedule in ("exponential", "equal", "budgeted")
    ]
    for row in rows:
        assert row["predicted_regret"] <= row["bound_on_regret"] * 1.5
        assert row["participants"] > 0
        assert row["communication"] > 0
        assert row["simulated_regret"] > 0
        assert row["reach"]["mean"] == pytest.approx(row["reach"]["factor"] * row["reach"]["honest"])
        assert row["reach"]["factor"] > 1
        assert 0 <= row["chance_of_best"] <= 1
        assert 0 <= row["expected_gap"] <= 2
        assert row["report_bytes"] > 0
        assert row["predicted_median"] > 0
    assert rows[2]["predicted_regret"] <= rows[0]["predicted_regret"]


def test_the_participants_until_sure_are_shown_with_a_confidence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = ["plan", "--actions", "8", "--dimension", "2", "--horizon", "5000", "--participants", "400"]
    sure = ["--trust", "none", "--confidence", "0.95", "--objective", "identification"]
    assert main([*few, *sure, "--json", str(tmp_path / "p.json")]) == 0
    shown = capsys.readouterr().out
    assert "until sure" in shown
    assert "% sure)" in shown
    rows = json.loads((tmp_path / "p.json").read_text())["rows"]
    assert all(0 < row["until_sure"] <= row["participants"] for row in rows)
    assert rows[2]["until_sure"] < rows[0]["until_sure"]
    assert all(0 <= row["chance_of_sure"] <= 1 for row in rows)


def test_it_says_plainly_when_nothing_can_be_learnt(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--trust", "local", "--epsilons", "0.01", "--runs", "0", "--horizon", "1000"]
    assert main([*SMALL, *options, "--plot", str(tmp_path / "p.png")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "these settings will never eliminate an action" in shown
    assert "More participants, a larger ε" in shown
    assert "first cohort: one lying client moves a mean by at most" in shown
    assert (tmp_path / "p.png").exists()


def test_several_trust_models_have_rows_each_and_progress_is_shown_without_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trusts = ["--trust", "central", "none", "local", "--minimum-share", "0.8"]
    drawn = ["--plot", str(tmp_path / "p.png"), "--json", str(tmp_path / "p.json")]
    assert main([*SMALL, *trusts, "--epsilons", "2", "--runs", "0", *drawn]) == 0
    shown = capsys.readouterr()
    document = json.loads((tmp_path / "p.json").read_text())
    assert [row["trust"] for row in document["rows"]] == ["central"] * 3 + ["none"] * 3 + ["local"] * 3
    assert document["settings"]["trust"] == ["central", "none", "local"]
    assert document["settings"]["minimum_share"] == 0.8
    assert "planned 9 of 9 rows: local, budgeted at ε = 2" in shown.err
    told = " ".join(shown.out.split())
    assert "local, budgeted at ε = 2, first cohort: list has the least predicted error; " in told
    assert "without trust in anybody, no unbiased report can have less than" in told
    last = document["rows"][-1]
    assert 0.95 <= (last["least_deviation"] / last["deviation"]) ** 2 <= 1  # the variance is at most 1.05 ×
    assert last["noises"]["list"] == min(last["noises"].values())
    assert [row["least_deviation"] is None for row in document["rows"]] == [True] * 6 + [False] * 3
    for heading in ("trust", "median", "finds the best", "gap of the choice", "report"):
        assert heading.split()[0] in shown.out
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "p-central.png", "p-local.png", "p-none.png",
    ]  # fmt: skip


def test_rows_that_need_more_clients_than_there_are_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    # The exponential schedule asks for more clients than --participants.
    few = ["--population", "2000", "--epsilons", "1", "--runs", "0"]
    assert main([*SMALL, *few, "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["not_enough_clients"] for row in rows] == [True, False, False]
    assert rows[0]["participants"] > 2000
    assert rows[0]["predicted_regret"] is None
    assert not rows[0]["never_eliminates"]
    assert main([*SMALL, *few]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"needs {rows[0]['participants']:,} clients, but the population has 2,000" in shown


def test_without_privacy_there_is_one_row_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--trust", "none", "--runs", "1", "--workers", "1"]) == 0
    assert capsys.readouterr().out.count("phase 1") >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--epsilons", "0"], "epsilon: got 0.0"), (["--runs", "-1"], "runs: got -1"),
     (["--participants", "0"], "participants: got 0"), (["--trust", "x"], "--trust: invalid choice")],
)  # fmt: skip
def test_bad_input_ends_with_status_2_and_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused([*SMALL, *options], message, capsys)


def test_a_written_plan_reserves_what_a_file_with_participants_reserves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table, made = tmp_path / "plans.csv", tmp_path / "study.toml"
    table.write_text("name,price\na,1\nb,2\nc,3\nd,4\n")
    options = ["plan", "--options", str(table), "--current", "b", "--horizon", "5000", "--trust", "central"]
    options += ["--participants", "2000", "--write", str(made), "--reward-range", "0", "4"]
    options += ["--confidence", "0.9", "--safety-margin", "0.1", "--loss-allowance", "0.25"]
    assert main([*options, "--notice-misfit", "0.6"]) == 0
    assert "[safeguard]\nmargin = 0.2\nallowance = 0.5\n\n" in made.read_text()
    study = study_of(TomlFile(made))
    assert study.confirmation is not None
    assert study.fit_test is not None
    assert study.safeguard == Safeguard(current=1, margin=0.1, allowance=0.25)
    assert (study.confirmation.current, study.confirmation.cohort) == (1, 400)
    assert sum(study.schedule.cohorts or ()) == 2000 - study.after_learning
    shown = capsys.readouterr().err
    assert f"reserved: {study.fit_test.cohort:,} participants test" in shown
    assert "400 participants compare finalists with the current option" in shown
    # A file that names only the participants reserves and plans the same.
    head = made.read_text().split("[schedule]")[0]
    rest = "[fit_test]\nnotice = 0.6\n[safeguard]\nmargin = 0.2\nallowance = 0.5\n"
    made.write_text(f"{head}[schedule]\nparticipants = 2000\n{rest}")
    assert study_of(TomlFile(made)) == study
    capsys.readouterr()
    given = Namespace(confirm=False, notice_misfit=None, reward_range=None)
    setting = Setting.of(trust="central", participants=2000)
    assert reserve(setting, Options.from_table(table, current="b"), given).setting == setting
    check_refused([*SMALL, "--notice-misfit", "0.3"], "notice_misfit: got 0.3, expected --write", capsys)


def test_a_plan_is_written_as_a_study_file_that_is_read_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    actions, made = tmp_path / "actions.csv", tmp_path / "studies" / "study.toml"
    made.parent.mkdir()
    actions.write_text("0.9,0\n0,0.9\n0.6,0.6\n-0.5,0.5\n")
    options = ["--actions-file", str(actions), "--horizon", "5000", "--participants", "300", "--runs", "0"]
    private = ["--trust", "central", "--epsilon", "2", "--delta", "1e-5"]
    assert main(["plan", *options, *private, "--write", str(made)]) == 0
    shown = capsys.readouterr()
    assert f"study file: {made}" in shown.err
    study = study_of(TomlFile(made))
    assert sum(study.schedule.cohorts or ()) == 300
    assert (study.privacy.trust, study.privacy.epsilon, study.privacy.delta) == ("central", 2.0, 1e-5)
    assert study.horizon == 5000
    assert f"{study.schedule.cohorts[0]:,}" in shown.out  # type: ignore[index]
    # A study file that names only the participants is planned to the same schedule.
    made.write_text(made.read_text().split("[schedule]")[0] + "[schedule]\nparticipants = 300\n")
    assert study_of(TomlFile(made)).schedule == study.schedule
    check_refused(["plan", *options, "--write", str(made)], "no file yet", capsys)
    several = ["--trust", "central", "local", "--write", str(tmp_path / "new.toml")]
    check_refused(["plan", *options, *several], "one trust model with --write", capsys)
    check_refused([*SMALL, "--write", str(tmp_path / "new.toml")], "--actions-file as well", capsys)
