"""What operators copy: units, the compose file, and the tables of docs/deploying.md.

tests/test_page_code.py runs the commands of that page, which read its files.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name

from dpbandits.service.config import _sections
from dpbandits.service.shared import Metrics

from .service.processes import Site

ROOT = Path(__file__).parent.parent
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_parse_and_are_hardened(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)  # keys may be repeated
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.read_text(encoding="utf-8"))
    service = parser["Service"]
    for key, value in {"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes"}.items():
        assert service[key] == value
    assert int(service["LimitNOFILE"]) >= 65_536
    assert service["MemoryMax"] == "2G"
    assert service["StateDirectory"].split() == [unit.stem, f"{unit.stem}-progress"]
    assert service["CapabilityBoundingSet"] == ""
    command = service["ExecStart"].split()
    assert command[0] == "/opt/dpbandits/bin/dpbandits"
    assert command[1] in ("serve", "shuffler")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    program = tmp_path / "dpbandits"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = unit.read_text(encoding="utf-8").replace("/opt/dpbandits/bin/dpbandits", str(program))
    (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert (done.returncode, told) == (0, [])


def test_the_compose_file_runs_both_parties() -> None:
    content = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    services = content["services"]
    assert {name: service["command"][0] for name, service in services.items()} == {
        "shuffler": "shuffler",
        "coordinator": "serve",
    }
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["mem_limit"] == "2g"
        assert service["ulimits"]["nofile"] == {"soft": 65_536, "hard": 65_536}
        port = service["ports"][0].split(":")[1]
        check = service["healthcheck"]["test"]
        assert check == ["CMD", "python", "/opt/ready.py", f"https://127.0.0.1:{port}/readyz"]
        build = service["build"]
        assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).is_file()
        kept = {volume.split(":")[0] for volume in service["volumes"]}
        assert len(kept & set(content["volumes"])) == 2  # the store and the progress file
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert copied
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()


def _constraints() -> dict[str, str]:
    lines = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_constraints_pin_everything_that_a_deployment_installs() -> None:
    lock = _loaded("lock")
    pinned = _constraints()
    own = [one for one in lock.needed(["postgres", "service", "secure"]) if one.name != "dpbandits"]
    assert len(own) > 12
    for requirement in own:
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier
    for name, version in pinned.items():  # an environment with other versions may need other packages
        if importlib.metadata.version(name) == version:
            assert {canonicalize_name(one.name) for one in lock.required(name)} <= set(pinned)
    image = (ROOT / "deploy" / "Dockerfile").read_text()
    assert "--require-hashes --requirement /build/requirements.lock" in image
    assert "--no-deps /build" in image
    assert re.search(r"^ARG BASE=python:3\.\d+\.\d+-slim-\w+$", image, re.MULTILINE)


def test_the_lock_file_has_the_digests_of_the_same_versions() -> None:
    text = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    assert {name: version for name, version, _ in entries} == _constraints()
    assert len(text.splitlines()) == 2 + sum(1 + digests.count("sha256") for _, _, digests in entries)
    compiled = {name for name, _, digests in entries if digests.count("sha256") == 2}
    assert {"numpy", "scipy", "cryptography"} <= compiled  # a file for each of the two kinds of machines


def test_the_audit_tells_flaws_apart_from_missing_data(capsys: pytest.CaptureFixture[str]) -> None:
    audit = _loaded("audit")
    flaw = {"id": "GHSA-1", "fix_versions": ["2.0"]}
    good, bad = ({"name": "a", "version": "1.0", "vulns": flaws} for flaws in ([], [flaw]))
    skipped = {"name": "b", "skip_reason": "not found"}
    assert [audit.told(packages) for packages in ([good], [good, bad], [skipped], [good, skipped], [])] == [
        *(0, 1, 0, 0, 0)
    ]
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "1 packages looked up, 0 known vulnerabilities"
    assert shown[1] == "a 1.0: GHSA-1, fixed in 2.0"
    assert (
        shown[3]
        == shown[5]
        == "no package could be looked up: the data about vulnerabilities is not available here"
    )
    assert shown[4].endswith("; 1 could not be looked up")


def _loaded(name: str) -> Any:
    """Return a program of the folder deploy as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "deploy" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_health_check_tells_whether_a_service_is_ready(tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(5,))
    command = [sys.executable, str(ROOT / "deploy" / "ready.py"), f"{site.url}/readyz"]

    def status() -> int:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode

    assert status() == 1
    with site.running("coordinator", site.coordinator()):
        site.wait_ready(site.url)
        assert status() == 0


def test_the_page_lists_every_key_and_no_other() -> None:
    listed, section = defaultdict[str, set[str]](set), ""
    for first, keys in re.findall(r"^\| (`\w+`)? ?\| (`[^|]+`) \| [^|]*\| [^|]+ \|$", PAGE, re.MULTILINE):
        section = first.strip("`") or section
        listed[section] |= set(re.findall(r"`(\w+)`", keys))
    known = {name: set(keys) for name, keys in _sections.STUDY.items()}
    known["shuffler"] |= set(_sections.SHUFFLER["shuffler"])
    assert dict(listed) == known


def _named_metrics(text: str) -> set[str]:
    return set(re.findall(r"\bdpbandits_[a-z_]+", text))


def test_alerts_and_the_dashboard_name_metrics_that_exist() -> None:
    monitoring = ROOT / "deploy" / "monitoring"
    rules = [
        rule
        for group in yaml.safe_load((monitoring / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]
    dashboard = json.loads((monitoring / "grafana.json").read_text(encoding="utf-8"))
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown.append(dashboard["templating"]["list"][1]["query"])
    existing = set[str]()
    for family in Metrics().registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        existing |= {family.name + ending for ending in endings}
    alerted = _named_metrics(" ".join(rule["expr"] for rule in rules))
    displayed = _named_metrics(" ".join(shown))
    assert alerted - existing == set()
    assert displayed - existing == set()
    assert (
        existing - displayed - {"dpbandits_request_seconds_sum", "dpbandits_request_seconds_count"} == set()
    )
    for rule in rules:
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]
        assert rule["expr"].count("(") == rule["expr"].count(")"), rule["alert"]


def test_the_labels_that_alerts_select_exist() -> None:
    text = (ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8")
    source = (ROOT / "src" / "dpbandits" / "service" / "shared" / "_connections.py").read_text(
        encoding="utf-8"
    )
    (reason,) = re.findall(r'refused_connections_total\{reason="(\w+)"\}', text)
    assert f'self.refused("{reason}")' in source
