"""Real data on the command line: results are labelled semi-real, and bad input gives a one-line error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpbandits.cli import main
from tests.world.files import cellular_text, ranking_text, write

from .helpers import check_refused

SHORT = ["simulate", "--runs", "1", "--workers", "1", "--horizon", "2000", "--trust", "none"]


@pytest.fixture(name="table")
def _table(tmp_path: Path) -> str:
    return f"cellular:{write(tmp_path / 'cells.csv', cellular_text())}"


@pytest.mark.parametrize("users", ["fitted", "resampled", "measured"])
def test_tables_and_json_say_semi_real(users: str, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--data", table, "--users", users]) == 0
    assert f"semi-real (cells.csv, {users} users)" in " ".join(capsys.readouterr().out.split())
    assert main([*SHORT, "--data", table, "--users", users, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["semi_real"] is True
    assert document["settings"]["data"] == table
    (run,) = document["results"][0]["runs"]
    assert run["final_gap"] >= 0
    assert 0 <= run["final_action"] < 84


def test_what_is_drawn_is_not_called_semi_real(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--actions", "20", "--dimension", "3", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["semi_real"] is False


def test_a_plan_on_real_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "rank.txt.gz", ranking_text())
    options = ["--actions", "30", "--dimension", "4", "--horizon", "2000", "--runs", "1", "--epsilons", "5"]
    assert main(["plan", "--trust", "central", "--data", f"ranking:{path}", *options]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "semi-real (rank.txt.gz, fitted users), central, 2,000 rounds, 30 actions in R^4" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "ranking:nowhere.txt"], "data: got nowhere.txt, expected an existing file"),
        (["--data", "cellular:nowhere.csv"], "data: got nowhere.csv, expected an existing file"),
        (["--data", "elsewhere"], "data: got 'elsewhere', expected one of mslr-sample, ranking:PATH"),
        (["--data", "mslr-sample", "--heterogeneity", "0.3"], "heterogeneity: got 0.3, expected none"),
        (
            ["--data", "mslr-sample", "--family", "ball"],
            "family: got ball, expected none: the data set determines it",
        ),
        (
            ["--data", "mslr-sample", "--users", "measured"],
            "users: got measured, expected fitted or resampled",
        ),
        (["--data", "mslr-sample", "--actions", "6000"], "actions: got 6000, expected at most 4,999"),
        (["--data", "mslr-sample", "--dimension", "200"], "dimension: got 200, expected at most"),
    ],
)
def test_bad_data_is_one_line(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_refused([*SHORT, *options], message, capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:2\n1 qid:2 one:2\n", "line 2: feature: got one:2, expected index:value"),
        ("1 1:2\n", "line 1: query: got 1:2, expected qid:QUERY after the relevance; queries are the users"),
        ("1 qid:1 1:2\n0 qid:1 1:3\n", "with 1 query, expected at least 2: queries are the users"),
    ],
)
def test_a_wrong_line_and_a_file_without_users_are_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "r.txt", text)
    check_refused([*SHORT, "--data", f"ranking:{path}", "--dimension", "2"], message, capsys)
