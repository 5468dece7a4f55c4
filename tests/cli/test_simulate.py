"""`dpbandits simulate`: its JSON, tables and plots, checkpoints, and errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbandits.cli import main
from dpbandits.cli._plot import _spread

from .helpers import check_refused, interrupt

SMALL = [
    "simulate",
    "--actions",
    "40",
    "--dimension",
    "3",
    "--horizon",
    "2000",
    "--runs",
    "3",
    "--workers",
    "1",
]


def _json(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main([*SMALL, "--json", "-", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_json_has_everything_promised(capsys: pytest.CaptureFixture[str]) -> None:
    document = _json(capsys, "--trust", "none", "--trust", "central", "--seed", "5")
    assert document["settings"]["horizon"] == 2000
    assert document["settings"]["trust"] == ["none", "central"]
    assert document["simulated"] is True
    plain, central = document["results"]
    assert plain["trust"] == "none"
    assert plain["guarantee"] is None
    assert central["guarantee"].keys() >= {
        "trust", "epsilon", "delta", "neighbouring", "accountant", "preset"
    }  # fmt: skip
    assert (central["privacy"]["epsilon"], central["privacy"]["delta"]) == (1, 1e-6)
    assert central["guarantee"]["delta"] == 0  # K-norm noise has the least error here
    assert [run["seed"] for run in central["runs"]] == [5, 6, 7]
    run = central["runs"][0]
    assert run.keys() >= {"seed", "regret", "communication", "participants", "best_action_survived", "phases"}
    assert run["communication"]["unit"] == "numbers"
    assert run["phases"][0].keys() >= {
        "index",
        "actions_before",
        "actions_played",
        "rounds",
        "cohort",
        "width",
        "regret",
    }
    assert sum(phase["rounds"] for phase in run["phases"]) == 2000
    regrets = [run["regret"] for run in central["runs"]]
    assert central["summary"]["regret_mean"] == pytest.approx(np.mean(regrets))
    assert central["summary"]["regret_sd"] == pytest.approx(np.std(regrets, ddof=1))


def test_the_delta_that_holds_is_reported_not_the_one_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trust", "central", "--preset", "paper", "--paper-setting"]
    (result,) = _json(capsys, *options)["results"]
    assert result["guarantee"]["delta"] == pytest.approx(0.789, abs=5e-4)
    assert main([*SMALL, *options]) == 0
    assert "requested: δ = 0.25" in " ".join(capsys.readouterr().out.split())


def test_the_paper_is_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = _json(capsys, "--trust", "central", "--paper-setting")["results"]
    assert (result["privacy"]["epsilon"], result["privacy"]["delta"]) == (10, 0.25)
    (result,) = _json(capsys, "--trust", "central", "--paper-setting", "--epsilon", "2")["results"]
    assert (result["privacy"]["epsilon"], result["privacy"]["delta"]) == (2, 0.25)


def test_the_papers_constants_for_comparison(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--trust", "none", "--trust", "central", "--compare-paper"]
    document = _json(capsys, *options)
    rows = [(row["privacy"]["trust"], row["privacy"]["preset"]) for row in document["results"]]
    assert rows == [("none", "tight"), ("central", "tight"), ("none", "paper"), ("central", "paper")]
    assert document["results"][3]["privacy"]["delta"] == 0.25
    assert document["results"][3]["guarantee"]["delta"] > 0.7
    assert main([*SMALL, *options, "--plot", str(tmp_path / "x.png")]) == 0
    shown = capsys.readouterr().out
    assert all(row in shown for row in ("central, tight", "central, paper"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_labels_at_the_ends_of_lines_do_not_overlap() -> None:
    assert _spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert _spread([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    found = _spread([0.1, 0.12, 0.21, 0.9, 0.95], 0.1)
    assert np.diff(found).min() >= 0.1 - 1e-12
    assert found == pytest.approx([0.1433 - 0.1, 0.1433, 0.2433, 0.875, 0.975], abs=1e-3)


def test_two_runs_of_one_seed_write_the_same_bytes_whatever_the_workers(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, workers in zip(files, ("1", "2"), strict=True):
        assert main([*SMALL, "--schedule", "equal", "--json", str(path), "--workers", workers]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_table_and_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paper = ["--preset", "paper", "--schedule", "exponential"]
    assert main([*SMALL, *paper, "--plot", str(tmp_path / "x.png")]) == 0
    shown = capsys.readouterr()
    assert all(trust in shown.out for trust in ("none", "central", "local", "shuffle"))
    assert "bits" in shown.out
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert "x.png" in shown.err


def test_actions_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("price,discount\n0.5,0.1\n0.2,0.9\n-0.4,0.3\n")
    (result,) = _json(capsys, "--trust", "none", "--actions-file", str(path))["results"]
    assert result["runs"][0]["phases"][0]["actions_before"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0"], "epsilon: got 0.0, expected a finite number > 0"),
        (["--epsilon", "nan"], "epsilon: got nan"),
        (["--epsilon", "many"], "--epsilon: got 'many', expected a number"),
        (["--delta", "-1"], "delta: got -1.0, expected a number >= 0 and < 1"),
        (["--delta", "1"], "delta: got 1.0"),
        (["--horizon", "0"], "horizon: got 0, expected a whole number >= 1"),
        (["--horizon", "2.5"], "--horizon: got '2.5', expected a whole number"),
        (["--alpha", "0"], "alpha: got 0.0, expected a finite number > 0"),
        (["--alpha", "-1"], "alpha: got -1.0"),
        (["--bound", "inf"], "bound: got inf"),
        (["--heterogeneity", "-1"], "heterogeneity: got -1.0"),
        (["--population", "0"], "population: got 0"),
        (["--population", "100"], "needs up to 1,022 clients"),
        (["--trust", "blind"], "--trust: invalid choice: 'blind' (choose from"),
        (["--preset", "loose"], "--preset: invalid choice: 'loose'"),
        (["--algorithm", "x"], "--algorithm: invalid choice: 'x'"),
        (["--trust", "shuffle", "--preset", "paper", "--delta", "0"], "preset: got paper with trust shuffle"),
        (["--trust", "shuffle", "--preset", "paper", "--epsilon", "20"], "epsilon: got 20, expected < 15"),
        (["--trust", "central", "--noise", "binomial"], "noise: got 'binomial', expected one of gaussian"),
        (["--trust", "central", "--noise", "gaussian", "--delta", "0"], "noise: got gaussian with delta 0"),
        (["--noise", "x"], "--noise: invalid choice: 'x'"),
        (["--minimum-share", "0"], "minimum_share: got 0.0"),
        (["--algorithm", "dpe-fixed", "--participants", "9"], "schedule: got budgeted, expected exponential"),
        (["--schedule", "exponential", "--participants", "9"], "participants: got 9, expected none"),
        (["--algorithm", "pe", "--schedule", "budgeted"], "schedule: got budgeted, expected exponential"),
        (["--algorithm", "pe", "--participants", "9"], "schedule: got budgeted, expected exponential"),
        (["--algorithm", "pe", "--maximum-cohort", "9"], "maximum_cohort: got 9, expected none"),
        (["--algorithm", "pe", "--population", "100"], "needs up to 2,000 clients"),
        (
            ["--algorithm", "pe", "--trust", "shuffle", "--preset", "paper", "--epsilon", "30"],
            "epsilon: got 30, expected < 30",
        ),
        (["--silent-share", "1"], "silent_share: got 1.0"),
        (["--confidence", "0.9", "--safety-margin", "0"], "current_action: got None, expected the index"),
        (["--loss-allowance", "1", "--current-action", "0"], "confidence: got None, expected a number"),
        (["--runs", "0"], "runs: got 0"),
        (["--seed", "-1"], "seed: got -1"),
        (["--instance-seed", "-1"], "instance_seed: got -1"),
        (["--workers", "0"], "workers: got 0"),
        (["--actions-file", "gone.csv"], "actions-file: got gone.csv"),
        (["--plot", "x.doc"], "plot: got x.doc"),
        (["--plot", "/no/such/folder/x.png"], "plot: got /no/such/folder/x.png"),
        (["--json", "/no/such/folder/x.json"], "json: got /no/such/folder/x.json"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused([*SMALL, "--alpha", "1", *options], message, capsys)


@pytest.mark.parametrize(
    ("content", "message"),
    [("0.1,nan\n", "actions[0, 1]: got nan"), ("0.1,inf\n", "got inf"), ("0.9,0.9\n", "norm 1.27")],
)
def test_bad_actions_in_a_file(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert main([*SMALL, "--actions-file", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_one_client_per_round(capsys: pytest.CaptureFixture[str]) -> None:
    document = _json(capsys, "--algorithm", "pe", "--epsilon", "1", "--delta", "1e-6")
    assert document["settings"]["population"] is None
    assert [result["trust"] for result in document["results"]] == ["none", "central", "local", "shuffle"]
    for result in document["results"]:
        for run in result["runs"]:
            assert sum(phase["rounds"] for phase in run["phases"]) == 2000
            assert all(phase["cohort"] in (0, phase["rounds"]) for phase in run["phases"])
        assert result["guarantee"] is None or result["guarantee"]["delta"] <= 1e-6
    assert _json(capsys, "--trust", "none")["settings"]["population"] == 10**5


def test_participants_of_table_2_and_the_population_error(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["simulate", "--trust", "none", "--schedule", "exponential"]
    options += ["--runs", "1", "--workers", "1", "--json", "-"]
    for alpha, participants in [("0.5", 437), ("0.6", 997), ("0.7", 2321), ("0.8", 5532), ("0.9", 13381)]:
        assert main([*options, "--horizon", "50000", "--alpha", alpha]) == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert result["runs"][0]["participants"] == participants
    assert main([*options, "--alpha", "0.9"]) == 2
    assert "162,211 clients" in capsys.readouterr().err
    assert main([*options, "--alpha", "0.9", "--when-clients-run-out", "stop"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["runs"][0]["participants"] <= 100_000


def test_a_safeguard_makes_the_first_phase_longer(capsys: pytest.CaptureFixture[str]) -> None:
    usual = ["--trust", "none", "--runs", "1", "--horizon", "20000", "--schedule", "equal"]
    usual += ["--participants", "300", "--confidence", "0.9", "--family", "sphere"]
    guarded = ["--current-action", "0", "--safety-margin", "0.1", "--loss-allowance", "0.5"]
    phases = [_json(capsys, *usual, *more)["results"][0]["runs"][0]["phases"] for more in ([], guarded)]
    assert phases[1][0]["rounds"] == 4 * phases[0][0]["rounds"]  # losses are at most 2, and may be .5


def test_options_that_switch_something_off_are_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    settings = _json(capsys, "--trust", "none", "--population", "unlimited", "--no-bounded-rewards")[
        "settings"
    ]
    assert settings["population"] is None
    assert settings["bounded_rewards"] is False
    assert main(["simulate", "--trust", "none", "--runs", "1", "--workers", "1", "--alpha", "0.9",
                 "--population", "unlimited", "--json", "-"]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["results"][0]["runs"][0]["participants"] == 162_211


def test_ctrl_c_shows_what_is_done_and_a_checkpoint_goes_on(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs.jsonl"
    command = [
        sys.executable, "-m", "dpbandits.cli", "simulate", "--trust", "none", "--runs", "400",
        "--workers", "2", "--checkpoint", str(checkpoint),
    ]  # fmt: skip
    out, err = interrupt(command, checkpoint)
    assert "interrupted after" in err
    assert "none" in out
    done = len(checkpoint.read_bytes().splitlines())
    assert 0 < done < 400
    again = subprocess.run(
        [*command[:-5], "3", *command[-4:], "--json", "-"], capture_output=True, text=True, check=True
    )
    assert len(json.loads(again.stdout)["results"][0]["runs"]) == 3


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["simulate", "--help"])
    shown = capsys.readouterr().out
    for option in ("--trust", "--epsilon", "--checkpoint", "--when-clients-run-out", "--maximum-cohort"):
        assert option in shown
    assert "default: None" not in shown
    assert "(default: 20)" in shown
    assert "seed of the first run (default: 0)" in shown
    with pytest.raises(SystemExit, match="0"):
        main(["verify", "--help"])
    assert "default: []" not in capsys.readouterr().out
