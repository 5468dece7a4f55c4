"""`dpbandits reproduce`: the files that it writes, its cache, interruptions and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from dpbandits.cli import _reproduce as reproduce, main
from dpbandits.cli._reproduce import _say_interrupted, cache_file
from dpbandits.experiments import EXPERIMENTS
from dpbandits.experiments._jobs import LinUCB

from ..experiments.helpers import EXPERIMENT, Page  # noqa: TID252  (one experiment serves both packages)
from .helpers import check_refused, interrupt

OPTIONS = ["reproduce", "--quick", "--runs", "3", "--workers", "1"]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and one small experiment instead of the paper's."""
    monkeypatch.setattr(reproduce, "EXPERIMENTS", (EXPERIMENT,))
    return tmp_path / "deep" / "folder"


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".jsonl"}


def test_everything_is_written(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPTIONS, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "Small <experiment>" in shown.out
    assert "report.html" in shown.err
    files = _content(out)
    assert set(files) == {
        "small.png", "small.svg", "small.json", "small-regret.csv", "small-curves.csv", "small-runs.csv",
        "report.html",
    }  # fmt: skip
    assert files["small.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["small.svg"]
    assert len(json.loads(files["small.json"])["runs"]) == 6
    assert f"dpbandits reproduce --out {out} --runs 3 --quick" in "".join(
        Page(files["report.html"].decode()).words
    )


def test_an_interrupted_set_goes_on_and_does_only_what_is_missing(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original, seeds = LinUCB.run, list[int]()

    def interrupted(job: LinUCB, seed: int) -> object:
        if seed == 1:
            raise KeyboardInterrupt
        return original(job, seed)

    def counted(job: LinUCB, seed: int) -> object:
        seeds.append(seed)
        return original(job, seed)

    monkeypatch.setattr(LinUCB, "run", interrupted)
    assert main([*OPTIONS, "--out", str(out)]) == 130
    shown = capsys.readouterr()
    assert "4 of 6 runs are kept" in shown.err
    assert f"dpbandits reproduce --out {out} --runs 3 --quick" in shown.err
    assert shown.out == ""
    assert len(cache_file(out).read_bytes().splitlines()) == 4
    monkeypatch.setattr(LinUCB, "run", counted)
    assert main([*OPTIONS, "--out", str(out)]) == 0
    assert seeds == [1, 2]
    first = _content(out)
    assert main([*OPTIONS, "--out", str(out)]) == 0
    assert seeds == [1, 2]
    assert _content(out) == first  # byte for byte, including figures
    assert main([*OPTIONS[:2], "--runs", "4", "--workers", "1", "--out", str(out)]) == 0
    assert seeds == [1, 2, 3]


def test_a_corrupted_line_of_the_cache_is_run_again(out: Path) -> None:
    assert main([*OPTIONS, "--out", str(out)]) == 0
    whole, cache = _content(out), cache_file(out)
    lines = cache.read_bytes().splitlines(keepends=True)
    cache.write_bytes(b"".join([lines[0], b"{" + lines[1], *lines[2:5], lines[5][:-20]]))
    assert main([*OPTIONS, "--out", str(out)]) == 0
    assert {name: text for name, text in _content(out).items() if name != "small-runs.csv"} == {
        name: text for name, text in whole.items() if name != "small-runs.csv"
    }
    assert len(cache.read_bytes().splitlines()) == 7


def test_the_workers_change_nothing(out: Path) -> None:
    other = out.with_name("other")
    assert main([*OPTIONS, "--out", str(out)]) == 0
    assert main([*OPTIONS[:-1], "2", "--out", str(other)]) == 0
    one, two = _content(out), _content(other)
    assert one.keys() == two.keys()
    assert all(one[name] == two[name] for name in one if name != "report.html")  # the report names the folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["figure-9"], "name: got 'figure-9', expected one of figure-2a, figure-2b, "),
        (["figure-2a", "table-9"], "name: got 'table-9'"),
        (["--runs", "1"], "runs: got 1, expected a whole number >= 2"),
        (["--runs", "many"], "--runs: got 'many'"),
        (["--workers", "0"], "workers: got 0"),
        (["--out", "/dev/null/x"], "out: got /dev/null/x, expected a folder that can be made"),
    ],
)
def test_bad_input(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_refused(["reproduce", "--quick", "--out", str(tmp_path / "x"), *options], message, capsys)
    assert not (tmp_path / "x").exists()


def test_a_file_that_is_no_cache_is_not_touched(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out.mkdir(parents=True)
    cache_file(out).write_text("Dear all\n")
    check_refused([*OPTIONS, "--out", str(out)], "expected a checkpoint that an earlier sweep wrote", capsys)
    assert cache_file(out).read_text() == "Dear all\n"


def test_without_matplotlib_one_line_says_so(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dpbandits._plots.installed", lambda package: False)
    check_refused([*OPTIONS, "--out", str(out)], "pip install '.[plot]'", capsys)


def test_help_names_every_item(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert all(experiment.name in shown.replace("- ", "-") for experiment in EXPERIMENTS)


def test_the_command_to_continue_has_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"names": [], "out": tmp_path, "runs": None, "quick": False, "workers": None}
    _say_interrupted(1, 2, Namespace(**given, backend="dask", address="tcp://10.0.0.5:8786"))
    told = f"dpbandits reproduce --out {tmp_path} --backend dask --address tcp://10.0.0.5:8786"
    assert capsys.readouterr().err.splitlines()[-1].strip() == told


def test_ctrl_c_in_the_middle(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dpbandits.cli", "reproduce", "figure-2c", "--quick", "--workers", "2"]
    command += ["--out", str(tmp_path), "--runs"]
    cache = cache_file(tmp_path)
    _, err = interrupt([*command, "40"], cache)
    told = err.split("To continue, run\n")[1].strip()
    assert told == f"dpbandits reproduce figure-2c --out {tmp_path} --runs 40 --quick --workers 2"
    before = cache.read_bytes()
    assert before.endswith(b"\n")
    subprocess.run([*command, "2"], capture_output=True, check=True)
    assert cache.read_bytes().startswith(before)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "figure-2c" in page.identifiers
    assert "DPE-FixedU" in "".join(page.words)
