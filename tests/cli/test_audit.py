"""`dpbandits audit`: which games it plays, what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpbandits.cli import main

from .helpers import check_refused

SMALL = ["audit", "--samples", "2000", "--coordinates", "2"]


def _json(capsys: pytest.CaptureFixture[str], *options: str, status: int = 0) -> Any:
    assert main([*SMALL, "--json", "-", *options]) == status
    return json.loads(capsys.readouterr().out)


def test_the_json_has_everything_promised(capsys: pytest.CaptureFixture[str]) -> None:
    document = _json(capsys, "--trust", "local", "--epsilon", "2", "--delta", "1e-3", "--confidence", "0.999")
    assert document["claimed"] == {"epsilon": 2.0, "delta": 1e-3}
    assert document["confidence"] == 0.999
    assert document["samples"] == 2000
    assert 0 <= document["epsilon_lower_bound"] <= 2
    assert document["violated"] is False
    assert document["violation"] is None
    assert document["mechanism"]["kind"] == "local-list"
    (one,) = document["audits"]
    assert one == {key: value for key, value in document.items() if key != "audits"}


def test_without_options_all_private_trust_models_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    document = _json(capsys, "--epsilon", "3", "--delta", "0.01")
    assert [one["trust"] for one in document["audits"]] == ["central", "local", "shuffle"]
    bounds = [one["epsilon_lower_bound"] for one in document["audits"]]
    assert document["epsilon_lower_bound"] == max(bounds)


def test_a_noise_selects_the_trust_models_that_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--noise", "laplace", "--delta", "0", "--simulated-noise"]
    document = _json(capsys, *options)
    assert [one["trust"] for one in document["audits"]] == ["central", "local"]


def test_the_real_noise_is_the_default_and_a_seed_repeats_the_simulated_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--trust", "local", "--epsilon", "3", "--delta", "0.01", "--noise", "discrete-gaussian"]
    bounds = [
        _json(capsys, *options, *more)["epsilon_lower_bound"]
        for more in ([], [], ["--simulated-noise", "--seed", "4"], ["--simulated-noise", "--seed", "4"])
    ]
    assert bounds[0] != bounds[1]
    assert bounds[2] == bounds[3]


def test_people_read_what_was_played_and_that_the_claim_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--trust", "shuffle", "--cohort", "6", "--minimum-reports", "4"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert len(shown.out.splitlines()) == 3
    for part in ("shuffle with polya noise: 2,000 samples", "claimed: (1, 1e-06)-DP", "not refuted"):
        assert part in shown.out


def test_a_refuted_claim_ends_with_status_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    paper = ["--preset", "paper", "--trust", "local", "--epsilon", "10", "--delta", "0.25"]
    game = ["--simulated-noise", "--samples", "1e6", "--coordinates", "1", "--confidence", "0.99"]
    assert main(["audit", *paper, *game, "--json", str(path)]) == 1
    assert "THE CLAIM IS REFUTED: at ε = 10 it allows δ = 0.25" in capsys.readouterr().out
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["violated"] is True
    assert document["epsilon_lower_bound"] > 10
    assert document["violation"].keys() == {"epsilon", "delta", "delta_lower_bound"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0"], "epsilon: got 0.0, expected a finite number > 0"),
        (["--epsilon", "many"], "--epsilon: got 'many', expected a number"),
        (["--delta", "1"], "delta: got 1.0"),
        (["--delta", "0", "--noise", "binomial"], "noise: got binomial with delta 0"),
        (["--bound", "-1"], "bound: got -1.0"),
        (["--coordinates", "0"], "coordinates: got 0"),
        (["--cohort", "0"], "cohort: got 0"),
        (["--minimum-reports", "9"], "minimum_reports: got 9, expected a whole number >= 1 and <= 8"),
        (["--samples", "10"], "samples: got 10, expected a whole number >= 100"),
        (["--confidence", "1"], "confidence: got 1.0, expected a number strictly between 0 and 1"),
        (["--seed", "1"], "seed: got 1, expected none without --simulated-noise"),
        (["--seed", "-1", "--simulated-noise"], "seed: got -1"),
        (["--trust", "none"], "--trust: invalid choice: 'none'"),
        (["--noise", "loud"], "--noise: invalid choice: 'loud'"),
        (["--trust", "shuffle", "--noise", "laplace"], "noise: got 'laplace', expected one of binomial"),
        (["--preset", "loose"], "--preset: invalid choice: 'loose'"),
        (["--preset", "paper"], "noise: got gaussian for trust central, expected --simulated-noise"),
        (["--noise", "gaussian"], "noise: got gaussian for trust central, expected --simulated-noise"),
        (["--json", "/no/such/folder/x.json"], "json: got /no/such/folder/x.json, expected a path"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_bad_input_ends_with_status_2_and_one_line(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused([*SMALL, *options], message, capsys)
