"""`dpbandits account`: its JSON, its table and its plot, and errors in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpbandits.cli import main

from .helpers import check_refused


def _json(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["account", "--json", "-", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_json_has_everything_promised(capsys: pytest.CaptureFixture[str]) -> None:
    document = _json(capsys, "--trust", "shuffle", "--epsilon", "1", "--delta", "1e-6", "--coordinates", "20")
    assert document["compared"].keys() == {"discrete-gaussian", "polya"}
    assert min(document["compared"], key=document["compared"].get) == document["parameters"]["noise"]
    assert document["claimed"] == {"epsilon": 1, "delta": 1e-6}
    holds = document["holds"]
    assert holds["epsilon"] == 1
    assert 0 < holds["delta_lower"] <= holds["delta_upper"] <= 1e-6
    assert holds["delta_upper"] <= 1.02 * holds["delta_lower"]  # a hundredth of δ is for replaced reports
    assert 0.9 < holds["epsilon_at_delta"] <= 1
    assert 1 <= document["error"]["ratio_to_central_gaussian"] <= 1.05
    assert document["parameters"]["levels"] >= 1
    deltas = [point["delta_upper"] for point in document["curve"]]
    assert deltas == sorted(deltas, reverse=True)


def test_the_papers_gaussian_is_not_what_it_claims(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trust", "central", "--preset", "paper", "--epsilon", "10", "--delta", ".25"]
    assert _json(capsys, *options)["holds"]["delta_lower"] == pytest.approx(0.789, abs=5e-4)
    assert main(["account", *options]) == 0
    assert "NOT AS CLAIMED" in capsys.readouterr().out


def test_the_papers_shuffle_is_far_more_than_it_claims(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--preset", "paper", "--epsilon", "10", "--delta", ".25", "--at-delta", "1e-9"]
    document = _json(capsys, "--trust", "shuffle", "--coordinates", "60", *options)
    assert document["holds"]["epsilon_at_delta"] <= 0.12
    assert document["error"]["ratio_to_central_gaussian"] > 100


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        (["--trust", "central", "--clip", "ball"], 1, 1.001),
        (["--trust", "shuffle"], 2, 50),
        (["--trust", "shuffle", "--noise", "skellam"], 2, 50),
        (["--trust", "shuffle", "--noise", "polya", "--delta", "0"], 100, 1e6),
        (["--trust", "local", "--clip", "ball"], 2, 200),
    ],
)
def test_it_prints_how_far_one_liar_reaches(
    options: list[str], least: float, most: float, capsys: pytest.CaptureFixture[str]
) -> None:
    reach = _json(capsys, *options, "--coordinates", "4", "--cohort", "100")["reach"]
    assert least <= reach["factor"] <= most
    assert reach["honest"] == pytest.approx(0.02)
    assert reach["mean"] == pytest.approx(0.02 * reach["factor"])
    assert main(["account", *options, "--coordinates", "4", "--cohort", "100"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    moved = f"at most {reach['mean']:.4g}, {reach['factor']:.4g} × the largest effect of an honest client"
    assert moved in shown
    assert ("in split mode without any bound" in shown) == (options[1] == "shuffle")


def test_it_prints_the_cost_of_a_report_in_each_mode(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--coordinates", "4", "--cohort", "100"]
    modes = {one["mode"]: one for one in _json(capsys, "--trust", "shuffle", *sizes)["modes"]}
    assert list(modes) == ["trusted", "split", "verified"]
    assert modes["split"]["factor"] is None
    assert modes["trusted"]["factor"] == modes["verified"]["factor"]
    assert (
        4 * 8 + 48 == modes["trusted"]["bytes"] < modes["split"]["bytes"] < modes["verified"]["bytes"] < 3000
    )
    assert 0 < modes["verified"]["server_ms"] < modes["verified"]["client_ms"] < 1000
    servers = _json(capsys, "--trust", "shuffle", "--noise", "server-gaussian", *sizes)["modes"]
    assert [(one["mode"], one["factor"]) for one in servers] == [("split", None), ("verified", 1.0)]
    ball = _json(capsys, "--trust", "shuffle", "--noise", "server-gaussian", "--clip", "ball", *sizes)[
        "modes"
    ]
    assert 1 <= ball[1]["length"] < 1.02  # rounding; without a proof of the length it would be 2
    pure = _json(capsys, "--trust", "shuffle", "--delta", "0", *sizes)["modes"]
    assert [one["mode"] for one in pure] == ["trusted", "split"]
    assert _json(capsys, "--trust", "local", *sizes)["modes"] == []
    assert main(["account", "--trust", "shuffle", *sizes]) == 0
    assert "verified: a liar reaches" in capsys.readouterr().out


def test_it_prints_how_far_a_list_is_from_the_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trust", "local", "--clip", "ball", "--coordinates", "20"]
    assert 1 < _json(capsys, *options)["error"]["ratio_to_least_local"] < 1.01
    assert main(["account", *options]) == 0
    assert "× the least variance of any unbiased report that trusts nobody" in capsys.readouterr().out
    assert _json(capsys, *options, "--noise", "discrete-gaussian")["error"]["ratio_to_least_local"] is None


def test_pure_privacy(capsys: pytest.CaptureFixture[str]) -> None:
    document = _json(capsys, "--trust", "central", "--epsilon", "10", "--delta", "0")
    assert document["holds"]["delta_upper"] == 0
    assert document["holds"]["epsilon_at_delta"] <= 10
    laplace = _json(capsys, "--trust", "central", "--epsilon", "10", "--delta", "0", "--noise", "laplace")
    assert document["error"]["sd_of_mean"] <= 0.45 * laplace["error"]["sd_of_mean"]


def test_minimum_reports_repetition_and_groups_cost(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--coordinates", "5", "--cohort", "100"]
    once = _json(capsys, *base)
    few = _json(capsys, *base, "--minimum-reports", "50")
    assert few["holds"]["delta_upper"] <= 1e-6
    assert few["error"]["sd_of_mean"] > 1.2 * once["error"]["sd_of_mean"]
    assert few["parameters"]["minimum_reports"] == 50
    assert _json(capsys, *base, "--times", "2")["holds"]["delta_lower"] > 1e-6
    assert _json(capsys, *base, "--group", "2")["holds"]["delta_lower"] > 1e-6


def test_a_simulations_result_is_accounted_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "result.json")
    small = ["--actions", "30", "--dimension", "3", "--horizon", "500", "--runs", "2", "--workers", "1"]
    assert main(["simulate", *small, "--json", path]) == 0
    capsys.readouterr()
    documents = _json(capsys, path)
    assert [one["parameters"]["trust"] for one in documents] == ["central", "local", "shuffle"]
    reported = {
        result["trust"]: result["guarantee"]["delta"]
        for result in json.loads(Path(path).read_text())["results"]
        if result["guarantee"]
    }
    for one in documents:
        assert one["holds"]["delta_upper"] == pytest.approx(reported[one["parameters"]["trust"]])


def test_table_and_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["account", "--coordinates", "4", "--cohort", "50", "--plot", str(tmp_path / "c.png")]) == 0
    shown = capsys.readouterr().out
    assert "as claimed" in shown
    unwrapped = " ".join(shown.split())
    assert "does not collude with the server" in unwrapped
    assert "at least 50 of 50 reporting clients are real" in unwrapped
    assert "noise discrete-gaussian has the least predicted error; polya" in unwrapped
    assert "one lying client moves a mean by at most" in unwrapped
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trust", "none"], "--trust: invalid choice: 'none'"),
        (["--epsilon", "0"], "epsilon: got 0.0"),
        (["--coordinates", "0"], "coordinates: got 0"),
        (["--cohort", "0"], "cohort: got 0"),
        (
            ["--minimum-reports", "2000"],
            "minimum_reports: got 2000, expected a whole number >= 1 and <= 1,000",
        ),
        (["--at-delta", "2"], "at_delta: got 2.0"),
        (
            ["--trust", "central", "--clip", "ball", "--coordinates", "20", "--bound", "1e-200"],
            "bound: got 1e-200, expected a number >= 8.67362e-19 and <= 1.15292e+18",
        ),
        (["--bound", "1e300"], "bound: got 1e+300"),
        (["--coordinates", "2049"], "coordinates: got 2049, expected a whole number >= 1 and <= 2,048"),
        (["--times", "0"], "times: got 0"),
        (["--group", "0"], "group: got 0"),
        (["--noise", "laplace"], "noise: got 'laplace', expected one of binomial"),
        (["gone.json"], "RESULT: got gone.json, expected an existing JSON file"),
        (["pyproject.toml"], "RESULT: got pyproject.toml"),
        (["gone.json", "--epsilon", "2"], "--epsilon: got 2.0, expected none with RESULT or --study"),
        (["gone.json", "--minimum-reports", "9"], "--minimum-reports: got 9, expected none with RESULT"),
        (["--study", "gone.toml", "--trust", "local"], "--trust: got local, expected none with RESULT"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused(["account", *options], message, capsys)
