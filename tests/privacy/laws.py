"""The exact distributions of the noise, computed independently, and tests of samples against them.

Every test has a false-alarm rate of 10⁻⁶, and the samples are so large that a scale with a 5 % error is
missed with a smaller probability than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.noise._keyed import KeyedNoise
from dpbandits.privacy.noise._secure import SecureNoise
from dpbandits.privacy.noise._sources import SimulatedNoise

FALSE_ALARM = 1e-6
FEWEST = 100  # the least expected count of a cell: with fewer, the tail of chi-square at 10⁻⁶ is too thin
SURELY_SEEN = 30  # a value with this expected count is missed with probability e^−30

SOURCES = ["secure", "simulated", "keyed"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def noise_source(name: str, seed: int = 0) -> NoiseSource:
    if name == "keyed":
        return KeyedNoise(bytes(24) + seed.to_bytes(8), [b"tests"])
    return SecureNoise() if name == "secure" else SimulatedNoise(np.random.default_rng(seed))


@dataclass(frozen=True)
class Law:
    """A distribution on the integers with nearly all of its mass between two ends."""

    cumulative: Callable[[Integers], Floats]
    low: int
    high: int

    def edges(self) -> Integers:
        """The atoms at which the cumulative probability passes certain levels, and their predecessors."""
        levels = np.array([*np.arange(1, 12) / 12, 0.95, 0.98, 0.99, 0.997])
        low, high = np.full(levels.size, self.low - 1), np.full(levels.size, self.high)
        while (high - low > 1).any():
            middle = (low + high) // 2
            reached = self.cumulative(middle) >= levels
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.unique([high - 1, high])

    def mass(self, points: Integers) -> Floats:
        return self.cumulative(points) - self.cumulative(points - 1)


def summed(weight: Callable[[Any], Any], low: int, high: int) -> Law:
    """Normalise by the sum of all weights between the ends."""
    weights = np.array([float(weight(k)) for k in range(low, high + 1)])
    total = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    return Law(lambda k: total[np.clip(k - low + 1, 0, weights.size)], low, high)


def known(frozen: Any, low: int, high: int) -> Law:
    """Use a SciPy distribution."""
    return Law(frozen.cdf, low, high)


def gaussian(scale: float) -> Law:
    if scale < 100:
        reach = int(12 * scale) + 12
        return summed(lambda k: np.exp(-(k**2) / (2 * scale**2)), -reach, reach)
    # Here the sum equals an integral to 1 part in 24·scale², which our samples cannot detect.
    return Law(lambda k: stats.norm.cdf((k + 0.5) / scale), int(-12 * scale), int(12 * scale))


def laplace(scale: float) -> Law:
    reach = int(40 * scale) + 40
    return known(stats.dlaplace(1 / scale), -reach, reach)


def polya(parts: int, scale: float) -> Law:
    return known(stats.nbinom(1 / parts, -np.expm1(-1 / scale)), 0, int(60 * scale) + 60)


def polya_sum(count: int, parts: int, scale: float) -> Law:
    """Convolve them one after another."""
    masses = polya(parts, scale).mass(np.arange(int(60 * scale) + 60))
    return Law(_added([masses] * count), 0, count * masses.size)


def polya_difference(count: int, parts: int, scale: float) -> Law:
    """The difference of two such sums."""
    masses = polya(parts, scale).mass(np.arange(int(60 * scale) + 60))
    cumulative, reach = _added([masses] * count + [masses[::-1]] * count), count * (masses.size - 1)
    return Law(lambda k: cumulative(k + reach), -reach, reach)


def _added(masses: list[Floats]) -> Callable[[Integers], Floats]:
    total = np.cumsum(reduce(np.convolve, masses))
    return lambda k: np.where(k < 0, 0.0, total[np.clip(k, 0, total.size - 1)])


def poisson(mean: float) -> Law:
    return known(stats.poisson(mean), 0, int(2 * mean + 60))


def binomial(trials: int, probability: float) -> Law:
    return known(stats.binom(trials, probability), 0, trials)


def box_norm(scale: float, coordinates: int) -> Law:
    """The distribution of max|z|: there are (2k+1)^s − (2k−1)^s points at distance k, and one at 0."""
    if scale > 1e4:  # the sum equals an integral
        return Law(
            lambda k: stats.gamma.cdf((k + 0.5) / scale, coordinates), 0, int(10 * coordinates * scale)
        )

    def weight(k: int) -> float:
        points = (2 * k + 1) ** coordinates - (2 * k - 1) ** coordinates if k else 1
        return float(np.exp(np.log(float(points)) - k / scale - shift))

    shift = coordinates * np.log(2 * coordinates * scale + 1) - coordinates
    return summed(weight, 0, int((3 * coordinates + 40) * scale) + 40)


def box_coordinate(scale: float, coordinates: int) -> Law:
    """The distribution of one coordinate k: sum over the maximum t ≥ |k| and count the other coordinates."""
    reach, others = int((3 * coordinates + 40) * scale) + 40, coordinates - 1
    shift = coordinates * np.log(2 * coordinates * scale + 1) - coordinates

    def decayed(points: int, t: int) -> float:
        return float(np.exp(np.log(float(points)) - t / scale - shift)) if points else 0.0

    at = [decayed((2 * t + 1) ** others, t) for t in range(reach + 1)]
    shells = [decayed((2 * t + 1) ** others - (2 * t - 1) ** others, t) if t else 0 for t in range(reach + 1)]
    beyond = np.concatenate([np.cumsum(shells[::-1])[::-1][1:], [0.0]])
    return summed(lambda k: at[abs(k)] + beyond[abs(k)], -reach, reach)


def _merged(expected: Floats) -> Integers:
    """The first cell of each group of neighbours whose expected counts add up to FEWEST."""
    starts, sum_so_far = [0], 0.0
    for cell, count in enumerate(expected):
        if sum_so_far >= FEWEST and expected[cell:].sum() >= FEWEST:
            starts.append(cell)
            sum_so_far = 0.0
        sum_so_far += count
    return np.array(starts)


def matches(counts: Any, expected: Any) -> bool:
    """The chi-square test, after merging neighbouring cells."""
    starts = _merged(np.asarray(expected, dtype=float))
    seen, due = np.add.reduceat(counts, starts), np.add.reduceat(expected, starts)
    assert starts.size > 1, "one cell tests nothing"
    return bool(stats.chi2.sf(np.sum((seen - due) ** 2 / due), starts.size - 1) > FALSE_ALARM)


def _expected(edges: Integers, law: Law, count: int) -> Floats:
    return count * np.diff(np.concatenate([[0.0], law.cumulative(edges), [1.0]]))


def miss_rate(count: int, law: Law, wrong: Law) -> float:
    """The probability that `fits` accepts a sample of the law as one of the wrong law."""
    edges = wrong.edges()
    due = _expected(edges, wrong, count)
    starts = _merged(due)
    seen, due = (np.add.reduceat(cells, starts) for cells in (_expected(edges, law, count), due))
    distance, freedom = np.sum((seen - due) ** 2 / due), starts.size - 1
    return float(stats.ncx2.cdf(stats.chi2.isf(FALSE_ALARM, freedom), freedom, distance))


def fits(sample: Integers, law: Law) -> bool:
    """Whether the sample may come from the law."""
    edges = law.edges()
    counts = np.bincount(np.searchsorted(edges, sample), minlength=edges.size + 1)
    return matches(counts, _expected(edges, law, sample.size))


def agree(first: Integers, second: Integers, law: Law) -> bool:
    """Whether two samples may come from one distribution; the law only defines the cells."""
    edges = law.edges()
    tables = [np.bincount(np.searchsorted(edges, s), minlength=edges.size + 1) for s in (first, second)]
    together = tables[0] + tables[1]
    starts = _merged(together * min(first.size, second.size) / together.sum())
    merged = np.array([np.add.reduceat(table, starts) for table in tables])
    return bool(stats.chi2_contingency(merged, correction=False).pvalue > FALSE_ALARM)


def has_no_holes(sample: Integers, law: Law) -> bool:
    """Whether every integer with an expected count of SURELY_SEEN occurs."""
    if law.high - law.low > 10**6:
        return True
    points = np.arange(law.low, law.high + 1)
    return bool(np.isin(points[law.mass(points) * sample.size >= SURELY_SEEN], sample).all())
