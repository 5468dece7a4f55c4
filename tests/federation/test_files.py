"""Study files of a federation, files of sites, and the command, without Flower."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from dpbandits.cli import main
from dpbandits.errors import InvalidValue
from dpbandits.federation import read_federation, read_site
from dpbandits.federation.flower import Apps, Family, FlowerGrid, StudyOutcome
from dpbandits.federation.flower._processes import prepared
from dpbandits.privacy import SecureNoise

from .deployed import Deployment, Shape


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return Deployment(tmp_path_factory.mktemp("federation"), Shape(trust="shuffle"))


def test_files_lead_to_a_study_and_its_sites(deployment: Deployment) -> None:
    file = read_federation(deployment.path)
    assert file.study.terms == file.agreed().digest
    assert [key.stem for key in file.sites] == ["site-0", "site-1"]
    site = read_site(deployment.folder / "site-1" / "site.toml")
    assert site.signed == file.signed
    assert site.site().source.users()[0] == "user-1-000000"
    assert isinstance(site.site().noise, SecureNoise)
    assert file.patience.answer_seconds == 300


def test_a_changed_study_needs_new_terms(deployment: Deployment, tmp_path: Path) -> None:
    text = deployment.path.read_text(encoding="utf-8").replace("epsilon = 20.0", "epsilon = 10.0")
    changed = deployment.path.with_name("changed.toml")
    changed.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue, match="expected the terms of this file: run `dpbandits federate terms`"):
        read_federation(changed)
    changed.write_text(text.replace("127.0.0.1:", "nowhere"), encoding="utf-8")
    with pytest.raises(InvalidValue, match="line .*federation.address: got nowhere.*expected host:port"):
        read_federation(changed)
    changed.write_text(text.replace('sites = "sites"', 'sites = "elsewhere"'), encoding="utf-8")
    with pytest.raises(InvalidValue):
        read_federation(changed)
    changed.unlink()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("epsilon = 20.0", "epsilon = -1", "consent.epsilon: got -1"),
        ('data = "tests', 'data = "nothing', "module:function that returns a DataSource"),
        ('key = "node"', 'key = "absent"', "superlink.key: got .*absent, expected an existing file"),
        ('key = "node"', 'key = "site.toml"', "key: got .*site.toml, expected a private key as `ssh-keygen"),
        ("port = ", "ports = ", "site.ports: got ports, expected one of terms, data"),
    ],
)
def test_a_mistake_in_a_site_file_is_named(
    deployment: Deployment, before: str, after: str, expected: str
) -> None:
    folder = deployment.folder / "site-0"
    text = (folder / "site.toml").read_text(encoding="utf-8")
    assert before in text
    wrong = folder / "wrong.toml"
    wrong.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(InvalidValue, match=expected):
        read_site(wrong).site()


def test_the_command_explains_and_writes_terms(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["federate", "explain", str(deployment.path)]) == 0
    shown = capsys.readouterr().out
    assert "run by the shuffler's operator" in shown
    assert "(20, 0.001)-DP for each user" in shown
    assert main(["federate", "terms", str(deployment.path), "--out", str(tmp_path / "terms.json")]) == 0
    assert capsys.readouterr().out.strip() == read_federation(deployment.path).agreed().digest
    assert main(["federate", "play", str(deployment.path)]) == 2
    assert "task: got play, expected terms, explain or site" in capsys.readouterr().err
    if find_spec("flwr") is None:
        for words in (["federate", str(deployment.path)], ["federate", "site", "site.toml"]):
            assert main(words) == 2
            assert "expected flwr 1.41.0: pip install '.[flower]'" in capsys.readouterr().err


def test_only_installed_programs_are_started(tmp_path: Path) -> None:
    environment = prepared(tmp_path / "flower", tmp_path / "site.toml", Apps())
    programs = Path(environment["PATH"].split(":")[0])
    assert "-m dpbandits.federation.flower._clientapp" in (programs / "flwr-clientapp").read_text()
    assert "exit 1" in (programs / "flwr-agentapp").read_text()
    assert {environment["FLWR_TELEMETRY_ENABLED"], environment["FLWR_DISABLE_UPDATE_CHECK"]} == {"0", "1"}


def test_a_process_that_dies_is_restarted_and_all_end_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpbandits.federation.flower import _processes

    monkeypatch.setattr(_processes, "_RESTART_SECONDS", 0.0)
    family = Family(tmp_path, {"PATH": "/usr/bin:/bin"})
    family.start("sleeper", ["sh", "-c", "echo here; sleep 60 & wait"])
    first = family.running["sleeper"]
    assert family.revive() == []
    first.kill()
    first.wait()
    assert family.revive() == ["sleeper"]
    second = family.running["sleeper"]
    assert second.pid != first.pid
    assert "exit status 3" in family.run("told", ["sh", "-c", "echo exit status 3; exit 3"], 10)
    assert family.run("told", ["true"], 10) == ""
    assert family.run("told", ["sleep", "9"], 0.1) == "no end after 0.1 s"
    family.stop()
    groups, end = {first.pid, second.pid}, time.monotonic() + 10  # their children are in the same groups
    while _alive(groups) and time.monotonic() < end:
        time.sleep(0.05)
    assert _alive(groups) == []


def _alive(groups: set[int]) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) in groups and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def test_another_version_of_flower_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpbandits.federation.flower import _apps, _processes

    for module, function in (
        (_apps, lambda: _apps._program("json")),
        (_processes, _processes.require_flower),
    ):
        monkeypatch.setattr(module, "version", lambda _name: "1.42.0")
        with pytest.raises(InvalidValue, match="flwr: got 1.42.0, expected"):
            function()
    with pytest.raises(InvalidValue, match="no install_from_fab in json"):
        _apps._replace(__import__("json"), "install_from_fab", None)


def test_an_outcome_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert StudyOutcome.read(tmp_path) is None
    StudyOutcome(ended=False, told="too few").write(tmp_path)
    assert StudyOutcome.read(tmp_path) == StudyOutcome(ended=False, told="too few")
    StudyOutcome.forget(tmp_path)
    assert StudyOutcome.read(tmp_path) is None


def test_nodes_with_other_keys_are_not_asked() -> None:
    class Node:
        def __init__(self, number: int, key: bytes) -> None:
            self.node_id, self.public_key = number, key

    class Nodes:
        def get_nodes(self) -> list[Node]:
            return [Node(1, b"a\nb\n"), Node(2, b"c"), Node(3, b"")]

    grid = FlowerGrid(Nodes(), {"north": b"a\nb", "south": b"d"})
    assert grid.sites() == ["north"]
    assert grid.expected == 2
