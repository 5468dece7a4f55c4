"""Which packages a command or an import loads. `benchmarks/startup.py` measures what they cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Study, ask, encode

HEAVY = {"scipy", "joblib", "rich", "matplotlib", "sqlalchemy", "starlette", "uvicorn", "opendp"}
LIST = "import sys; print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
SDK = """
from dpbandits.service.client import AsyncClient, ClientCore, Consent, MemoryFile, take_part
from dpbandits.service.shared import AsyncTransport
from dpbandits.service.wire import KeyPair, Pins, Place, PublicKey, VerifyKey
"""
REPORT = """
import sys
from dpbandits.protocol import Plan, decode, respond_with_averages
from dpbandits.privacy import SimulatedNoise
import numpy as np

plan = decode(sys.stdin.read(), Plan)
report = respond_with_averages(plan, [0.5] * len(plan.support), SimulatedNoise(np.random.default_rng(1)))
place = Place(study="0", phase=1, attempt=1, plan=plan.digest, pseudonym="0")
assert len(KeyPair.new().public.seal(report.payload, place, "report")) > 48
"""


def _loaded(code: str, given: str = "") -> set[str]:
    """The top-level packages that a new process has loaded after running `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LIST}"], input=given, capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("LOADED")[2].split())


def _command(*words: str) -> set[str]:
    code = f"from dpbandits.cli import main\ntry:\n    main({list(words)!r})\nexcept SystemExit:\n    pass"
    return _loaded(code)


def test_the_list_of_loaded_packages_can_be_wrong() -> None:
    assert {"numpy", "scipy"} <= _loaded("import scipy.linalg")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_package_but_the_lazy_loader(option: str) -> None:
    assert not _command(option) & (HEAVY | {"numpy", "msgspec", "httpx", "cryptography"})


def test_account_loads_no_simulations() -> None:
    assert "threadpoolctl" not in _command("account", "--epsilon", "1", "--cohort", "100")


@pytest.mark.parametrize("kind", ["token", "sealing", "signing"])
def test_keys_load_neither_numpy_nor_the_service(kind: str, tmp_path: Path) -> None:
    assert not _command("keys", kind, str(tmp_path / "key")) & (HEAVY | {"numpy", "httpx"})
    assert (tmp_path / "key").is_file()


def test_the_library_loads_no_package_that_only_some_commands_need() -> None:
    names = _loaded("from dpbandits import *")
    assert {"numpy", "scipy"} <= names
    assert not names & (HEAVY - {"scipy"} | {"httpx", "cryptography"})


def test_a_part_of_the_library_loads_only_its_own_packages() -> None:
    assert not _loaded("from dpbandits import Actions, DpbanditsError") & HEAVY
    assert not _loaded("import dpbandits") & (HEAVY | {"numpy"})


def test_a_client_that_reports_without_privacy_loads_no_scipy() -> None:
    study = Study(
        actions=Actions.generate("sphere", count=12, dimension=3, rng=3),
        horizon=20_000,
        privacy=PrivacyRequest(trust="none"),
        schedule=Schedule(cohorts=(6, 10), first_length=60, growth=8),
    )
    loaded = _loaded(SDK + REPORT, encode(ask(study.begin())).decode())
    assert not loaded & (HEAVY | {"click", "pygments"})
    assert {"numpy", "httpx", "cryptography", "msgspec"} <= loaded


def test_httpx_still_has_its_command_line_for_others() -> None:
    code = "from dpbandits.service.shared import AsyncTransport; AsyncTransport; import httpx._main"
    assert {"click", "rich"} <= _loaded(code)


def test_joblib_is_loaded_for_several_workers_only() -> None:
    one = "from dpbandits import Setting, sweep\nsmall = Setting.of(actions=9, dimension=2, horizon=50)\n"
    assert "joblib" not in _loaded(one + "list(sweep([small], range(2), workers=1))")
