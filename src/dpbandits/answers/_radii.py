"""What is known about the rewards of one person, and the radii of errors that follow without drawing any."""

from __future__ import annotations

from enum import Enum

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.protocol import LinearFit, PhaseEvidence, Study, fitted


class Knowledge(Enum):
    """What is known about the rewards of one person."""

    MODEL = "model"
    """The assumptions of docs/theory.md hold, with the study's heterogeneity."""
    BOUNDED = "bounded"
    """Every reward lies in the range, and people are independent. Nothing is known about how the rewards of
    one person depend on each other."""
    TABLE = "table"
    """As `BOUNDED`, but the people are drawn from a finite table without replacement."""
    NORMAL = "normal"
    """The assumptions of docs/theory.md hold with normal distributions: the noise of a reward is N(0, 1), and
    the people's own parameters are N(θ*, σ²I), σ being the study's heterogeneity."""

    @property
    def only_range(self) -> bool:
        """Whether only the range of a person's rewards is known; clients then clip at it and lose nothing."""
        return self in (Knowledge.BOUNDED, Knowledge.TABLE)


def radii(
    study: Study, evidence: PhaseEvidence, directions: FloatArray, chance: float, knowledge: Knowledge
) -> FloatArray:
    """Return radii that the errors of ⟨θ̃, v⟩ exceed, on each side, with probability at most `chance`.

    If only the range of rewards is known, a person contributes ⟨a, y⟩ with a = A'v and y in [−1, 1] in each
    coordinate. This lies in an interval of length 2‖a‖₁, so by Hoeffding's lemma the mean of n people has the
    variance proxy ‖a‖₁²/n, however the rewards of one person depend on each other. It also holds for people
    who are drawn from a finite table without replacement (Hoeffding 1963).

    If each person reports on one option, the n(x) rewards of option x lie in [−1, 1], and the means of
    different options are independent. So the proxy is Σ a_x²/n(x), which is the one of the model with σ = 0.

    Args:
        study: The study.
        evidence: One phase.
        directions: One direction v per row.
        chance: The probability.
        knowledge: What is known about the people.
    """
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    coefficients, off = directions @ fit.map, misfit_of(study, fit, directions)
    if not knowledge.only_range or evidence.counts:
        return fit.errors.radius(coefficients, directions, confidence=chance) + off
    proxies = (study.bound * np.abs(coefficients).sum(axis=1)) ** 2 / evidence.reports
    mechanism = evidence.plan.asked_mechanism
    return mechanism.error_radius(coefficients, proxies, chance, evidence.reports) + off


def misfit_of(study: Study, fit: LinearFit, directions: FloatArray) -> FloatArray:
    """Return how far the study's misfit m may move the estimate of each direction from a mean reward.

    It is m·(Σ|c_i| + 2), where c are the coefficients of the averages. The 2 allows for a difference of two
    actions, neither of which has the mean reward that is linear in its features.

    Args:
        study: The study.
        fit: The fit of one phase.
        directions: Features of actions, or differences of the features of two actions.
    """
    if not study.misfit:
        return np.zeros(len(directions))
    moved = np.abs(fit.on_averages(directions)).sum(axis=1)
    return np.asarray(study.misfit * (moved + 2), dtype=np.float64)
