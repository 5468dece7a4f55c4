"""One simulated run: its totals, its seed, its regret, and populations that run out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import ask, tell
from dpbandits.simulation import Setting, run_once, simulate
from dpbandits.world import Population
from tests.protocol.helpers import simulate_release

SMALL = {"actions": 60, "dimension": 4, "horizon": 5000}
UNPLANNED = {**SMALL, "schedule": "equal"}  # planning takes seconds


@pytest.mark.parametrize(
    ("trust", "preset"),
    [("none", "tight"), ("none", "paper"), ("central", "tight"), ("local", "tight"), ("shuffle", "paper")],
)
@pytest.mark.parametrize("rewards", ["gaussian", "uniform", "bernoulli"])
def test_totals_follow_from_the_phases(trust: str, preset: str, rewards: str) -> None:
    planned = SMALL if rewards == "gaussian" or preset == "paper" else UNPLANNED
    trace = run_once(Setting.paper(trust=trust, preset=preset, rewards=rewards, **planned), seed=3)
    assert trace.rounds == 5000
    assert trace.participants == sum(phase.cohort for phase in trace.phases) == 1050
    assert trace.regret == pytest.approx(sum(phase.regret for phase in trace.phases))
    assert trace.unit == ("bits" if trust == "shuffle" else "numbers")
    assert trace.simulated
    assert (trace.guarantee is None) == (trust == "none")
    for phase in trace.phases:
        if trust != "shuffle":
            # One number per action, or fewer if clients report whitened statistics.
            assert phase.communication % max(1, phase.cohort) == 0
            assert phase.communication <= phase.cohort * phase.actions_played
            assert preset == "tight" or phase.communication == phase.cohort * phase.actions_played
        assert (phase.width is None) == (phase.cohort == 0)
        assert 0 <= phase.clipped < 1
    assert [phase.actions_before for phase in trace.phases] == sorted(
        (phase.actions_before for phase in trace.phases), reverse=True
    )


def test_one_seed_gives_one_result() -> None:
    setting = Setting.of(trust="central", **UNPLANNED)
    assert run_once(setting, 5) == run_once(setting, 5)
    assert run_once(setting, 5) != run_once(setting, 6)


def test_an_instance_seed_fixes_the_instance_over_the_runs() -> None:
    own, fixed = Setting.of(**UNPLANNED), Setting.of(instance_seed=9, **UNPLANNED)
    assert own.instance(1).actions != own.instance(2).actions
    assert fixed.instance(1).actions == fixed.instance(2).actions
    np.testing.assert_array_equal(fixed.instance(1).theta, fixed.instance(2).theta)
    assert run_once(fixed, 1) != run_once(fixed, 2)


def test_an_actions_file_fixes_the_actions_alone(tmp_path) -> None:
    path = tmp_path / "actions.npz"
    np.savez(path, Setting.of(**SMALL).instance(0).actions.matrix)
    setting = Setting.of(actions_file=str(path), horizon=100)
    assert setting.instance(1).actions == setting.instance(2).actions
    assert not np.array_equal(setting.instance(1).theta, setting.instance(2).theta)


def test_regret_is_measured_on_what_was_played() -> None:
    """Compare with a replay of the same draws that adds up the regret of the plans."""
    setting = Setting.of(trust="central", **UNPLANNED)
    instance = setting.instance(4)
    study = setting.study(instance.actions)
    trace = simulate(study, setting.people(instance), seed=4)
    clients, privacy = (np.random.default_rng(s) for s in np.random.SeedSequence(4).spawn(2))
    noise, population = SimulatedNoise(privacy), Population(instance, heterogeneity=0.1)

    state, regret = study.begin(), 0.0
    while not state.ended:
        plan = ask(state)
        regret += sum(
            plays * float(instance.gaps[action])
            for action, plays in zip(plan.support, plan.plays, strict=True)
        )
        release = None
        if plan.asks:
            averages = population.averages(plan.cohort, plan.support, plan.plays, clients)
            release = simulate_release(plan, averages, noise)
        state = tell(state, plan, release)
    assert trace.regret == pytest.approx(regret)


def test_regret_over_time_is_cumulative() -> None:
    trace = run_once(Setting.of(**UNPLANNED), seed=0)
    curve = trace.regret_at(np.array([0.0, 1000, 2500, 5000]))
    assert curve[0] == 0
    assert (np.diff(curve) >= 0).all()
    assert curve[-1] == pytest.approx(trace.regret)


def test_fixed_cohorts_are_the_same_learner() -> None:
    trace = run_once(Setting.of(algorithm="dpe-fixed", fixed_cohort=30, **SMALL), seed=0)
    assert {phase.cohort for phase in trace.phases if phase.width is not None} == {30}


@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_one_client_per_round_is_the_same_learner(trust: str, preset: str) -> None:
    setting = Setting.of(algorithm="pe", trust=trust, preset=preset, rewards="bernoulli", **SMALL)
    trace = run_once(setting, seed=3)
    assert trace == run_once(setting, seed=3)
    assert trace.rounds == 5000
    asked = [phase for phase in trace.phases if phase.width is not None]
    assert [phase.cohort for phase in asked] == [phase.rounds for phase in asked]
    assert trace.participants == sum(phase.rounds for phase in asked) > 2000
    for position, phase in enumerate(asked):
        nominal = 22 * 2**position  # ⌈16·log log 4 + 16⌉ = 22
        assert nominal <= phase.rounds <= nominal + phase.actions_played
        assert phase.clipped == 0  # rewards of ±1 are within the bound
    if trust != "shuffle":  # one number per client
        assert trace.communication == trace.participants
    if trust == "none":
        assert trace.guarantee is None
    else:
        assert trace.guarantee is not None
        assert (trace.guarantee.trust, trace.guarantee.neighbouring) == (trust, "replace-one")


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_one_client_per_round_eliminates_and_keeps_the_best(trust: str) -> None:
    setting = Setting.of(algorithm="pe", trust=trust, epsilon=1, delta=1e-6, **{**SMALL, "horizon": 10**6})
    trace = run_once(setting, seed=1)
    assert trace.best_action_survived
    assert trace.actions_left < 10
    assert 0 < max(phase.clipped for phase in trace.phases) < 0.02
    assert trace.guarantee is not None
    assert trace.guarantee.delta <= 1e-6


def test_one_client_per_round_has_as_many_clients_as_it_needs() -> None:
    assert Setting.of(algorithm="pe").clients is None
    assert Setting.of().clients == 10**5
    assert Setting.of(algorithm="pe", population=7).clients == 7
    stopped = Setting.of(algorithm="pe", population=500, when_clients_run_out="stop", **SMALL)
    assert run_once(stopped, seed=0).participants <= 500


def test_a_study_that_runs_out_of_clients_stops_asking() -> None:
    setting = Setting.of(population=100, when_clients_run_out="stop", **UNPLANNED)
    trace = run_once(setting, seed=0)
    assert trace.participants <= 100
    assert trace.rounds == 5000
    assert trace.phases[-1].actions_played == 1


def test_a_simulation_calibrates_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpbandits.privacy import accounting
    from dpbandits.privacy.trust._shuffled_bits import _encoding

    asked: list[tuple[float, ...]] = []
    genuine = accounting.choose_encoding

    def counted(epsilon: float, delta: float, coordinates: int, reports: int) -> Any:
        asked.append((coordinates, reports))
        return genuine(epsilon, delta, coordinates, reports)

    _encoding.cache_clear()
    monkeypatch.setattr(accounting, "choose_encoding", counted)
    setting = Setting.of(trust="shuffle", noise="binomial", epsilon=3.21, delta=1e-4, **UNPLANNED)
    shapes = {(1, 1)}  # a study checks this before it begins
    for seed in (1, 2):
        shapes |= {
            (phase.actions_played, phase.cohort) for phase in run_once(setting, seed).phases if phase.cohort
        }
    assert 0 < len(asked) == len(set(asked)) <= len(shapes)
