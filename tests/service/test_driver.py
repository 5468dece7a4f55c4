"""The driver of a coordinator and the readiness of a party when a step fails, hangs or takes long."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from dpbandits.errors import Unreachable
from dpbandits.service.coordinator import Coordinator, coordinator_app
from dpbandits.service.coordinator._app import Driver
from dpbandits.service.shared import Metrics, RoleTokens

from .helpers import Deployment, small_study
from .live import served


def _driver(advance: Any, seconds: float) -> Driver:
    return Driver(cast("Coordinator", SimpleNamespace(advance=advance)), Metrics(), seconds=seconds)


def test_clients_that_poll_do_not_defeat_the_backoff() -> None:
    """Without backoff there would be about 40 tries; with it they are after 0, .06, .16, .34 and .68 s."""
    tries = list[float]()

    def unreachable() -> bool:
        tries.append(time.monotonic())
        raise Unreachable

    driver = _driver(unreachable, 0.02)
    driver.start()
    until = time.monotonic() + 0.8
    while time.monotonic() < until:
        driver.poke()
        time.sleep(0.005)
    driver.stop()
    assert 2 <= len(tries) <= 5
    assert driver.trouble == "the shuffler cannot be reached"


def test_a_poke_after_a_success_is_followed_at_once() -> None:
    steps = list[float]()
    driver = _driver(lambda: bool(steps.append(time.monotonic())), 30.0)
    driver.start()
    time.sleep(0.1)
    driver.poke()
    time.sleep(0.2)
    driver.stop()
    assert len(steps) == 2


def test_the_service_ends_in_time_while_a_step_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.service.coordinator._app._STEP", 0.2)
    deployed = Deployment(study=small_study("central"), mode=None)
    hangs = threading.Event()
    monkeypatch.setattr(deployed.coordinator, "advance", lambda: bool(hangs.wait(60)))
    with served(coordinator_app(deployed.coordinator, RoleTokens())) as url:
        assert httpx.get(f"{url}/healthz").status_code == 200
        began = time.monotonic()
    assert time.monotonic() - began < 5
    hangs.set()


@pytest.mark.parametrize(("alone", "status"), [(True, 200), (False, 503)])
def test_a_party_is_ready_while_a_cohort_closes_but_not_while_its_store_hangs(
    alone: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbandits.service.shared._common_endpoints._READY", 0.2)
    deployed = Deployment(study=small_study("central"), mode=None)
    deployed.advance()
    monkeypatch.setattr(deployed.coordinator, "advance", lambda: False)
    with served(coordinator_app(deployed.coordinator, RoleTokens())) as url:
        release = threading.Event()
        done = deployed.coordinator.writer.submit("release", lambda _t: release.wait(30), alone=alone)
        assert httpx.get(f"{url}/readyz").status_code == status
        release.set()
        assert done.result(10)
        assert httpx.get(f"{url}/readyz").status_code == 200
