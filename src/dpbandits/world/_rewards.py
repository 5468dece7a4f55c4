"""The distributions of single rewards around a client's mean, and of their averages over T plays.

Every distribution is 1-sub-Gaussian. An average over T plays is drawn directly, at a cost that does not grow
with T.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpbandits._arrays import FloatArray

RewardLaw = Callable[[FloatArray, FloatArray, np.random.Generator], FloatArray]

# Up to this number of plays, uniform noise is summed one by one.
_FEW_PLAYS = 12
# Above it, this number of leading binary digits of the uniform variables is summed exactly.
_DIGITS = 10


def gaussian(means: FloatArray, plays: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw averages of reward = mean + N(0, 1). Rewards are unbounded, so clipping has an effect."""
    averages = rng.standard_normal(means.shape)
    averages /= np.sqrt(plays)
    averages += means
    return averages


def uniform(means: FloatArray, plays: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw averages of reward = mean + U[−1, 1]."""
    noise = np.empty_like(means)
    for column, count in enumerate(plays.astype(np.int64)):
        noise[:, column] = _uniform_sum(int(count), len(means), rng) / count
    return means + noise


def _uniform_sum(count: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw `size` sums of `count` independent U[−1, 1] variables.

    A U[−1, 1] variable is Σ_j 2^(−j)·(±1) with fair independent signs. So digit j of the sum is
    2^(−j)·(2·Bin(count, ½) − count). The digits after the first `_DIGITS` add 2^(−_DIGITS) times such a
    sum, which is drawn as a normal variable of the same variance.
    """
    if count <= _FEW_PLAYS:
        few: FloatArray = rng.uniform(-1, 1, size=(size, count)).sum(axis=1)
        return few
    total: FloatArray = 2.0**-_DIGITS * rng.normal(scale=np.sqrt(count / 3), size=size)
    for digit in range(1, _DIGITS + 1):
        total += 2.0**-digit * (2 * rng.binomial(count, 0.5, size=size) - count)
    return total


def bernoulli(means: FloatArray, plays: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw averages of reward = +1 with probability (1 + mean)/2, otherwise −1.

    A client's mean is clipped to [−1, 1].
    """
    chances = np.clip((1 + means) / 2, 0, 1)
    counts = np.broadcast_to(plays.astype(np.int64), means.shape)
    averages: FloatArray = 2 * rng.binomial(counts, chances) / plays - 1
    return averages


REWARD_LAWS: dict[str, RewardLaw] = {"gaussian": gaussian, "uniform": uniform, "bernoulli": bernoulli}
