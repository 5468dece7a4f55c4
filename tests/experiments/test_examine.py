"""Findings of experiments, tested on made-up runs in which the paper's statements do or do not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpbandits.baselines import LinUCBTrace
from dpbandits.experiments import (
    EXPERIMENTS,
    Experiment,
    Findings,
    Results,
    Scale,
    Work,
    _figure_2a as figure_2a,
    named,
    overall,
)
from dpbandits.experiments._jobs import LinUCB
from dpbandits.privacy import Guarantee
from dpbandits.protocol import Progress
from dpbandits.simulation import PhaseTrace, RunTrace, Setting

NOISE = {"none": 0.0, "central": 10.0, "shuffle": 11.0, "local": 900.0}
Regret = Callable[[Setting], float]


def as_the_paper_says(setting: Setting) -> float:
    """A regret that grows like √T and decreases in ε and α."""
    return (
        (1000 + NOISE[setting.privacy.trust] / setting.privacy.epsilon)
        * (setting.horizon / 1e6) ** 0.5
        * (2 - setting.cohorts.alpha)
    )


@pytest.fixture(autouse=True)
def _fewer_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_2a, "ORDER_RUNS", 30)


class MadeUp(Results):
    """Runs with a given regret, times a factor of the instance, plus a little noise."""

    def __init__(self, regret: Regret, delta: float = 0.01) -> None:
        self.regret, self.delta = regret, delta

    def of(self, work: Work) -> list[Any]:
        return [self._run(work, seed) for seed in range(work.runs)]

    def _run(self, work: Work, seed: int) -> Any:
        setting: Setting = work.job.setting  # type: ignore[attr-defined]
        luck = np.random.default_rng(seed).uniform(0.9, 1.1)
        chance = np.random.default_rng([seed, len(work.label)]).normal(0, 0.01)
        regret = self.regret(setting) * luck + chance
        if isinstance(work.job, LinUCB):
            times, totals = (1, setting.horizon), (0.0, regret)
            return LinUCBTrace(seed=seed, horizon=setting.horizon, times=times, cumulative_regret=totals)
        return _trace(setting, seed, regret, self.delta)


def _trace(setting: Setting, seed: int, regret: float, delta: float) -> RunTrace:
    cohort = setting.exponential().participants(setting.horizon)
    progress = Progress(
        phase=1, actions_left=1, leader=0, estimated_mean=1.0, width=1.0, largest_width=1.0, cohort=cohort,
        reports=cohort, rounds_played=setting.horizon, clients_asked=cohort, requested_epsilon=None,
        requested_delta=None,
    )  # fmt: skip
    phase = PhaseTrace(
        progress=progress, actions_before=9, actions_played=2, rounds=setting.horizon, regret=regret,
        communication=2 * cohort, clipped=0.0, elapsed=0.0,
    )  # fmt: skip
    stated = Guarantee(
        trust=setting.privacy.trust, epsilon=setting.privacy.epsilon, delta=delta, neighbouring="replace-one",
        accountant="made up", preset=setting.privacy.preset, noise="none", needs="",
    )  # fmt: skip
    return RunTrace(
        seed=seed, phases=(phase,), unit="numbers", actions_left=1, best_action_survived=True, final_action=0,
        final_gap=0.0, guarantee=None if setting.privacy.trust == "none" else stated, mechanism=None,
    )  # fmt: skip


def _experiment(name: str) -> Experiment:
    (experiment,) = named([name], EXPERIMENTS)
    return experiment


def _examined(name: str, regret: Regret = as_the_paper_says, delta: float = 0.01) -> Findings:
    return _experiment(name).examine(MadeUp(regret, delta), Scale())


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_experiment_makes_tables_panels_and_checks(experiment: Experiment) -> None:
    for scale in (Scale(), Scale(runs=3, quick=True)):
        findings = experiment.examine(MadeUp(as_the_paper_says), scale)
        assert findings.tables
        assert findings.panels
        assert findings.checks
        for table in findings.tables:
            assert all(len(row) == len(table.columns) for row in table.rows)
        for panel in findings.panels:
            for curve in panel.curves:
                assert len(curve.x) == len(curve.mean)
                assert np.isfinite(curve.mean).all()
        assert len({table.name for table in findings.tables}) == len(findings.tables)


@pytest.mark.parametrize("name", ["figure-2a", "figure-2b", "ranking", "figure-3", "table-1"])
def test_what_is_as_the_paper_says_agrees(name: str) -> None:
    findings = _examined(name)
    differing = [check for check in findings.checks if check.verdict != "agrees"]
    assert differing == []


def test_the_wrong_order_of_models_differs() -> None:
    swapped = {"central": "shuffle", "shuffle": "central"}

    def regret(setting: Setting) -> float:
        own = swapped.get(setting.privacy.trust, setting.privacy.trust)
        return 1000 + NOISE[own] / setting.privacy.epsilon

    wrong = [check.statement for check in _examined("figure-2a", regret).checks if check.verdict == "differs"]
    assert wrong == ["CDP-DPE has less regret than SDP-DPE at every ε"] * 2


def test_regret_that_grows_in_epsilon_differs() -> None:
    checks = _examined(
        "figure-2a", lambda setting: 1000 + NOISE[setting.privacy.trust] * setting.privacy.epsilon / 10
    ).checks
    wrong = {check.statement for check in checks if check.verdict == "differs"}
    assert wrong == {f"the regret of {name} falls as ε grows" for name in ("CDP-DPE", "SDP-DPE", "LDP-DPE")}


def test_a_delta_that_is_missed_differs_even_in_a_quick_set() -> None:
    findings = _experiment("figure-2b").examine(MadeUp(as_the_paper_says, 0.2), Scale(runs=2, quick=True))
    wrong = [check.statement for check in findings.checks if check.verdict == "differs"]
    assert wrong == ["(10, 0.1)-differential privacy holds in every model"] * 2
    assert overall(findings.verdicts("tight")) == "differs in part"


def test_privacy_that_is_not_almost_free_differs() -> None:
    checks = _examined("figure-2b", lambda setting: 1000 * (1 + (setting.privacy.trust != "none"))).checks
    assert any("very close" in check.statement for check in checks if check.verdict == "differs")


def test_regret_that_grows_too_fast_differs() -> None:
    checks = _examined("table-1", lambda setting: setting.horizon**0.7).checks
    wrong = [check.statement for check in checks if check.verdict == "differs"]
    assert len(wrong) == 8
    assert all("grows no faster than T^0.6" in statement for statement in wrong)


def test_regret_above_its_bound_differs() -> None:
    checks = _examined("table-1", lambda setting: 1e12 * setting.horizon**0.1).checks
    assert {check.statement for check in checks if check.verdict == "differs"} == {
        "regret stays below its bound"
    }


def test_a_population_that_matters_differs() -> None:
    def regret(setting: Setting) -> float:
        return 1000 + 1e8 / (setting.clients or 1)

    assert {check.verdict for check in _examined("regret-against-population", regret).checks} == {"differs"}


def test_few_runs_are_shown_and_not_judged() -> None:
    for scale in (Scale(runs=19), Scale(runs=20, quick=True)):
        check = scale.check("x", False, "y", why="z")
        assert (check.verdict, check.why) == ("not judged", "")
        assert "not judged. y" in check.found
    assert Scale().check("x", False, "y", why="z").why == "z"
    assert Scale().check("x", None, "y").verdict == "not judged"


def test_the_full_set_has_more_instances_where_models_are_close() -> None:
    counts = {work.label: work.runs for work in _experiment("figure-2a").works(Scale())}
    assert counts["tight CDP-DPE ε=10"] == counts["tight SDP-DPE ε=10"] == 30
    assert counts["tight LDP-DPE ε=10"] == counts["paper CDP-DPE ε=10"] == 20
    quick = {work.runs for work in _experiment("figure-2a").works(Scale(runs=3, quick=True))}
    assert quick == {3}
