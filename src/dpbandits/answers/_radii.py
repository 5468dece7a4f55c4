"""`Knowledge`, what is known about the rewards of one person, and `radii`, radii of errors without draws."""

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
    the people's own parameters are N(θ*, σ²I), where σ is the study's heterogeneity."""

    @property
    def only_range(self) -> bool:
        """Whether only the range of a person's rewards is known. Clients clip at it, which loses nothing."""
        return self in (Knowledge.BOUNDED, Knowledge.TABLE)


def radii(
    study: Study, evidence: PhaseEvidence, directions: FloatArray, chance: float, knowledge: Knowledge
) -> FloatArray:
    """Return radii that the errors of ⟨θ̃, v⟩ exceed, on each side, with probability at most `chance`.

    If only the range of rewards is known, a person contributes ⟨a, y⟩ with a = A'v and y in [−B, B] in each
    coordinate, where B is `Study.bound`. This lies in an interval of length 2B‖a‖₁. So by Hoeffding's lemma
    the mean of n people has the variance proxy B²‖a‖₁²/n, however the rewards of one person depend on each
    other. The same holds for people drawn from a finite table without replacement (Hoeffding 1963).

    If each person reports on one option, the n(x) rewards of option x lie in [−1, 1], and the means of
    different options are independent. So the proxy is Σ a_x²/n(x), as in the model with σ = 0.

    Args:
        study: The study.
        evidence: One phase.
        directions: One direction v per row.
        chance: The probability.
        knowledge: What is known about the people.
    """
    fit = fitted(study, evidence)
    assert isinstance(fit, LinearFit)
    coefficients, off = directions @ fit.map, fit.misfit_along(directions)
    if not knowledge.only_range or evidence.counts:
        return fit.errors.radius(coefficients, directions, confidence=chance) + off
    proxies = (study.bound * np.abs(coefficients).sum(axis=1)) ** 2 / evidence.reports
    mechanism = evidence.plan.asked_mechanism
    return mechanism.error_radius(coefficients, proxies, chance, evidence.reports) + off
