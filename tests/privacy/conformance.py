"""Conformance tests that every mechanism of every trust model must pass.

Statistical checks compare a mean or a variance with its exact value at a false-alarm rate of 10⁻⁶, and
each has a counterpart with a planted error that must be detected.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dpbandits.privacy import Mechanism, NoiseSource, SimulatedNoise

FloatArray = NDArray[np.float64]
FALSE_ALARM = 1e-6


def errors(
    mechanism: Mechanism, averages: FloatArray, draw: Callable[[FloatArray], FloatArray], repeats: int
) -> FloatArray:
    """`repeats` draws of the error that the mechanism adds to the mean of the clipped averages."""
    truth = mechanism.clip(averages).mean(axis=0)
    return np.array([draw(averages) - truth for _ in range(repeats)])


def exchange(mechanism: Mechanism, averages: FloatArray, noise: NoiseSource) -> FloatArray:
    """Run R at every client, then S, then A."""
    reports = mechanism.randomize(averages, noise)
    return mechanism.analyze(mechanism.shuffle(reports, noise), len(averages), noise)


def real_path(mechanism: Mechanism, rng: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    noise = SimulatedNoise(rng)
    return lambda averages: exchange(mechanism, averages, noise)


def simulated_path(mechanism: Mechanism, rng: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    noise = SimulatedNoise(rng)
    return lambda averages: mechanism.simulate(averages, noise)


def looks_like(errors: FloatArray, mean: float, variance: float, kurtosis: float = 3.0) -> bool:
    """Whether independent errors have this mean and variance, at the stated false-alarm rate.

    The sample variance of N errors is normal for large N, with variance (kurtosis − 1)/N times its
    square; rows of coordinates count as independent if `kurtosis` allows for their dependence.
    """
    count = errors.size
    if variance == 0:
        return bool(np.allclose(errors, mean, atol=1e-12))
    z_mean = abs(errors.mean() - mean) / np.sqrt(variance / count)
    spread = float(np.mean((errors - mean) ** 2)) / variance
    z_spread = abs(spread - 1) / np.sqrt((kurtosis - 1) / count)
    return bool(max(z_mean, z_spread) < norm.isf(FALSE_ALARM / 4))
