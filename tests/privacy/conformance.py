"""What every mechanism must do, whatever its trust model; each one is run through all of it.

Statistical checks compare a mean or a variance with its exact value at a false-alarm rate of 10⁻⁶, and
each has a twin with a planted error that must be caught.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2, norm

from dpbandits.privacy import Mechanism, SimulatedNoise
from dpbandits.privacy.noise import FloatArray

FALSE_ALARM = 1e-6


def errors(
    mechanism: Mechanism, averages: FloatArray, draw: Callable[[FloatArray], FloatArray], repeats: int
) -> FloatArray:
    """`repeats` draws of what the mechanism adds to the mean of the clipped averages."""
    truth = mechanism.clip(averages).mean(axis=0)
    return np.array([draw(averages) - truth for _ in range(repeats)])


def real_path(mechanism: Mechanism, rng: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    """R at every client one by one, then S, then A."""
    noise = SimulatedNoise(rng)

    def draw(averages: FloatArray) -> FloatArray:
        reports = np.stack([mechanism.randomize(row[None], noise)[0] for row in averages])
        return mechanism.analyze(mechanism.shuffle(reports, noise), noise)

    return draw


def simulated_path(mechanism: Mechanism, rng: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    noise = SimulatedNoise(rng)
    return lambda averages: mechanism.simulate(averages, noise)


def looks_like(errors: FloatArray, mean: float, variance: float) -> bool:
    """Whether near-normal errors have this mean and variance, at the stated false-alarm rate."""
    count = errors.size
    if variance == 0:
        return bool(np.allclose(errors, mean, atol=1e-12))
    z = abs(errors.mean() - mean) / np.sqrt(variance / count)
    spread = np.sum((errors - errors.mean()) ** 2) / variance
    tail = FALSE_ALARM / 4
    return bool(z < norm.isf(tail) and chi2.ppf(tail, count - 1) < spread < chi2.isf(tail, count - 1))
