"""The result of a confirmation: intervals of the leads over the current option that need no model.

The actions of the study of finalists are indicator vectors (protocol/_confirmation.py). So every vector of
mean rewards is linear in them. The radii of all leads, on both sides, hold together at the level
(`PhaseErrors.joint`).
"""

from __future__ import annotations

import numpy as np

from dpbandits.answers._answer import Compared, Confirmed
from dpbandits.answers._errors import PhaseErrors
from dpbandits.answers._radii import Knowledge
from dpbandits.answers._rewards import RewardRange
from dpbandits.options import Options, name_of
from dpbandits.protocol import (
    CLIPPING_SHARE,
    State,
    fitted,
    left_after_clipping,
    tabular_evidence,
    to_current,
)


def confirmed_of(
    state: State,
    options: Options | None,
    *,
    level: float,
    rewards: RewardRange,
    knowledge: Knowledge = Knowledge.MODEL,
) -> Confirmed | None:
    """Return what the confirmation of a study has found; None before it, or if the study has none.

    Args:
        state: The learner's state.
        options: The options of the study; None if its actions have no names.
        level: The probability with which all intervals together cover the truth.
        rewards: The range of rewards in the user's units.
        knowledge: What is known about the people. Only one fact is used: with `Knowledge.TABLE` people are
            drawn without replacement, and bounds on their sums are wider; otherwise people are independent.
    """
    evidence, own = state.confirmation_evidence, state.study.confirmation
    if evidence is None or own is None:
        return None
    tabular, table = tabular_evidence(state.study, evidence)
    failure = left_after_clipping(1 - level)
    independent = knowledge is not Knowledge.TABLE
    if own.assumes == "spread":
        knowledge = Knowledge.MODEL
    else:
        knowledge = Knowledge.BOUNDED if independent else Knowledge.TABLE
    errors = PhaseErrors(
        tabular, table, knowledge, clipping=CLIPPING_SHARE * failure, independent=independent
    )
    directions = to_current(len(evidence.plan.support) - 1)
    leads = directions @ fitted(tabular, table).estimate
    both = errors.joint(np.vstack([directions, -directions]), (1 - CLIPPING_SHARE) * failure)
    radii = np.maximum(*np.split(both, 2))
    largest, half = 2 * tabular.bound, rewards.half

    compared = tuple(
        Compared(
            option=name_of(options, action),
            estimate=half * float(lead),
            low=half * max(-largest, float(lead - radius)),
            high=half * min(largest, float(lead + radius)),
        )
        for action, lead, radius in zip(evidence.plan.support[:-1], leads, radii, strict=True)
    )
    return Confirmed(
        current=name_of(options, own.current),
        level=level,
        participants=evidence.plan.cohort,
        assumes=_assumed(state, rewards),
        compared=tuple(sorted(compared, key=lambda one: -one.estimate)),
    )


def _assumed(state: State, rewards: RewardRange) -> str:
    study = state.study
    ends = f"rewards lie in [{rewards.low:g}, {rewards.high:g}]"
    if study.confirmation is not None and study.confirmation.assumes == "range":
        return f"clients are drawn independently, and {ends}"
    mean = ends if study.bounded_rewards else f"mean {ends}"
    return (
        f"clients are drawn independently, {mean}, the mean reward of a client deviates from that of all "
        f"clients with a spread of at most {rewards.half * study.heterogeneity:.3g}, and the noise of single "
        f"rewards is independent and {rewards.half:.3g}-sub-Gaussian"
    )
