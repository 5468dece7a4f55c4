"""From a table of sixty options to an answer by name, with three commands and no Python."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpbandits.cli import main
from dpbandits.cli._options_table import add_table_options, options_table, show_left_out
from dpbandits.options import Kernel, Options
from dpbandits.service.config import read_options, read_stored_study

from ..service.processes import ENVIRONMENT, free_port, start, stop  # noqa: TID252
from .helpers import check_refused

GUIDE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")
EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = ["--features", "price", "gigabytes", "contract", "network", "--log", "gigabytes"]
KINDS += ["--ordered", "contract=none,1 year,2 years", "--current", "plan 01"]
PLANNED = ["--trust", "central", "--epsilon", "10", "--participants", "80", "--horizon", "5000"]
PLANNED += ["--runs", "0"]
Command = Callable[..., str]


@pytest.fixture(name="command")
def _command(programs: Path) -> Command:
    """Runs a command of `dpbandits` in a folder, and returns what it prints."""

    def run(*words: str, folder: Path) -> str:
        done = subprocess.run(
            [programs / "dpbandits", *words],
            cwd=folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _write_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Write the table of the example, and the ratings of 90 customers, from 0 to 10."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import sixty_options

    names = [plan["name"] for plan in sixty_options.PLANS]
    with (folder / "options.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(sixty_options.PLANS[0]))
        writer.writeheader()
        writer.writerows(sixty_options.PLANS)
    backwards = list(reversed(names))  # rewards are found by name, not by place
    with (folder / "rewards.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(backwards)
        for client in range(90):
            taste = (client % 9 - 4) / 10
            rows.writerow([round(sixty_options.MEANS[name] + taste, 6) for name in backwards])
    return sixty_options.MEANS


def test_three_commands_lead_from_a_table_to_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: Command
) -> None:
    means, port = _write_tables(tmp_path, monkeypatch), free_port()
    best_first = sorted(means, key=lambda name: -means[name])
    write = ["plan", "--write", "study.toml", "--options", "options.csv", *KINDS, *PLANNED]
    write += ["--reward-range", "0", "10"]
    command(*write, "--loopback", str(port), folder=tmp_path)
    served = command("serve", "study.toml", "--rewards", "rewards.csv", folder=tmp_path)
    assert "80 reports were accepted" in served
    again = [
        "serve",
        str(tmp_path / "study.toml"),
        "--log-level",
        "ERROR",
        "--rewards",
        str(tmp_path / "rewards.csv"),
    ]
    assert main(again) == 2  # clients from a file never join a study that has begun
    assert "the store of this study file has begun already" in capsys.readouterr().err
    shown = command("results", "study.toml", folder=tmp_path)

    found = json.loads(command("results", "study.toml", "--json", "-", folder=tmp_path))
    answer = found["answer"]
    assert shown.startswith(f"best       {answer['option']}: mean reward")
    assert f"over {answer['lead']['over']} [" in shown
    assert "over plan 01 [" in shown
    assert "log(gigabytes)" in shown
    assert found["learning_over"]
    assert found["ended"]
    # The noise is secure, so the answer is not the same each time. All but the nine best plans are worse than
    # the best by 1.85 and more, while the interval of a difference is about ±1.3, more than 4 deviations.
    assert answer["option"] in best_first[:9]
    assert best_first[0] in [one["option"] for one in answer["options"]]
    # An error of twice the radius, which is at least 2.4 standard deviations, has probability below 1e-6.
    assert abs(answer["estimate"] - means[answer["option"]]) < answer["high"] - answer["low"] < 3
    assert answer["estimate"] == max(one["estimate"] for one in answer["options"])
    rows = list(csv.DictReader(io.StringIO(command("results", "study.toml", "--csv", "-", folder=tmp_path))))
    assert [row["option"] for row in rows] == [one["option"] for one in answer["options"]]
    assert [row["option"] for row in rows if row["recommended"] == "True"] == [answer["option"]]
    _check_report(tmp_path, answer["option"], capsys)
    _check_study(tmp_path, found, capsys)
    _check_live(tmp_path, port, found, command)


def _check_report(folder: Path, best: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a report can be written and verified with commands, and that a wrong key is noticed."""
    study, full, scrubbed = (str(folder / name) for name in ("study.toml", "study.html", "scrubbed.html"))
    assert main(["report", study, "--out", full]) == 0
    assert main(["report", study, "--out", scrubbed, "--scrubbed"]) == 0
    name = re.compile(rf"\b{best}\b")  # "plan 05" is not the name if it begins a digest: "plan 0522…"
    assert name.search(Path(full).read_text(encoding="utf-8"))
    assert not name.search(Path(scrubbed).read_text(encoding="utf-8"))
    capsys.readouterr()
    assert main(["keys", "public", str(folder / "study-reports.pem")]) == 0
    key = capsys.readouterr().out.split()[-1]
    for path in (full, scrubbed):
        assert main(["verify", path, "--keys", f"coordinator={key}"]) == 0
    assert "not verified: the terms, the names" in capsys.readouterr().out
    assert main(["verify", full, "--keys", f"coordinator={'0' * 64}"]) == 1
    assert "study.html: REJECTED" in capsys.readouterr().out
    check_refused(["verify", full, "--keys", "somebody=1"], "coordinator=HEX", capsys)
    check_refused(["report", study, "--out", full, "--statement", full], "no shuffler", capsys)


def _check_study(folder: Path, found: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Check what `dpbandits study` lists, shows and exports, and that orders are journalled."""
    study = str(folder / "study.toml")
    capsys.readouterr()
    assert main(["study", "show", study, "--json", "-"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["standing"], shown["options_left"], shown["asked"]) == ("ended", len(found["active"]), 80)
    assert main(["study", "list", str(folder)]) == 0
    assert "ended" in capsys.readouterr().out
    for kind in ("csv", "json"):
        assert main(["study", "export", study, "--out", str(folder / kind), "--format", kind]) == 0
    options = json.loads((folder / "json" / "options.json").read_text(encoding="utf-8"))
    assert options == found["answer"]["options"]
    with (folder / "csv" / "releases.csv").open(encoding="utf-8", newline="") as file:
        means = [float(row["mean"]) for row in csv.DictReader(file) if row["phase"] == "1"]
    assert means == found["phases"][0]["release"]["means"]
    tables = {"options", "effects", "phases", "plans", "releases", "attempts"}
    assert {path.stem for path in (folder / "csv").iterdir()} == tables
    capsys.readouterr()
    check_refused(["study", "close", study], "--yes", capsys)
    for order, standing in (("pause", "paused"), ("pause", "paused"), ("resume", "running")):
        assert main(["study", order, study]) == 0
        assert capsys.readouterr().out.endswith(f": {standing}\n")


def test_the_shell_completes_commands_tasks_and_options(tmp_path: Path) -> None:
    def completed(line: str) -> set[str]:
        given = {
            "_ARGCOMPLETE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE_IFS": "\n",
        }
        out = tmp_path / "completions"
        given |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(out), "_ARGCOMPLETE_SHELL": "bash"}
        command = [sys.executable, "-m", "dpbandits.cli"]
        subprocess.run(command, env={**ENVIRONMENT, **given}, timeout=60, check=False)
        return {word.strip() for word in out.read_text().split("\n") if word.strip()}

    assert completed("dpbandits ver") == {"verify"}
    assert completed("dpbandits study re") == {"resume"}
    assert "--scrubbed" in completed("dpbandits report --")


def _check_live(folder: Path, port: int, stopped: Any, command: Command) -> None:
    """Check that a coordinator that runs again gives the results that were read while it was stopped."""
    token = (folder / "study-operator.token").read_text().strip()
    with (folder / "log").open("ab") as log:
        process = start([sys.executable, "-m", "dpbandits.cli", "serve", str(folder / "study.toml")], log)
        try:
            transport = httpx.HTTPTransport(retries=10)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport) as http:
                live = http.get("/v1/results", headers={"Authorization": f"Bearer {token}"}, timeout=60)
            assert live.json() == stopped
            assert json.loads(command("results", "study.toml", "--json", "-", folder=folder)) == stopped
        finally:
            stop(process)


def _small(folder: Path) -> list[str]:
    (folder / "options.csv").write_text("name,price,size\na,1,1\nb,2,2\nc,3,1\nd,5,3\ne,4,2\n")
    return ["plan", "--options", str(folder / "options.csv"), *PLANNED]


def test_the_written_file_has_the_same_options(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "study.toml"
    path.parent.mkdir()
    kinds = ["--ordered", "size=1,2,3", "--current", "b", "--squared", "price"]
    assert main([*_small(tmp_path), *kinds, "--write", str(path)]) == 0
    written = path.read_text() + '[storage]\nurl = "sqlite:///study.sqlite"\n'
    path.write_text(written)
    options = read_stored_study(path).options
    assert options is not None
    assert options.current == "b"
    assert options.encoding.columns == ("intercept", "price", "price²", "size")
    assert options.encoding.features[1].levels == (1, 2, 3)


def test_a_kernel_is_written_into_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _small(tmp_path)
    table, parser = tmp_path / "options.csv", argparse.ArgumentParser()
    add_table_options(parser)
    parser.set_defaults(actions_file=None, data=None)
    given = ["--options", str(table), "--kernel", "matern", "--length-scale", "1.5", "--rank", "3"]
    found = options_table(parser.parse_args(given))
    assert found is not None
    expected = Options.from_table(table, kernel=Kernel(shape="matern", length_scale=1.5, rank=3))
    assert found.options == expected
    show_left_out(found)
    said = (
        "kernel: mean rewards deviate from a linear function of the 3 columns by at most "
        f"{expected.left_out:.2g} times their norm in the space of the kernel\n"
    )
    assert capsys.readouterr().err == said
    section = tomllib.loads("\n".join(found.section(tmp_path)))["options"]
    assert read_options(table, **{key: section[key] for key in section if key != "table"}) == expected


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, new = _small(tmp_path), ["--write", str(tmp_path / "new.toml")]
    check_refused([*small, "--current", "z"], "current: got 'z', expected one of 'a'", capsys)
    check_refused([*small, "--ordered", "size"], "ordered: got 'size', expected COLUMN=LEVEL", capsys)
    check_refused([*small, "--loopback", "8443"], "loopback: got 8443, expected --write as well", capsys)
    check_refused([*small, *new, "--loopback", "0"], "loopback: got 0, expected a whole number", capsys)
    check_refused(["plan", "--current", "a"], "current: got a, expected --options as well", capsys)
    check_refused([*small, "--actions-file", "x.csv"], "no --actions-file and no --data with it", capsys)
    check_refused(["results", str(tmp_path / "no.toml")], "an existing TOML file", capsys)
    assert main([*small, *new, "--loopback", "8443"]) == 0
    capsys.readouterr()
    check_refused(["results", str(tmp_path / "new.toml")], "an existing store: `dpbandits serve`", capsys)
    check_refused(["results", str(tmp_path / "new.toml"), "--json", "/no/x"], "a folder that exists", capsys)
    check_refused(["results", str(tmp_path / "new.toml"), "--csv", "/no/x"], "csv: got /no/x", capsys)
    few = tmp_path / "few.csv"
    few.write_text("1,0,0,0,0\n" * 3)
    refused = ["serve", str(tmp_path / "new.toml"), "--log-level", "ERROR", "--rewards", str(few)]
    check_refused(refused, "rewards: got 3 rows, expected at least 80, one per client", capsys)
    few.write_text("1,0\n" * 3)
    check_refused(refused, "rewards: got 2 columns, expected 5, one per action", capsys)
    check_refused(["serve", "--example", "--rewards", "x"], "--example has its own rewards", capsys)
    check_refused(["results", str(tmp_path / "new.toml"), "--level", "1"], "level: got 1.0, expected", capsys)
