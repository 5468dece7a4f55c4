"""The client and the actuator of docs/how-to/own-client.md run unchanged, and a study learns from them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import RoleTokens, Timing
from dpbandits.service.wire import hashed, new_secret

from .helpers import Deployment, small_study
from .live import served

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-client.md"
TOKEN = new_secret()


def test_both_programs_run_a_study(tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    for program in programs:
        assert len([line for line in program.splitlines() if line.strip()]) <= 30
        exec(program, scope)
    deployed = Deployment(
        study=small_study("central"), mode=None, timing=Timing(report_seconds=60, poll_seconds=0.05)
    )
    codes = deployed.coordinator.operator.new_codes(16).codes
    deployed.run(lambda t: deployed.coordinator.operator.keep_codes(t, codes))
    air = tmp_path / "air.txt"
    air.touch()

    async def everybody(url: str) -> None:
        terms = deployed.coordinator.context.name
        clients = [
            scope["main"](url, terms, code, air, tmp_path / f"{number}.json")
            for number, code in enumerate(codes)
        ]
        await asyncio.gather(*clients, asyncio.to_thread(scope["play_study"], url, TOKEN, air))

    with served(coordinator_app(deployed.coordinator, RoleTokens(hashes={"actuator": hashed(TOKEN)}))) as url:
        asyncio.run(everybody(url))
    assert deployed.coordinator.ended
    first, second = deployed.coordinator.rounds.state.history
    assert (first.reports, second.reports) == (6, 10)
    # Each released number is the mean of 1 − action/50, mixed as the plan says, up to the noise at ε = 20.
    # Even with Laplace's tails, one exceeds 12 deviations with probability below 1e-6.
    for one in (first, second):
        expected = one.plan.reported(np.array([[1 - action / 50 for action in one.plan.support]]))[0]
        expected = expected + np.array(one.plan.offsets or 0.0)
        allowed = 12 * one.plan.asked_mechanism.error_deviation(one.reports)
        assert np.abs(np.array(one.means) - expected).max() < allowed
        if one is first:
            assert np.abs(expected).max() > 1.5 * allowed  # no rewards at all would be noticed
