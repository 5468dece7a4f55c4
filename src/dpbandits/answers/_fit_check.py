"""The result of a fit test as a `FitCheck`, in the user's units; see protocol/_lack_of_fit.py."""

from __future__ import annotations

from dpbandits.answers._answer import FitCheck
from dpbandits.answers._rewards import RewardRange
from dpbandits.protocol import FIT_LEVEL, State, fit_verdict


def fit_check_of(state: State, *, rewards: RewardRange) -> FitCheck | None:
    """Return the result of the fit test; None before it, or if the study has none.

    Args:
        state: The learner's state.
        rewards: The range of rewards in the user's units.
    """
    if state.fit_test_evidence is None:
        return None
    found = fit_verdict(state.study, state.fit_test_evidence)
    return FitCheck(
        explained=found.explained,
        about=rewards.half * found.about,
        at_least=rewards.half * found.at_least,
        level=FIT_LEVEL,
        coordinates=found.coordinates,
        participants=state.fit_test_evidence.plan.cohort,
    )
