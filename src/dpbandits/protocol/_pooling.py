"""Bounds on mean rewards and their differences from all phases together, which hold for all phases at once.

Phase i estimates ⟨θ*, v⟩ by ⟨θ̃_i, v⟩, whose error e_i is sub-Gaussian with proxy s_i² given the earlier
phases. s_i² is known before the clients of phase i report. With V = Σ 1/s_i² and S = Σ e_i/s_i²,

    exp(λS − λ²V/2)   is a supermartingale for every λ, and so is its mean over λ ~ |N(0, 1/ρ)|,

    2·√(ρ/(V + ρ))·exp(S²/(2(V + ρ)))·Φ(S/√(V + ρ)).

By Ville's inequality this exceeds 1/α in any phase with probability at most α. So in all phases together

    S/V ≤ y·√(V + ρ)/V,   y²/2 + log 2Φ(y) = log(1/α) + ½·log((V + ρ)/ρ),

with probability at least 1 − α. S/V is the error of the estimate Σ (⟨θ̃_i, v⟩/s_i²)/V. Every ρ that is fixed
before the first phase is valid. The width is near its smallest for V between 5ρ and 200ρ. Proofs:
docs/theory.md, section *All phases together*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.protocol._study import Study
from dpbandits.protocol.assignment import Pull
from dpbandits.protocol.model import Fit

# ρ as a share of the information that all planned phases give together. With this share, widths are nearly
# the smallest both in studies that stop after a twentieth of their clients and in studies that need all of
# them.
_PRIOR = 0.02
_TINY = 1e-100  # the least variance proxy: the difference of an action to itself has no error
_NEWTON_STEPS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Leads:
    """Estimates of some directions, for example leads of one action over others, from all phases.

    Attributes:
        estimates: The pooled estimate of each direction.
        information: V of each direction.
        prior: ρ of each direction.
        pulls: How far clipping and a misfit of the model may have moved each estimate.
    """

    estimates: FloatArray
    information: FloatArray
    prior: FloatArray
    pulls: FloatArray

    def widths(self, failure: float) -> FloatArray:
        """Return widths that errors exceed on one side, in any phase, with probability `failure` at most.

        The same widths hold for the other side.

        Args:
            failure: The failure probability of one bound.

        Returns:
            One width per direction.
        """
        total = self.information + self.prior
        level = math.log(1 / failure) + np.log(total / self.prior) / 2
        return np.asarray(_quantiles(level) * np.sqrt(total) / self.information + self.pulls)


def _quantiles(levels: FloatArray) -> FloatArray:
    """Return y with y²/2 + log 2Φ(y) ≥ level, the least one up to rounding.

    The left side is convex in y ≥ 0. So Newton's method from √(2·level), where it is at least the level,
    decreases towards the solution and never passes it.
    """
    found = np.sqrt(2 * levels)
    for _ in range(_NEWTON_STEPS):
        log_chance = log_ndtr(found)
        excess = found**2 / 2 + math.log(2) + log_chance - levels
        slope = found + np.exp(-(found**2) / 2 - log_chance) / math.sqrt(2 * math.pi)
        found = found - excess / slope
    return np.asarray(found, dtype=np.float64)


def pooled_leads(study: Study, fits: Sequence[Fit], best: int, others: IntArray) -> Leads | None:
    """Pool the estimates of ⟨θ*, best − other⟩ from all phases with sub-Gaussian errors.

    Args:
        study: The study.
        fits: The fits of all phases so far.
        best: The index of an action.
        others: The indices of other actions that were active in all these phases.

    Returns:
        One lead per other action; None if no phase can be pooled, or if the study does not pool.
    """
    matrix = study.actions.matrix
    return pooled_along(study, fits, np.asarray(matrix[best] - matrix[others], dtype=np.float64))


def pooled_along(study: Study, fits: Sequence[Fit], directions: FloatArray) -> Leads | None:
    """Pool the estimates of ⟨θ*, v⟩ from all phases with sub-Gaussian errors.

    Args:
        study: The study.
        fits: The fits of some phases. Whether a phase is included may depend on earlier phases only.
        directions: One row v per direction, in the span of the actions that each of these phases played.

    Returns:
        One estimate per row; None if no phase can be pooled, or if the study does not pool.
    """
    if not study.pools:
        return None
    parts = [part for one in fits if (part := one.comparison(directions)) is not None]
    if not parts:
        return None
    shares = [1 / np.maximum(part.proxies, _TINY) for part in parts]
    information = np.sum(shares, axis=0)
    pairs = list(zip(shares, parts, strict=True))
    pulls = _pulled(shares, [part.pull for part in parts], study.bound_failure)
    pulls += np.sum([share * part.bias for share, part in pairs], axis=0)
    return Leads(
        estimates=np.sum([share * part.estimates for share, part in pairs], axis=0) / information,
        information=information,
        prior=_PRIOR * parts[0].planned,
        pulls=pulls / information,
    )


def _pulled(shares: Sequence[FloatArray], pulls: Sequence[Pull], failure: float) -> FloatArray:
    """Return how far clipping moves Σ share·estimate at most.

    Phases without slopes add their own bounds. For the others the smaller of two bounds is taken. One is the
    sum of their own bounds. The other follows from the total excess of their clients, which exceeds
    Σ expected + log(1/failure) in any phase with probability at most `failure` (docs/theory.md).
    """
    alone, added, steepest = (np.zeros_like(shares[0]) for _ in range(3))
    total = math.log(1 / failure)
    for share, pull in zip(shares, pulls, strict=True):
        if pull.slopes is None:
            alone += share * pull.most
        else:
            added += share * pull.most
            steepest = np.maximum(steepest, share * pull.slopes)
            total += pull.expected
    return np.asarray(alone + np.minimum(added, total * steepest), dtype=np.float64)
