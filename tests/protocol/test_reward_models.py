"""The learner works with a reward model from outside the package, `toy_reward_model.py`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    REWARD_MODELS,
    Fit,
    LinearFit,
    Release,
    Schedule,
    State,
    Steps,
    Study,
    ask,
    decode,
    encode,
    fitted,
    leader,
    register_model,
    replay,
    simulate_groups,
    tell,
)

from .toy_reward_model import Tanh, TanhFit

THETA = np.array([0.9, -0.3, 0.2])
CASES = [(trust, one) for trust in ("none", "central", "shuffle") for one in ("everyone", "one_per_round")]


def _study(trust: str = "central", assignment: str = "everyone", **changes: Any) -> Study:
    cohorts = Schedule.shared(60_000, phases=3, first_length=100, growth=10)
    defaults: dict[str, Any] = {
        "actions": Actions.generate("sphere", count=60, dimension=3, rng=2),
        "horizon": 200_000 if assignment == "everyone" else 3_000_000,
        "privacy": PrivacyRequest(trust=trust, epsilon=3, delta=1e-4),
        "schedule": cohorts if assignment == "everyone" else Schedule(first_length=20_000, growth=8.0),
        "heterogeneity": 0.0,
        "assignment": assignment,
        "model": "tanh",
    }
    return Study(**{**defaults, **changes})


def _means(fit: Fit) -> np.ndarray:
    study = fit.study
    return study.reward_model.means(study.actions.matrix, np.arange(study.actions.count), fit.estimate)


class _Crowd:
    """Clients whose rewards are ±1 with mean tanh⟨θ, x⟩."""

    def __init__(self, actions: Actions) -> None:
        self.means = np.tanh(actions.matrix @ THETA)

    def averages(self, cohort: int, support: Any, plays: Any, rng: np.random.Generator) -> np.ndarray:
        chances = (1 + self.means[list(support)]) / 2
        wins = rng.binomial(np.array(plays), chances, size=(cohort, len(plays)))
        return 2 * wins / np.array(plays) - 1

    def rewards(self, cohort: int, action: int, rng: np.random.Generator) -> Any:
        yield self.averages(cohort, [action], [1], rng)


def _run(study: Study, seed: int = 0) -> tuple[list[State], list[Release]]:
    """Run all phases with `ask` and `tell`."""
    rng, crowd = np.random.default_rng(seed), _Crowd(study.actions)
    states, releases = [study.begin()], list[Release]()
    while not states[-1].ended:
        plan = ask(states[-1])
        release = None
        if plan.asks:
            reported = study.assignment_rule.simulate(plan, crowd, rng)
            release, clipped = simulate_groups(plan, reported, SimulatedNoise(rng))
            assert clipped == 0
            releases.append(release)
        states.append(tell(states[-1], plan, release))
    return states, releases


@pytest.mark.parametrize(("trust", "assignment"), CASES)
def test_the_right_actions_are_eliminated(trust: str, assignment: str) -> None:
    """In each phase, the error of a mean exceeds its width with probability β = 1/(kT) < 10⁻⁷."""
    study = _study(trust, assignment)
    true = np.tanh(study.actions.matrix @ THETA)
    for seed in range(3):
        states, _ = _run(study, seed)
        assert int(np.argmax(true)) in states[-1].active_actions
        assert len(states[-1].active_actions) < 10
        assert true.max() - true[leader(states[-1])] < 0.02
        for state in states[1:]:
            assert state.evidence is not None
            fit = fitted(study, state.evidence)
            assert isinstance(fit, TanhFit)
            everything = np.arange(study.actions.count)
            assert (np.abs(_means(fit) - true) <= fit.widths(everything)).all()
            one = state.progress[-1]
            assert one.interval is not None
            assert one.interval[0] <= true[one.leader] <= one.interval[1]


def test_the_linear_model_does_not_fit_these_rewards() -> None:
    """Widths of the wrong model do not contain the true means, so the check above can fail."""
    study = _study("none", model="linear")
    assert study.learning.recentred
    true, misses = np.tanh(study.actions.matrix @ THETA), 0
    for state in _run(study)[0][1:]:
        assert state.evidence is not None
        fit = fitted(study, state.evidence)
        assert isinstance(fit, LinearFit)
        everything = np.arange(study.actions.count)
        misses += int((np.abs(_means(fit) - true) > fit.widths(everything)).sum())
    assert misses > 10


def test_a_study_of_another_model_is_replayed_and_survives_json() -> None:
    study = _study()
    states, releases = _run(study)
    assert replay(study, releases) == states[len(releases)]
    for state in states:
        assert decode(encode(state), State, actions=study.actions) == state


def test_the_model_is_part_of_the_digest() -> None:
    study = _study()
    assert (
        replace(study, model="linear", steps=study.learning).digest
        != replace(study, steps=study.learning).digest
    )


def test_a_study_takes_the_steps_that_its_model_supports() -> None:
    assert _study().learning == Steps().without("weighted", "recentred", "whitened")
    with pytest.raises(InvalidValue, match=r"steps: got weighted, expected steps that .* tanh supports"):
        _study(steps=Steps())


def test_what_a_model_cannot_serve_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidValue, match="heterogeneity: got 0.1, expected 0 with the reward model tanh"):
        _study(heterogeneity=0.1)
    with pytest.raises(InvalidValue, match="model: got 'cubic', expected .*linear"):
        _study(model="cubic")


def test_a_name_is_given_once() -> None:
    assert register_model(Tanh) is Tanh  # registering the same class again is allowed

    class Other(Tanh):
        name = "linear"

    before = REWARD_MODELS["linear"]
    with pytest.raises(InvalidValue, match="model: got linear from"):
        register_model(Other)
    assert REWARD_MODELS["linear"] is before


def test_the_guide_shows_this_model() -> None:
    here = Path(__file__)
    guide = (here.parents[2] / "docs" / "how-to" / "new-reward-model.md").read_text(encoding="utf-8")
    source = here.with_name("toy_reward_model.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert [block in source for block in blocks] == [True, True, False]
    assert "import toy_reward_model" in blocks[2]
