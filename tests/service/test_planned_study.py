"""A planned study file runs in real processes and ends as the simulator does with the same rewards and noise.

Two files lead to the same plan: one with `[schedule] participants = N`, which the coordinator plans when it
first starts, and one that `dpbandits plan --write` wrote, with the planned cohorts in it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.actions import Actions
from dpbandits.cli import main
from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import Plan, Release, State, Study, ask, decode, leader, tell
from dpbandits.service.config import TomlFile, study_of
from dpbandits.simulation import RunTrace, simulate
from dpbandits.world import Instance

from .helpers import THETA, client_averages
from .processes import HERE, Site
from .studies import _wait_for_the_end

SEED = 11
PARTICIPANTS = 100
SPARE = 20  # additional clients, so that a failed attempt could be repeated
PLAN = ["--horizon", "1000000", "--participants", str(PARTICIPANTS), "--runs", "0"]
PRIVACY = {
    "none": ["--trust", "none"],
    "central": ["--trust", "central", "--epsilon", "20", "--delta", "1e-3"],
}


@dataclass
class PlannedSite(Site):
    """A deployment of the study file that `dpbandits plan --write` wrote."""

    planned: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.signed: Any = SimpleNamespace(digest=None)  # without a terms file no terms can be pinned
        self.study_file.write_text(self._study())

    def _study(self) -> str:
        return self.planned + "\n[timing]" + super()._study().split("[timing]")[1]

    def coordinator_with_noise(self, seed: int) -> list[str]:
        return [sys.executable, str(HERE / "simulated_coordinator.py"), str(self.study_file), str(seed)]


class Replayed:
    """The clients that reported, by phase; the simulator asks the same ones."""

    def __init__(self, instance: Instance, phases: list[list[str]], plans: list[Plan]) -> None:
        self.instance = instance
        self._left = list(zip(plans, phases, strict=True))

    def averages(self, cohort: int, support: Any, plays: Any, rng: np.random.Generator) -> FloatArray:
        plan, names = self._left.pop(0)
        assert (len(names), tuple(plan.support), tuple(plan.plays)) == (cohort, tuple(support), tuple(plays))
        return np.array([client_averages(self.instance.actions, plan, name) for name in sorted(names)])


def _written(directory: Path, trust: str) -> str:
    """Return the text of a planned study file."""
    actions = Actions.generate("sphere", count=12, dimension=3, rng=3)
    np.savetxt(directory / "actions.csv", actions.matrix, delimiter=",", fmt="%.17g")
    path = directory / "planned.toml"
    arguments = ["plan", "--actions-file", str(directory / "actions.csv"), *PLAN, *PRIVACY[trust]]
    assert main([*arguments, "--write", str(path)]) == 0
    return path.read_text()


def _run(site: PlannedSite) -> tuple[Any, list[Any]]:
    with contextlib.ExitStack() as running:
        command = site.coordinator_with_noise(SEED)
        running.enter_context(site.running("coordinator", command))
        site.wait_ready(site.url)
        codes = site.codes(PARTICIPANTS + SPARE)
        actuator = running.enter_context(site.running("actuator", site.actuator()))
        command, out = site.clients(codes)
        clients = running.enter_context(site.running("clients", command))
        _wait_for_the_end(site, [clients], actuator, 180)
        results = site.ask("GET", "/v1/results")
    return results, [tuple(row) for row in json.loads(out.read_text())]


def _replay(study: Study, results: Any) -> tuple[State, list[Plan]]:
    """Return the state after the service's releases, and the plans that asked for reports."""
    releases = iter(results["phases"])
    state, plans = study.begin(), list[Plan]()
    while not state.ended:
        plan, release = ask(state), None
        if plan.asks:
            plans.append(plan)
            stored = next(releases)["release"]
            release = decode(msgspec.json.encode({**stored, "plan": plan.digest}), Release)
        state = tell(state, plan, release)
    return state, plans


def _simulated(study: Study, plans: list[Plan], reported: list[Any], results: Any) -> RunTrace:
    phases = [
        [name for phase, attempt, name in reported if (phase, attempt) == (one["phase"], one["attempt"])]
        for one in results["phases"]
    ]
    instance = Instance(study.actions, theta=THETA)
    # Clients of the service round with their own coins. So must those of the simulator, or its noise differs.
    coins = np.random.default_rng(0)

    def flip(_noise: SimulatedNoise, chances: FloatArray) -> IntArray:
        return (coins.random(chances.shape) < chances).astype(np.int64)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SimulatedNoise, "bernoulli", flip)
        return simulate(study, Replayed(instance, phases, plans), seed=SEED)  # type: ignore[arg-type]


@pytest.mark.parametrize(("trust", "file"), [("none", "written"), ("central", "participants")])
def test_a_planned_study_file_ends_as_the_simulator_does(
    trust: str, file: str, tmp_path: Path, programs: Path
) -> None:
    planned = _written(tmp_path, trust)
    expected = study_of(TomlFile(tmp_path / "planned.toml"))
    if file == "participants":
        planned = planned.split("[schedule]")[0] + f"[schedule]\nparticipants = {PARTICIPANTS}\n"
    settings = {"report_seconds": 60.0, "join_seconds": 60.0, "poll_seconds": 1.0, "programs": programs}
    site = PlannedSite(directory=tmp_path, trust=trust, mode=None, cohorts=(), planned=planned, **settings)  # type: ignore[arg-type]
    results, reported = _run(site)
    state, plans = _replay(expected, results)
    trace = _simulated(expected, plans, reported, results)
    assert sum(plan.cohort for plan in plans) == trace.participants == PARTICIPANTS
    assert results["active"] == state.active_actions.tolist()
    assert trace.actions_left == len(results["active"]) < expected.actions.count
    assert trace.final_action == leader(state)
    assert trace.width == state.width
    print(
        f"{trust}, {file}: {len(plans)} cohorts of {[plan.cohort for plan in plans]}, {len(reported)} "
        f"reports, {trace.actions_left} of {expected.actions.count} actions left, best guess "
        f"{trace.final_action}, width {trace.width:.6g}, regret {trace.regret:.1f}"
    )
