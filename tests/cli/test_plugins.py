"""Plugins: every command and a deployed study use mechanisms and trust models of an installed package."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpbandits.privacy import MECHANISMS
from dpbandits.privacy._plugins import load_plugins
from tests.plugin_package import install
from tests.service import processes
from tests.service.processes import Site

ROOT = Path(__file__).parents[2]
ONE_BIT = (ROOT / "examples" / "one_bit.py").read_text(encoding="utf-8")
ENCLAVE = (ROOT / "tests" / "privacy" / "toy_trust_model.py").read_text(encoding="utf-8")
SMALL = ["--actions", "30", "--dimension", "3", "--horizon", "20000"]


@pytest.fixture(name="site_packages")
def _site_packages(tmp_path: Path) -> Path:
    directory = tmp_path / "site"
    install(
        directory,
        package="dpbandits-one-bit",
        module="one_bit_plugin",
        source=ONE_BIT,
        entry="bit = one_bit_plugin",
    )
    called = ENCLAVE.replace(
        "ENCLAVE = register_trust(", "def add() -> TrustModel:\n  return register_trust("
    )
    assert called != ENCLAVE
    return install(
        directory,
        package="dpbandits-enclave",
        module="enclave_plugin",
        source=called,
        entry="e = enclave_plugin:add",
    )


def _environment(*directories: Path) -> dict[str, str]:
    paths = [*map(str, directories), os.environ.get("PYTHONPATH", "")]
    return {**processes.ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpbandits.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=_environment(directory), check=False)


def test_commands_take_the_noise_of_a_plugin(site_packages: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    options = ["--noise", "one-bit", "--delta", "0"]
    runs = ["--schedule", "equal", "--participants", "400", "--runs", "2", "--workers", "2"]
    ran = _run(site_packages, "simulate", *options, *SMALL, *runs, "--json", str(result))
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(result.read_text())["results"]
    assert [(row["trust"], row["mechanism"]["kind"]) for row in rows] == [("local", "one-bit")]
    ran = _run(site_packages, "account", str(result))
    assert "one-bit noise" in ran.stdout, ran.stderr
    ran = _run(site_packages, "audit", *options, "--samples", "400", "--simulated-noise")
    assert "local with one-bit noise" in ran.stdout, ran.stderr
    ran = _run(site_packages, "plan", "--trust", "local", *options, *SMALL, "--runs", "0")
    assert ran.returncode == 0, ran.stderr


def test_commands_take_the_trust_model_of_a_plugin(site_packages: Path) -> None:
    ran = _run(site_packages, "account", "--trust", "enclave", "--delta", "0", "--json", "-")
    assert json.loads(ran.stdout)["parameters"]["kind"] == "enclave-sum", ran.stderr


OWN_MODEL = """
from dpbandits.protocol import register_model
from dpbandits.protocol.model import Linear

@register_model
class Own(Linear):
    name = "own"
"""
ITS_USER = """
from dataclasses import replace
from dpbandits import examples
study = replace(examples.study(), model="own", misfit=0.01)
print(type(study.reward_model).__module__, study.misfit)
"""


def test_a_study_takes_the_reward_model_of_a_plugin(tmp_path: Path) -> None:
    site = install(
        tmp_path / "site", package="own-model", module="own_model", source=OWN_MODEL, entry="o = own_model"
    )
    command = [sys.executable, "-c", ITS_USER]
    ran = subprocess.run(command, capture_output=True, text=True, env=_environment(site), check=False)
    assert ran.stdout == "own_model 0.01\n", ran.stderr


def test_a_name_that_nobody_registers_is_refused_in_one_line(site_packages: Path) -> None:
    ran = _run(site_packages, "account", "--noise", "two-bit")
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "one-bit" in ran.stderr  # the choices
    ran = _run(site_packages, "account", "--trust", "shuffle", "--noise", "one-bit")
    assert "noise: got 'one-bit', expected one of binomial" in ran.stderr


@pytest.mark.parametrize(
    ("source", "entry", "reason"),
    [
        ("import no_such_module", "x = broken_plugin", "ModuleNotFoundError: No module named"),
        ("1 / 0", "x = broken_plugin", "ZeroDivisionError: division by zero"),
        ("", "x = broken_plugin:add", "AttributeError"),
        (
            ONE_BIT.replace('"one-bit"', '"local-lattice"'),
            "x = broken_plugin",
            "kind: got local-lattice from broken_plugin",
        ),
    ],
)
def test_a_broken_plugin_is_named_in_one_line_and_only_where_it_matters(
    source: str, entry: str, reason: str, site_packages: Path
) -> None:
    install(site_packages, package="broken-bits", module="broken_plugin", source=source, entry=entry)
    ran = _run(site_packages, "account", "--noise", "two-bit")
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "plugin: got x of package broken-bits, expected an entry point that loads" in ran.stderr
    assert reason in ran.stderr
    ran = _run(site_packages, "account", "--trust", "local", "--noise", "one-bit", "--delta", "0")
    assert ran.returncode == 0, ran.stderr


PLAN = '{{"study":"s","phase":1,"support":[0],"plays":[1],"rank":1,"mechanism":{{"kind":"{kind}"}}}}'
HOSTILE = """
import sys
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan, decode
try:
    decode(sys.argv[1], Plan)
except InvalidValue as error:
    print("canary" in sys.modules, "hidden" in sys.modules, error)
"""


@pytest.mark.parametrize("kind", ["canary", "canary:Canary", "os.system", "../canary", "hidden"])
def test_the_kind_in_a_plan_imports_nothing(kind: str, tmp_path: Path) -> None:
    """A module on the path that is not an entry point is never imported, even if a plan names it."""
    directory = tmp_path / "site"
    install(directory, package="some-package", module="hidden", source="", entry="")
    (directory / "canary.py").write_text("class Canary: ...\n")
    ran = subprocess.run(
        [sys.executable, "-c", HOSTILE, PLAN.format(kind=kind)],
        capture_output=True, text=True, env=_environment(directory), check=True,
    )  # fmt: skip
    assert ran.stdout.startswith("False False Plan: got unreadable JSON"), ran.stderr
    assert "mechanism.kind" in ran.stdout


def test_plugins_are_not_searched_for_built_in_names(site_packages: Path) -> None:
    code = (
        "import sys; from dpbandits.privacy import MECHANISMS, PrivacyRequest, calibrate;"
        "calibrate(PrivacyRequest(trust='local'), coordinates=2, cohort=9, bound=1.0);"
        "MECHANISMS['summed-shares']; print('one_bit_plugin' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=_environment(site_packages),
        check=True,
    )
    assert ran.stdout == "False\n"


@pytest.fixture(name="installed")
def _installed(site_packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the plugin in this process, which writes the terms, and in the processes that it starts."""
    monkeypatch.syspath_prepend(site_packages)
    monkeypatch.setitem(processes.ENVIRONMENT, "PYTHONPATH", _environment(site_packages)["PYTHONPATH"])
    load_plugins.cache_clear()
    yield
    for name in ("one-bit", "enclave-sum"):
        with contextlib.suppress(KeyError):
            MECHANISMS.remove(name)
    from dpbandits.privacy import TRUST_MODELS

    with contextlib.suppress(KeyError):
        TRUST_MODELS.remove("enclave")
    for module in ("one_bit_plugin", "enclave_plugin"):
        sys.modules.pop(module, None)
    load_plugins.cache_clear()


@pytest.mark.usefixtures("installed")
def test_a_study_with_the_mechanism_of_a_plugin_runs_to_its_end(tmp_path: Path) -> None:
    """Run `serve`, `actuator` and `client` as real processes; each report is one bit."""
    directory = tmp_path / "study"
    directory.mkdir()
    site = Site(directory=directory, trust="local", mode=None, cohorts=(30,), noise="one-bit", horizon=600)
    assert site.signed.opened().mechanisms == ("one-bit",)
    with site.running("coordinator", site.coordinator()):
        site.wait_ready(site.url)
        codes = site.codes(40)
        (directory / "codes").write_text("\n".join(codes))
        rewards = np.random.default_rng(0).uniform(-0.5, 0.5, (len(codes), site.actions.count))
        np.savetxt(directory / "rewards.csv", rewards, delimiter=",")
        client = [
            sys.executable,
            "-m",
            "dpbandits.cli",
            "client",
            site.url,
            "--codes",
            str(directory / "codes"),
        ]
        client += ["--rewards", str(directory / "rewards.csv"), "--certificates", str(site.certificate)]
        client += ["--terms", site.signed.digest, "--epsilon", "20", "--delta", "1e-3"]
        with site.running("actuator", site.actuator()), site.running("clients", client) as clients:
            until = time.monotonic() + 120
            while site.ask("GET", "/v1/status")["state"] != "ended":
                assert clients.poll() in (None, 0), (directory / "clients.log").read_text()
                assert time.monotonic() < until, (directory / "coordinator.log").read_text()
                time.sleep(0.3)
            assert clients.wait(60) == 0
        results = site.ask("GET", "/v1/results")
    assert "30 of 40 reports were accepted" in (directory / "clients.log").read_text()
    assert [phase["release"]["reports"] for phase in results["phases"]] == [30]
