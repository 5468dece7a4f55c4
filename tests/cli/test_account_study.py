"""`dpbandits account --study`: the guarantee of a study, and of a client in several studies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbandits.cli import _account_study as account_study, main
from dpbandits.protocol import ask
from dpbandits.service.config import TomlFile, study_of

from .helpers import check_refused


def write_study(directory: Path, name: str, **changed: object) -> str:
    rows = np.random.default_rng(0).normal(size=(30, 4))
    np.savetxt(directory / "actions.csv", rows / np.linalg.norm(rows, axis=1)[:, None], delimiter=",")
    keys = {"trust": '"shuffle"', "epsilon": 1.0, "delta": 1e-6, "minimum_share": 0.8, "horizon": 20_000}
    keys |= changed
    path = directory / f"{name}.toml"
    path.write_text(
        f"""
        [study]
        actions = "actions.csv"
        horizon = {keys.pop("horizon")}
        [schedule]
        cohorts = {keys.pop("cohorts", [300, 600, 900])}
        first_length = 60
        growth = 8.0
        [privacy]
        """
        + "\n".join(f"{key} = {value}" for key, value in keys.items())
    )
    return str(path)


def document_of(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["account", "--json", "-", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_phase_that_asks_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path, "a")
    document = document_of(capsys, "--study", path)
    (study,) = document["studies"]
    assert document["together"] is None
    assert [(p["phase"], p["cohort"], p["minimum_reports"]) for p in study["phases"]] == [
        (1, 300, 240),
        (2, 600, 480),
        (3, 900, 720),
    ]
    tested = Path(write_study(tmp_path, "b", cohorts=[300]))
    tested.write_text(f"{tested.read_text()}\n[fit_test]\ncohort = 500\ncoordinates = 5\n")
    *_, last = document_of(capsys, "--study", str(tested))["studies"][0]["phases"]
    assert [last[name] for name in ("phase", "cohort", "minimum_reports", "numbers")] == [2, 500, 400, 5]
    first = ask(study_of(TomlFile(Path(path))).begin()).mechanism
    assert first is not None
    assert study["phases"][0]["delta"] == first.event.delta(1.0)
    assert study["phases"][0]["numbers"] == first.coordinates
    assert study["weakest"]["delta"] == max(p["delta"] for p in study["phases"]) <= 1e-6
    assert len(study["assumed"]) == 2
    assert main(["account", "--study", path]) == 0
    shown = capsys.readouterr().out
    assert "as claimed" in shown
    assert "assumed: later phases depend on releases" in " ".join(shown.split())


def test_a_client_in_two_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaussian = '"discrete-gaussian"'
    one = write_study(tmp_path, "one", trust='"central"', noise=gaussian)
    two = write_study(tmp_path, "two", noise=gaussian)
    both = document_of(capsys, "--study", one, "--study", two)["together"]
    assert both["delta"] == 1e-6
    assert both["epsilon"] == pytest.approx(1.455, abs=2e-3)
    codes = document_of(capsys, "--study", one, "--times", "2")["together"]
    assert codes["epsilon"] == pytest.approx(1.455, abs=2e-3)
    more = document_of(capsys, "--study", one, "--study", two, "--times", "2")["together"]
    assert more["epsilon"] == pytest.approx(2.15, abs=0.03)
    unnamed = write_study(
        tmp_path, "unnamed", trust='"central"'
    )  # a phase may have pure noise, whose ε add up
    assert document_of(capsys, "--study", unnamed, "--times", "2")["together"]["epsilon"] > 1.9
    likelier = document_of(capsys, "--study", one, "--study", two, "--at-delta", "1e-3")["together"]
    assert likelier["epsilon"] < both["epsilon"]
    assert main(["account", "--study", one, "--times", "2", "--group", "2"]) == 0
    assert "a group of 2 clients in one phase of the study with 2 codes" in capsys.readouterr().out


def test_many_phases_are_taken_as_the_worst_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_study(tmp_path, "a", cohorts=[300, 600])
    exact = document_of(capsys, "--study", path, "--times", "2")["together"]["epsilon"]
    monkeypatch.setattr(account_study, "_MOST_COMBINATIONS", 1)
    rough = document_of(capsys, "--study", path, "--times", "2")["together"]["epsilon"]
    assert exact <= rough <= 1.02 * exact
    check_refused(["account", "--study", path, "--times", "4"], "at most 3 with these phases", capsys)


def test_the_papers_constants_and_pure_privacy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = write_study(tmp_path, "paper", preset='"paper"')
    (study,) = document_of(capsys, "--study", paper)["studies"]
    assert all(phase["delta"] <= 1e-6 for phase in study["phases"])
    pure = write_study(tmp_path, "pure", trust='"central"', delta=0.0)
    document = document_of(capsys, "--study", pure, "--times", "2")
    assert document["studies"][0]["weakest"]["delta"] == 0
    assert document["together"]["epsilon"] == pytest.approx(2)


def test_bad_studies_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_study(tmp_path, "good")
    check_refused(["account", "--study", "missing.toml"], "an existing TOML file", capsys)
    open_study = write_study(tmp_path, "open", trust='"none"')
    check_refused(["account", "--study", open_study], "privacy.trust: got none", capsys)
    short = write_study(tmp_path, "short", horizon=10)
    check_refused(["account", "--study", short], "study.horizon: got 10", capsys)
    wrong = write_study(tmp_path, "wrong", epsilon=-1)
    check_refused(["account", "--study", wrong], "privacy.epsilon: got -1", capsys)
    typo = write_study(tmp_path, "typo", minimum_shared=0.5)
    check_refused(["account", "--study", typo], "privacy.minimum_shared: got minimum_shared", capsys)
    section = write_study(tmp_path, "section")
    Path(section).write_text(Path(section).read_text().replace("[schedule]", "[schedules]"))
    check_refused(["account", "--study", section], "schedules: got schedules, expected one of", capsys)
    check_refused(["account", "result.json", "--study", good], "no RESULT", capsys)
    check_refused(["account", "--study", good, "--times", "0"], "times: got 0", capsys)
