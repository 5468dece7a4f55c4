"""Means over runs, fitted powers, and tests whether a difference may be due to chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray

# A difference from zero within this many standard errors may be due to chance.
RESOLUTION = 2.0


def regrets(runs: Sequence[Any]) -> FloatArray:
    """Return R(T) of each run."""
    return np.array([run.regret for run in runs])


def mean_and_deviation(values: FloatArray) -> tuple[float, float]:
    """Return the mean and the standard deviation over the runs."""
    return float(values.mean()), float(values.std(ddof=1))


def paired_difference(smaller: FloatArray, larger: FloatArray) -> tuple[float, float]:
    """Return the mean of larger − smaller over the same instances, and its standard error."""
    differences = larger - smaller
    return float(differences.mean()), float(differences.std(ddof=1) / math.sqrt(len(differences)))


def below(smaller: FloatArray, larger: FloatArray) -> bool | None:
    """Return whether `smaller` is below `larger` on average, or None if that may be due to chance."""
    mean, error = paired_difference(smaller, larger)
    by_chance = error > 0 and abs(mean) <= RESOLUTION * error
    return None if by_chance else mean > 0


def all_hold(answers: Sequence[bool | None]) -> bool | None:
    """Return False if any answer is False, True if all are True, otherwise None."""
    if False in answers:
        return False
    return None if None in answers else True


def power_of(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent e for which y ∝ x^e fits best (least squares of logarithms)."""
    slope, _ = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope)


def fitted_power(x: Sequence[float], runs: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the exponent of the means over runs, and its standard error (delta method)."""
    means = [values.mean() for values in runs]
    errors = np.array([values.std(ddof=1) / math.sqrt(len(values)) / values.mean() for values in runs])
    # The slope is a weighted sum of the logarithms, and the relative error of a mean is the error of its
    # logarithm.
    centred = np.log(x) - np.log(x).mean()
    weights = centred / (centred @ centred)
    return power_of(x, means), float(np.sqrt(((weights * errors) ** 2).sum()))


def resolved_above(value: float, limit: float, error: float) -> bool:
    """Return whether a value exceeds a limit by more than chance explains."""
    return value - limit > RESOLUTION * error
