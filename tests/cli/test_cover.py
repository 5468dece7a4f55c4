"""`dpbandits cover`: the file that it writes, and how simulations use it."""

from __future__ import annotations

import json

import pytest

from dpbandits.actions import Actions
from dpbandits.cli import main


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
@pytest.mark.parametrize("kind", ["box", "ball", "simplex"])
def test_the_file_holds_actions(kind, suffix, tmp_path, capsys) -> None:
    out = tmp_path / f"cover{suffix}"
    assert main(["cover", kind, "--dimension", "3", "--radius", ".3", "--out", str(out), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    actions = Actions.load(out)
    assert actions.count == document["count"]
    assert actions.dimension == document["dimension"] == 3
    assert document["loss_per_round_and_unit_norm"] == document["radius"] <= document["radius_asked"] == 0.3


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_regret_is_reported_against_the_continuous_set_too(suffix, tmp_path, capsys) -> None:
    out = str(tmp_path / f"cover{suffix}")
    assert main(["cover", "ball", "--dimension", "2", "--radius", ".2", "--out", out, "--json", "-"]) == 0
    loss = json.loads(capsys.readouterr().out)["loss_per_round_and_unit_norm"]
    problem = ["--actions-file", out, "--horizon", "2000", "--runs", "1", "--trust", "none"]
    assert main(["simulate", *problem, "--workers", "1", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)["results"][0]
    run, summary = result["runs"][0], result["summary"]
    assert run["cover_loss"] == pytest.approx(2000 * loss)  # θ* is on the unit sphere
    assert run["regret_with_cover"] == summary["regret_with_cover_mean"] == run["regret"] + run["cover_loss"]
    assert main(["simulate", *problem, "--workers", "1"]) == 0
    said = f"best point is at most {2000 * loss:,.0f} larger"
    assert said in " ".join(capsys.readouterr().out.split())
    assert main(["plan", *problem, "--json", str(tmp_path / "plan.json")]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    rows = json.loads((tmp_path / "plan.json").read_text())["rows"]
    assert {row["cover_loss"] for row in rows} == {2000 * loss}


def test_own_actions_have_no_cover(capsys) -> None:
    assert main(["simulate", "--horizon", "500", "--runs", "1", "--trust", "none", "--workers", "1"]) == 0
    assert "continuous" not in capsys.readouterr().out


def test_the_table_shows_the_cover(tmp_path, capsys) -> None:
    assert main(["cover", "box", "--dimension", "2", "--radius", "0.1"]) == 0
    shown = capsys.readouterr().out
    assert "100 points of the box in 2 dimensions" in shown
    assert "at most 0.1 × ‖θ*‖" in shown


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["ball", "--dimension", "20", "--radius", ".1"], "at least 10^"),
        (["box", "--dimension", "2", "--radius", ".1", "--count-limit", "50"], "which needs 100 points"),
        (["box", "--dimension", "0", "--radius", ".1"], "dimension"),
        (["box", "--dimension", "2", "--radius", "0"], "radius"),
        (["box", "--dimension", "2", "--radius", ".1", "--count-limit", "0"], "count_limit"),
        (["box", "--dimension", "2", "--radius", ".1", "--out", "x.txt"], ".npz or .csv"),
        (["box", "--dimension", "2", "--radius", ".1", "--out", "/no/such/x.csv"], "folder"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(arguments, named, capsys) -> None:
    assert main(["cover", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert named in shown.err
