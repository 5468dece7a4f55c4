"""`dpbandits serve --conformance`: exchanges with a live server, which no client mistakes for a study."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dpbandits.errors import InvalidValue, Refused
from dpbandits.service.client import ClientCore, Consent
from dpbandits.service.coordinator import Context, Coordinator
from dpbandits.service.shared import Transport
from dpbandits.service.wire import KeyPair, Pins
from dpbandits.storage import MemoryStore, open_store

from .blocking_client import Client, take_part_in_turn
from .helpers import Deployment, small_study
from .processes import ENVIRONMENT, HERE, stop

NODE = shutil.which("node")


@contextlib.contextmanager
def _serving(trust: str, mode: str, *more: str) -> Iterator[dict[str, list[str]]]:
    """Start the command; yield the words that it printed, by the first word of the line."""
    command = [sys.executable, "-m", "dpbandits.cli", "serve", "--conformance", "--trust", trust]
    process = subprocess.Popen(
        [*command, "--mode", mode, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        told = dict[str, list[str]]()
        assert process.stdout is not None
        for line in process.stdout:
            first, *rest = line.split()
            told.setdefault(first, []).extend(rest)
            if first == "Each":
                break
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{told['url'][0]}/readyz")
                break
            time.sleep(0.1)
        yield told
    finally:
        stop(process)
        if process.stdout is not None:
            process.stdout.close()


def _client(told: dict[str, list[str]], trust: str, transport: Transport, *, conformance: bool) -> Client:
    consent = Consent(trusts=(trust,), conformance=conformance)
    core = ClientCore(url=told["url"][0], consent=consent, pins=Pins(terms=told["terms"][0]))
    return Client(core, transport)


@pytest.mark.parametrize(("trust", "mode"), [("local", "trusted"), ("shuffle", "split")])
def test_clients_in_two_languages_complete_an_exchange(trust: str, mode: str, tmp_path: Path) -> None:
    with _serving(trust, mode) as told, Transport() as transport:
        about = httpx.get(f"{told['url'][0]}/v1/study").json()
        assert about["conformance"] is True
        assert json.loads(about["terms"])["version"] == "dpbandits conformance v1"
        assert told["CONFORMANCE"][:5] == ["TEST:", "this", "is", "not", "a"]
        with pytest.raises(Refused, match="a study is not a conformance test"):
            _client(told, trust, transport, conformance=False).agree()
        tested = _client(told, trust, transport, conformance=True)
        assert take_part_in_turn(tested, told["code"][0], lambda plan: [0.5] * len(plan.support))
        if NODE is None:
            pytest.skip("node is not installed: only the Python client was tested")
        settings = {
            "epsilon": 1.5, "delta": 1e-6, "trusts": [trust], "pinned": told["terms"][0], "conformance": True,
            "rewards": [0.5] * 12, "memory": str(tmp_path / "memory"),
        }  # fmt: skip
        (tmp_path / "settings.json").write_text(json.dumps(settings))
        command = [NODE, str(HERE / "node" / "client.mjs"), told["url"][0], told["code"][1]]
        done = subprocess.run(
            [*command, str(tmp_path / "settings.json")],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-1000:]
        assert json.loads(done.stdout)["state"] == "sent"


def test_a_report_with_proofs_is_accepted_in_mode_verified() -> None:
    """What follows after the deadline, which is too far for a test, is in test_verified.py."""
    with _serving("shuffle", "verified", "--noise", "server-gaussian") as told, Transport() as transport:
        assert "mode/verified" in told["features"]
        tested = _client(told, "shuffle", transport, conformance=True)
        assert take_part_in_turn(tested, told["code"][0], lambda plan: [0.5] * len(plan.support))


def test_a_conformance_test_refuses_a_real_store_and_a_study_file(tmp_path: Path) -> None:
    context = Context(study=small_study("local"), keys=KeyPair.new(), conformance=True)
    store = open_store(f"sqlite:///{tmp_path / 'study.sqlite'}")
    with pytest.raises(InvalidValue, match="a store in memory"):
        Coordinator(context, store)
    store.close()
    command = [sys.executable, "-m", "dpbandits.cli", "serve", "--conformance", "study.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "exactly one of: a study file, --example, --conformance" in done.stderr


def test_the_store_of_a_test_serves_no_study_and_its_shuffler_no_other() -> None:
    store = MemoryStore()
    context = Context(study=small_study("local"), keys=KeyPair.new(), conformance=True)
    coordinator = Coordinator(context, store)
    with pytest.raises(InvalidValue, match="version"):
        Coordinator(replace(context, conformance=False), store)
    coordinator.close()
    deployed = Deployment(study=small_study("shuffle"), mode="split")
    deployed.advance()
    deployed.join(6)
    assert deployed.link is not None
    shuffler = deployed.link.shuffler
    shuffler.context = replace(shuffler.context, conformance=True)
    with pytest.raises(Refused, match="separate shufflers"):
        deployed.play()
    deployed.close()
