"""The distribution of the gap of the best guess, if estimates have normal errors.

The best guess is the action with the largest estimated mean. Let x* be the best action. An action x beats x*
if its estimate is larger. The expected gap of the guess is at most U = Σ_x gap(x)·P(x beats x*). This is
nearly exact if wrong guesses are rare. If they are not, several actions beat x* at once, and U counts each.

An unbiased estimate picks one action x with probability proportional to w(x)·P(x beats x*), draws the errors
of all actions given that x beats x*, and averages

    f · Σ_y w(y)·P(y beats x*) / Σ (w(y) over all y that beat x*)

where f is the gap of the action with the largest estimate, or 1 for the probability of a wrong guess. Each
outcome in which an action beats x* is counted once, because the weights of the actions that beat x* cancel.
The weight w(x) = gap(x)/U + 1/V with V = Σ_x P(x beats x*) suits both f: no term is above 2U, or 2V.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dpbandits._arrays import FloatArray

_TIE = 1e-12  # an action with a smaller gap is as good as the best one
_NEVER = 1e-200  # a smaller expected gap is treated as 0; its inverse would overflow
_BELOW_ONE = 1 - 1e-15  # a pick may round to 1, and no sum is above the last one
_UNLIKELY = 1e-9  # actions that contribute less than this share of the largest contribution are left out


@dataclass(frozen=True, kw_only=True)
class ErrorDraws:
    """Random numbers for the errors of one problem. All schedules that are compared use the same numbers.

    Attributes:
        picks: Numbers in [0, 1), one per draw, that decide which action beats the best one.
        tails: Numbers in (0, 1), one per draw, that decide by how much it beats the best one.
        normals: One row of independent standard normal numbers per draw.
        seed: The seed of further random numbers.
    """

    picks: FloatArray
    tails: FloatArray
    normals: FloatArray
    seed: int

    @staticmethod
    def drawn(rng: np.random.Generator, count: int, dimension: int) -> ErrorDraws:
        """Draw the numbers, stratified: each interval of length 1/count has one pick and one tail."""
        strata = np.arange(count)
        tails = (rng.permutation(count) + rng.uniform(0.01, 0.99, count)) / count
        return ErrorDraws(
            picks=(strata + rng.uniform(size=count)) / count,
            tails=tails,
            normals=rng.standard_normal((count, dimension)),
            seed=int(rng.integers(1 << 32)),
        )


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The distribution of the gap of the best guess.

    Attributes:
        gaps: Gaps of guesses that were drawn.
        chances: The estimated probability of each of these gaps. With the remaining probability the guess is
            right.
    """

    gaps: FloatArray
    chances: FloatArray

    @property
    def expected_gap(self) -> float:
        """The expected gap."""
        return float(self.gaps @ self.chances)

    @property
    def right(self) -> float:
        """An unbiased estimate of the probability that the guess is the best action; it may be negative."""
        return 1.0 - float(self.chances.sum())


RIGHT = Guess(gaps=np.zeros(0), chances=np.zeros(0))
"""A guess that is certainly right."""


def best_guess(gaps: FloatArray, errors: FloatArray, draws: ErrorDraws) -> Guess:
    """Estimate the distribution of the gap of the action with the largest estimate.

    Args:
        gaps: The gap of each action; the best action has gap 0.
        errors: A matrix with one row y per action: the error of its estimate is ⟨y, z⟩ with a standard normal
            vector z. Or one such matrix per draw, if the distribution of the errors is a mixture.
        draws: The random numbers.

    Returns:
        The distribution.
    """
    errors = errors if errors.ndim == 3 else errors[None]  # the axes are draw, action, coordinate
    best = int(np.argmin(gaps))
    away = errors - errors[:, best : best + 1]
    sizes, chances = _chances(gaps, away)
    expected, total = chances @ gaps, chances.sum(axis=1)
    right = expected < _NEVER
    if right.any():
        if right.all():
            return RIGHT
        chances[right], expected[right], total[right] = 0.0, 1.0, 1.0
    weights = gaps / expected[:, None] + 1 / total[:, None]
    terms = weights * chances
    terms[terms <= _UNLIKELY * terms.max(axis=1, keepdims=True)] = 0.0
    kept = np.flatnonzero(terms.any(axis=0))
    away, sizes, chances, weights, terms = (part[:, kept] for part in (away, sizes, chances, weights, terms))
    gaps, sums = gaps[kept], np.cumsum(terms, axis=1)
    picked = np.argmax(sums > (draws.picks * _BELOW_ONE)[:, None] * sums[:, -1:], axis=1)
    each = np.arange(len(picked))
    own = each if len(terms) > 1 else 0
    # Replace the part of z along the difference to x* by a draw given that the picked action beats x*.
    unit = away[own, picked] / sizes[own, picked][:, None]
    normals = draws.normals[:, : away.shape[2]]
    beyond = -ndtri(draws.tails * np.maximum(chances[own, picked], _NEVER))
    along = beyond - np.einsum("ij,ij->i", normals, unit)
    lead = np.matmul(away, (normals + along[:, None] * unit)[:, :, None])[:, :, 0] - gaps
    if len(terms) > 1:
        lead[terms == 0] = -np.inf
    lead[each, picked] = np.maximum(lead[each, picked], _TIE)  # against rounding
    shares = sums[:, -1] / ((lead > 0) * weights).sum(axis=1) / len(each)
    return Guess(gaps=gaps[np.argmax(lead, axis=1)], chances=shares)


def _chances(gaps: FloatArray, away: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the deviation of each action's difference to the best one, and the chance that it beats it."""
    sizes = np.sqrt(np.einsum("nij,nij->ni", away, away))
    worse = (gaps > _TIE) & (sizes > 0)
    sizes[sizes == 0] = 1.0
    return sizes, ndtr(-gaps / sizes) * worse
