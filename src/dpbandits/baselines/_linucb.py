"""LinUCB, adapted as in the paper: each round asks one new client, and rewards are not protected.

The client of round t has θ_u = θ* + ξ_u, ξ_u ~ N(0, σ²I), so its reward of x is ⟨θ*, x⟩ plus noise with the
distribution N(0, 1 + σ²‖x‖²). The played action has the largest

    ⟨θ̂, x⟩ + radius(t)·√(x'V⁻¹x),   V = λI + Σ x x',   θ̂ = V⁻¹ Σ reward·x.

After a play of x, with c = 1 + x'V⁻¹x and u = V⁻¹x/√c (Sherman and Morrison),

    V⁻¹ ← V⁻¹ − uu',   ⟨θ̂, b⟩ ← ⟨θ̂, b⟩ + ⟨b, u⟩·(reward − ⟨θ̂, x⟩)/√c,   b'V⁻¹b ← b'V⁻¹b − ⟨b, u⟩²,

so a round costs one matrix-vector product with the actions, and nothing is inverted or solved. Results are
written into preallocated arrays: with a thousand actions, allocation would cost as much as the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import daxpy, dger
from threadpoolctl import threadpool_limits

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import non_negative, whole
from dpbandits.world import Instance

RIDGE = 1.0  # λ
_RECORDED_TIMES = 200
_BLOCK = 4096
# b'V⁻¹b ≥ ‖b‖²/(λ + t), and t rounds accumulate rounding errors of about t·2⁻⁵²·‖b‖²/λ. So all values stay
# positive until t² is near 2⁵².
_EXACT_ROUNDS = 10**6


@dataclass(frozen=True, kw_only=True)
class LinUCBTrace:
    """One run of LinUCB.

    Attributes:
        seed: The seed of the run.
        horizon: The number of rounds T.
        times: The rounds at which the regret was recorded.
        cumulative_regret: The regret of the first `times[i]` rounds.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.baselines import linucb
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.3, 0.8])
        >>> trace = linucb(instance, horizon=500, heterogeneity=0.1, seed=1)
        >>> trace.times[-1]
        500
    """

    seed: int
    horizon: int
    times: tuple[int, ...]
    cumulative_regret: tuple[float, ...]

    @property
    def participants(self) -> int:
        """The number of clients: one per round."""
        return self.horizon

    @property
    def communication(self) -> int:
        """The number of reported numbers: one per round."""
        return self.horizon

    @property
    def regret(self) -> float:
        """The regret R(T) after the last round."""
        return self.cumulative_regret[-1]

    def regret_at(self, times: FloatArray) -> FloatArray:
        """Return the regret R(t) at the given rounds, interpolated linearly between recorded ones.

        Args:
            times: The rounds.
        """
        recorded = np.array([0, *self.times]), np.array([0.0, *self.cumulative_regret])
        return np.asarray(np.interp(times, *recorded), dtype=np.float64)


def linucb(instance: Instance, *, horizon: int, heterogeneity: float, seed: int) -> LinUCBTrace:
    """Run LinUCB for the whole horizon.

    Args:
        instance: The problem instance.
        horizon: The number of rounds.
        heterogeneity: The standard deviation σ between clients.
        seed: The source of all randomness.

    Returns:
        The trace of the run.

    Raises:
        InvalidValue: If an argument is out of range.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.baselines import linucb
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.3, 0.8])
        >>> trace = linucb(instance, horizon=500, heterogeneity=0.1, seed=1)
        >>> trace.participants, trace.regret > 0
        (500, True)
    """
    # With several BLAS threads, rounding, and so the results, would depend on the machine.
    with threadpool_limits(limits=1):
        played = choices(instance, horizon=horizon, heterogeneity=heterogeneity, seed=seed)
    times, regret = recorded(instance, played)
    return LinUCBTrace(seed=seed, horizon=horizon, times=times, cumulative_regret=regret)


def recorded(instance: Instance, played: IntArray) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return geometrically spaced rounds, and the regret up to each."""
    regret = np.cumsum(instance.gaps[played])
    times = np.unique(np.geomspace(1, len(played), _RECORDED_TIMES).round().astype(np.int64))
    return tuple(times.tolist()), tuple(regret[times - 1].tolist())


def choices(instance: Instance, *, horizon: int, heterogeneity: float, seed: int) -> IntArray:
    """Return the action of each round."""
    radius = radii(instance.actions.dimension, horizon, heterogeneity)
    seen = rewards(instance, heterogeneity, np.random.default_rng(whole(0, seed=seed)))
    rows = np.ascontiguousarray(instance.actions.matrix)
    columns = np.asfortranarray(rows)  # the product of this with a vector is several times faster
    inverse = np.asfortranarray(np.eye(rows.shape[1]) / RIDGE)
    scores, squares = np.zeros(len(rows)), np.einsum("ij,ij->i", rows, rows) / RIDGE
    played, work, products = np.empty(horizon, dtype=np.int64), np.empty(len(rows)), np.empty(len(rows))
    for time, width in enumerate(radius.tolist()):
        np.sqrt(squares, out=work)
        np.multiply(work, width, out=work)
        np.add(work, scores, out=work)
        chosen = int(work.argmax())
        # The update of the module docstring: `direction` is u, `shrunk` is 1/√c, and `squares` are the
        # b'V⁻¹b.
        row, surprise = rows[chosen], seen.draw(chosen) - float(scores[chosen])
        direction = inverse.dot(row)
        shrunk = 1 / math.sqrt(1 + float(row.dot(direction)))
        direction *= shrunk
        np.dot(columns, direction, out=products)
        daxpy(products, scores, a=surprise * shrunk)
        np.multiply(products, products, out=products)
        np.subtract(squares, products, out=squares)
        if time >= _EXACT_ROUNDS:
            np.maximum(squares, 0, out=squares)
        dger(-1.0, direction, direction, a=inverse, overwrite_a=True)
        played[time] = chosen
    return played


def radii(dimension: int, horizon: int, heterogeneity: float) -> FloatArray:
    """Return √λ + √((1 + σ²)·(2·log(1/δ) + d·log(1 + t/(λd)))) for t = 0, 1, …, with δ = 1/T."""
    variance = 1 + non_negative(heterogeneity=heterogeneity) ** 2
    rounds = np.arange(whole(1, horizon=horizon))
    growth = dimension * np.log1p(rounds / (RIDGE * dimension))
    return np.asarray(math.sqrt(RIDGE) + np.sqrt(variance * (2 * math.log(horizon) + growth)))


@dataclass(frozen=True, kw_only=True)
class Rewards:
    """The rewards of new clients, one client per round."""

    means: Sequence[float]
    deviations: Sequence[float]
    noise: Iterator[float]

    def draw(self, action: int) -> float:
        """Return the reward of one play."""
        return self.means[action] + self.deviations[action] * next(self.noise)


def rewards(instance: Instance, heterogeneity: float, rng: np.random.Generator) -> Rewards:
    """Return Gaussian rewards, which include the differences between clients."""
    rows = instance.actions.matrix
    return Rewards(
        means=(rows @ instance.theta).tolist(),
        deviations=np.sqrt(1 + heterogeneity**2 * np.einsum("ij,ij->i", rows, rows)).tolist(),
        noise=_standard_normal(rng),
    )


def _standard_normal(rng: np.random.Generator) -> Iterator[float]:
    """Yield standard normal numbers, drawn in blocks."""
    while True:
        yield from rng.standard_normal(_BLOCK).tolist()
