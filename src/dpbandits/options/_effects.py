"""Effects: an estimate of θ in the user's units, as one number per term of the encoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix
from dpbandits.errors import InvalidValue
from dpbandits.options._encoding import Encoding


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The effect of one term on the mean reward, in the user's units.

    Attributes:
        term: The term, for example `price`, `colour=red`, or `price × colour=red`.
        estimate: How much the mean reward changes if the term grows by 1 and all other terms stay.
        deviation: The standard deviation of the estimate; None if it is not known.
        low: The lower end of the confidence interval; None if there is none.
        high: The upper end.

    Example:
        >>> import dpbandits as dp
        >>> options = dp.Options.from_table({"name": ["a", "b"], "price": [1, 3]})
        >>> effect = options.effects([0.5, 0.2])[1]
        >>> effect.term, round(effect.estimate, 3)
        ('price', 0.141)
    """

    term: str
    estimate: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


def effects_of(encoding: Encoding, theta: ArrayLike, covariance: ArrayLike | None) -> tuple[Effect, ...]:
    """Return the effects for an estimate of θ; `Options.effects` describes the arguments."""
    size, translation = len(encoding.columns), encoding.translation()
    vector = finite_matrix(theta=np.atleast_2d(np.asarray(theta)))
    if vector.shape != (1, size):
        raise InvalidValue("theta", f"shape {np.shape(theta)}", f"{size} numbers, one per column")
    deviations: list[float | None] = [None] * len(translation)
    if covariance is not None:
        deviations = list(_deviations(translation, np.asarray(covariance)))
    estimates = (translation @ vector[0]).tolist()
    return tuple(
        Effect(term=term, estimate=estimate, deviation=deviation)
        for term, estimate, deviation in zip(encoding.terms, estimates, deviations, strict=True)
    )


def _deviations(translation: FloatArray, covariance: FloatArray) -> list[float]:
    matrix, size = finite_matrix(covariance=covariance), translation.shape[1]
    if matrix.shape != (size, size):
        raise InvalidValue("covariance", f"shape {matrix.shape}", f"({size}, {size})")
    variances = np.einsum("ij,jk,ik->i", translation, matrix, translation)
    return [float(root) for root in np.sqrt(np.maximum(variances, 0.0))]
