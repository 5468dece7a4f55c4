"""Bounds of widths keep the same actions as exact widths, for all mechanisms and steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.privacy.tails import Spread
from dpbandits.privacy.trust import NoPrivacy
from dpbandits.protocol import (
    LinearFit,
    PhaseEvidence,
    Schedule,
    State,
    Steps,
    Study,
    _elimination as module,
    ask,
    fitted,
    tell,
)
from dpbandits.protocol._elimination import survivors
from tests.privacy.noises import NOISES, PURE_NOISES

from .helpers import people, simulate_release, small_study

KINDS = [("none", None), *((trust, noise) for trust, noises in NOISES.items() for noise in noises)]
_VARIED = ("differences", "weighted", "recentred")
STEPS = [
    Steps().without(*[name for name, taken in zip(_VARIED, bits, strict=True) if not taken])
    for bits in product((True, False), repeat=3)
]
NAIVE = 10**9


def _study(trust: str, noise: str | None, steps: Steps, seed: int, **changes: Any) -> Study:
    family = ("sphere", "ball", "clustered", "low-rank")[seed % 4]
    defaults: dict[str, Any] = {
        "actions": Actions.generate(family, count=400, dimension=4 + seed % 3, rng=seed),
        "horizon": 50_000,
        "privacy": PrivacyRequest(
            trust=trust, noise=noise, epsilon=3, delta=0 if noise in PURE_NOISES else 1e-3
        ),
        "schedule": Schedule.shared(9000, phases=5, first_length=20, growth=3, cohort_growth=1.5),
        "steps": steps,
        "bounded_rewards": seed % 2 == 0,
        "heterogeneity": 0.0 if seed % 5 == 4 else 0.1,
    }
    return small_study(**{**defaults, **changes})


def _phases(study: Study, seed: int) -> Iterator[tuple[State, LinearFit, np.ndarray]]:
    """Yield, for each phase, the state before it, its fit, and the scores of the active actions."""
    rng, population, state = np.random.default_rng(seed), people(study, seed), study.begin()
    while not state.ended:
        plan = ask(state)
        if plan.mechanism is None:
            return
        averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
        after = tell(state, plan, simulate_release(plan, averages, SimulatedNoise(rng)))
        evidence = after.history[-1]
        scores = study.actions.matrix[state.active_actions] @ np.array(evidence.estimate)
        fit = fitted(study, evidence)
        assert isinstance(fit, LinearFit)
        yield state, fit, scores
        state = after


def _first_with_design(state: State, evidence: PhaseEvidence) -> PhaseEvidence:
    return next((old for old in state.history if old.plan.support == evidence.plan.support), evidence)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(("trust", "noise"), KINDS)
def test_the_same_actions_survive_with_the_same_width(
    trust: str, noise: str | None, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = 8 * KINDS.index((trust, noise)) + STEPS.index(steps)
    for state, fit, scores in _phases(_study(trust, noise, steps, seed), seed):
        kept, width = survivors(state, fit, scores, few=NAIVE)
        bounded, bound = survivors(state, fit, scores, few=0)
        np.testing.assert_array_equal(bounded, kept)
        assert bound >= width * (1 - 1e-12)
        monkeypatch.setattr(module, "_MANY", 1.0)
        thorough, largest = survivors(state, fit, scores, few=0)
        monkeypatch.undo()
        np.testing.assert_array_equal(thorough, kept)
        assert largest == pytest.approx(width, rel=1e-12)


@pytest.mark.parametrize("differences", [True, False])
@pytest.mark.parametrize(("trust", "noise"), KINDS)
def test_widths_lie_between_their_bounds(trust: str, noise: str | None, differences: bool) -> None:
    steps = Steps() if differences else Steps().without("differences")
    seed = KINDS.index((trust, noise))
    for state, fit, scores in _phases(_study(trust, noise, steps, seed), seed):
        active = state.active_actions
        towards = int(active[np.argmax(scores)]) if differences else None
        exact = fit.widths(active, towards=towards)
        for reference in {_first_with_design(state, fit.evidence), fit.evidence}:
            found = fit.bracket(state, reference, towards=towards)
            assert found is not None
            assert (found.low <= exact * (1 + 1e-12)).all()
            assert (found.high >= exact * (1 - 1e-12)).all()
            far = exact > max(exact.max() / 10, 1e-60)
            assert (found.low[far] > exact[far] / 30).all()


@pytest.mark.parametrize(("trust", "noise"), KINDS)
def test_the_best_score_always_survives(trust: str, noise: str | None) -> None:
    """The width of an action's difference to itself is zero, not NaN."""
    for state, fit, scores in _phases(_study(trust, noise, Steps(), 1), 1):
        assert survivors(state, fit, scores)[0][np.argmax(scores)]


def test_without_clipping_gaussian_bounds_of_the_own_phase_are_tight() -> None:
    for trust in ("none", "central", "local", "shuffle"):
        noise = None if trust == "none" else "discrete-gaussian"
        study = _study(trust, noise, Steps().without("recentred"), 0)
        for state, fit, _ in _phases(study, 0):
            found = fit.bracket(state, fit.evidence)
            assert found is not None
            np.testing.assert_allclose(found.high, found.low, rtol=1e-3)


def test_phases_with_one_design_share_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every action is played once, covariances are multiples of each other, so bounds stay tight."""
    calls = []
    original = LinearFit.bracket

    def counted(fit: LinearFit, state: State, reference: PhaseEvidence, **options: Any) -> Any:
        calls.append((fit.evidence.plan.phase, reference.plan.phase))
        return original(fit, state, reference, **options)

    monkeypatch.setattr(LinearFit, "bracket", counted)
    steps = Steps().without("recentred")
    study = _study("none", None, steps, 0, schedule=Schedule(alpha=0.3), horizon=300)
    for state, fit, scores in list(_phases(study, 0))[:3]:
        if len(state.active_actions) == study.actions.count:
            survivors(state, fit, scores, few=0)
    assert len(calls) > 1
    assert {reference for _, reference in calls} == {1}


def test_nothing_is_assumed_about_a_mechanism_with_its_own_error_radius() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd(NoPrivacy):
        def error_radius(self, *arguments: Any) -> Any:
            return 2 * super().error_radius(*arguments)

    spread = Spread(least=0, most=1, largest=1)
    assert Odd(coordinates=1, cohort=1, bound=1).radius_factors(spread, 1e-3, 1) == (0, np.inf)
    assert NoPrivacy(coordinates=1, cohort=1, bound=1).radius_factors(spread, np.exp(-2), 1) == (2, 2)
