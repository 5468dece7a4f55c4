"""How an adversary ranks what it sees: the log-likelihood ratio of two worlds under the claimed mechanism.

In one world a client is at the low corner of the box, −bound in every coordinate, in the other at the high
one. All else is known to the adversary. What the client moved is therefore known up to the noise, and by
Neyman and Pearson no score tells the worlds apart better than the ratio of their likelihoods.

A score is a matter of power only: a wrong one makes an audit weaker, never dishonest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpbandits._arrays import FloatArray
from dpbandits.privacy._mechanism import Mechanism, Payload
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.privacy.accounting import Approximated, IntegerSum
from dpbandits.privacy.noise import BoxNormLaw
from dpbandits.privacy.trust import CentralGaussian, CentralLattice, LocalGaussian, ShuffledBits, SummedShares

Views = NDArray[Any]  # one view per play along the first axis
Ratio = Callable[[FloatArray], FloatArray]

# Noise beyond the distance that is exceeded with probability 2·e^(−this) counts as impossible.
_LOG_TAIL = 200.0


def others_value(mechanism: Mechanism) -> float:
    """Where all other clients are: at a point near −bound that the encoding need not round with a coin."""
    if not isinstance(mechanism, ShuffledBits | NoisyLattice):
        return -mechanism.bound
    if mechanism.shape == "ball":
        return 0.0
    value = _others_level(mechanism) * mechanism.lattice.step - mechanism.lattice.reach
    return max(value, -mechanism.bound) if value <= mechanism.bound else -mechanism.bound


def _others_level(mechanism: ShuffledBits | NoisyLattice) -> int:
    if mechanism.shape == "ball":
        return mechanism.levels // 2
    return math.ceil(float(mechanism.lattice.position(np.array(-mechanism.bound))) - 1e-9)


class Scorer:
    """Scores of many views at once; a larger one speaks for the client being at the high corner."""

    def __init__(self, mechanism: Mechanism, reports: int) -> None:
        self._mechanism = mechanism
        self._reports = reports
        self._ratio = _ratio(mechanism)

    def __call__(self, views: Views) -> list[FloatArray]:
        """For each play: the ratio if the mechanism is known, and what shows faults that it is blind to."""
        mechanism = self._mechanism
        scores = [_total(views)]
        if self._ratio is not None:
            scores.append(self._ratio(_moved(mechanism, views, self._reports)))
        if isinstance(mechanism, ShuffledBits) and views.ndim == 3:
            # Where the client's bits are if nobody has shuffled them.
            scores.append(_total(views[:, :, : mechanism.width]))
        return [np.where(np.isnan(score), -np.inf, score) for score in scores]


def _total(views: Views) -> FloatArray:
    total: FloatArray = views.reshape(len(views), -1).sum(axis=1, dtype=np.float64)
    return total


def _moved(mechanism: Mechanism, views: Views, reports: int) -> FloatArray:
    """Per play and coordinate, the client's own value plus the noise: in levels, or in rewards for floats."""
    if isinstance(mechanism, ShuffledBits):
        ones = views.sum(axis=2, dtype=np.float64) if views.ndim == 3 else views  # bits, or their sums
        return np.asarray(ones - (reports - 1) * _others_level(mechanism), dtype=np.float64)
    if isinstance(mechanism, CentralLattice):
        total = np.rint((views + mechanism.lattice.reach) * (reports / mechanism.lattice.step))
        return np.asarray(total - (reports - 1) * _others_level(mechanism), dtype=np.float64)
    if isinstance(mechanism, CentralGaussian):
        return np.asarray(views * reports + (reports - 1) * mechanism.bound, dtype=np.float64)
    if isinstance(mechanism, SummedShares):
        total = _unwrapped(mechanism, views if views.ndim == 2 else views[:, 0])
        return total - (reports - 1) * _others_level(mechanism)
    return views.astype(np.float64)


def _unwrapped(mechanism: SummedShares, sums: Payload) -> FloatArray:
    low = -mechanism.largest_noise
    return ((sums - low) % (1 << mechanism.modulus_bits) + low).astype(np.float64)


def _ratio(mechanism: Mechanism) -> Ratio | None:
    """log P(moved | high) − log P(moved | low), summed over coordinates; None for an unknown mechanism."""
    if isinstance(mechanism, CentralGaussian | LocalGaussian):
        variance = (mechanism.noise_ratio * 2 * mechanism.bound) ** 2 * mechanism.coordinates
        return lambda moved: 2 * mechanism.bound / variance * moved.sum(axis=1)
    if mechanism.shape == "ball":  # discrete Gaussian: the ratio grows with the part along the diagonal
        return lambda moved: moved.sum(axis=1)
    if isinstance(mechanism, NoisyLattice) and isinstance(mechanism.law, BoxNormLaw):
        return lambda moved: _box_norm_ratio(moved, mechanism.levels, mechanism.scale)
    event = mechanism.event
    event = event.event if isinstance(event, Approximated) else event  # a far tail tells nothing
    if isinstance(mechanism, ShuffledBits | NoisyLattice) and isinstance(event, IntegerSum):
        return IntegerRatio(event)
    return None


def _box_norm_ratio(moved: FloatArray, levels: int, scale: float) -> FloatArray:
    """P(z) ∝ exp(−‖z‖∞/scale), jointly over the coordinates."""
    ratio: FloatArray = (np.abs(moved).max(axis=1) - np.abs(moved - levels).max(axis=1)) / scale
    return ratio


class IntegerRatio:
    """The ratio for independent coordinates, read from a table of the accountant's own weights.

    What neither world can bring about scores +∞ above the middle and −∞ below it.
    """

    def __init__(self, event: IntegerSum) -> None:
        noise, ends = event.noise, event.encoded_ends
        lowest, highest = ends.low[0][0], ends.high[-1][0]
        reach = noise.reach(_LOG_TAIL)
        first = math.floor(noise.centre - reach) + lowest
        places = math.ceil(noise.centre + reach) + highest - first + 1
        weights = noise.log_weights(first - highest, first + places - 1 - lowest).values
        high = _law(weights, [(highest - value, p) for value, p in ends.high], places)
        low = _law(weights, [(highest - value, p) for value, p in ends.low], places)
        self._middle = noise.centre + lowest + (highest - lowest) / 2
        self._before = first - 1
        with np.errstate(invalid="ignore"):  # −∞ less −∞: neither world
            inside = _decided(
                high - low, np.asarray(np.arange(first, first + places) - self._middle, np.float64)
            )
        self._table = np.concatenate(([-np.inf], inside, [np.inf]))

    def __call__(self, moved: FloatArray) -> FloatArray:
        """Summed over coordinates."""
        places = np.clip(np.rint(moved) - self._before, 0, len(self._table) - 1).astype(np.int64)
        with np.errstate(invalid="ignore"):  # one coordinate impossible in one world, one in the other
            total = self._table[places].sum(axis=1)
        return _decided(total, (moved - self._middle).sum(axis=1))


def _law(weights: FloatArray, starts: Sequence[tuple[int, float]], places: int) -> FloatArray:
    """Noise plus an encoded end: a mixture of the noise's weights, each from its own start."""
    rows = np.array([weights[start : start + places] for start, _ in starts])
    chances = np.array([[chance] for _, chance in starts])
    return np.asarray(logsumexp(rows, axis=0, b=chances), dtype=np.float64)


def _decided(ratio: FloatArray, side: FloatArray) -> FloatArray:
    """Where the ratio says nothing, the side of the middle does."""
    return np.where(np.isnan(ratio), np.copysign(np.inf, side), ratio)
