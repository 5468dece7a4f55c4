"""The adversary's scores: log-likelihood ratios of the two worlds under the claimed mechanism.

In one world a client is at the low corner of the box, −bound in every coordinate; in the other world it is at
the high corner. The adversary knows everything else. So it knows the client's contribution up to the noise,
and by Neyman and Pearson no score separates the worlds better than their likelihood ratio.

Scores affect the power of an audit only. A wrong score makes an audit weaker, never invalid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.privacy.accounting import Approximated, IntegerSum, mixture
from dpbandits.privacy.noise import BallNormLaw, BoxNormLaw
from dpbandits.privacy.trust import (
    CentralGaussian,
    CentralLattice,
    LocalBand,
    LocalGaussian,
    LocalList,
    ServerNoise,
    ShuffledBits,
    SummedShares,
)

Views = NDArray[Any]  # one view per play along the first axis
Ratio = Callable[[FloatArray], FloatArray]

# Noise farther out than a distance that is exceeded with probability 2·e^(−_LOG_TAIL) counts as impossible.
_LOG_TAIL = 200.0


def others_value(mechanism: Mechanism) -> float:
    """Return the value of all other clients, which is encoded without random rounding.

    It is near −bound in a box, and the centre of a ball.
    """
    if not isinstance(mechanism, ShuffledBits | NoisyLattice):
        return -mechanism.bound
    if mechanism.shape == "ball":
        return 0.0
    value = _others_level(mechanism) * mechanism.lattice.step - mechanism.lattice.reach
    return max(value, -mechanism.bound) if value <= mechanism.bound else -mechanism.bound


def _others_level(mechanism: ShuffledBits | NoisyLattice) -> int:
    """Return the level to which the other clients' value is encoded."""
    if mechanism.shape == "ball":
        return mechanism.levels // 2
    return math.ceil(float(mechanism.lattice.position(np.array(-mechanism.bound))) - 1e-9)


class Scorer:
    """Scores of many views at once; a larger score is evidence for the high corner."""

    def __init__(self, mechanism: Mechanism, reports: int) -> None:
        self._mechanism = mechanism
        self._reports = reports
        self._ratio = _ratio(mechanism)

    def __call__(self, views: Views) -> list[FloatArray]:
        """Return several scores per play.

        They are the likelihood ratio, if it is known for this mechanism, and simple scores for faults that
        the ratio does not detect.
        """
        mechanism = self._mechanism
        scores = [_total(views)]
        if self._ratio is not None:
            scores.append(self._ratio(_moved(mechanism, views, self._reports)))
        if isinstance(mechanism, ShuffledBits) and views.ndim == 3:
            # The places of the client's bits if nobody shuffled them.
            scores.append(_total(views[:, :, : mechanism.width]))
        return [np.where(np.isnan(score), -np.inf, score) for score in scores]


def _total(views: Views) -> FloatArray:
    """Return the sum of each view."""
    return np.asarray(views.reshape(len(views), -1).sum(axis=1, dtype=np.float64))


def _moved(mechanism: Mechanism, views: Views, reports: int) -> FloatArray:
    """Return, per play and coordinate, the client's own value plus the noise.

    The unit is levels, or rewards for floating-point noise.
    """
    if isinstance(mechanism, ShuffledBits):
        ones = views.sum(axis=2, dtype=np.float64) if views.ndim == 3 else views  # bits, or their sums
        return np.asarray(ones - (reports - 1) * _others_level(mechanism), dtype=np.float64)
    if isinstance(mechanism, CentralLattice):
        total = np.rint((views + mechanism.lattice.reach) * (reports / mechanism.lattice.step))
        return np.asarray(total - (reports - 1) * _others_level(mechanism), dtype=np.float64)
    if isinstance(mechanism, CentralGaussian):
        return np.asarray(views * reports + (reports - 1) * mechanism.bound, dtype=np.float64)
    if isinstance(mechanism, SummedShares | ServerNoise):
        total = mechanism.unwrapped(views if views.ndim == 2 else views[:, 0])
        return np.asarray(total - (reports - 1) * _others_level(mechanism), dtype=np.float64)
    return views.astype(np.float64)


def _list_ratio(mechanism: LocalList, reports: FloatArray) -> FloatArray:
    """Return 1 if the direction is near the high corner only, −1 if it is near the low one only, else 0."""
    corner = np.full(mechanism.coordinates, mechanism.coordinates**-0.5)
    places = mechanism.places(np.rint(reports).astype(np.int64), corner)
    high, low = places < mechanism.near, places >= mechanism.size - mechanism.near
    return high.astype(np.float64) - low


def _band_ratio(mechanism: LocalBand, reports: FloatArray) -> FloatArray:
    """Return 1 in the band of the highest level only, −1 in that of the lowest one only, else 0."""
    high = reports[:, 0] >= mechanism.levels
    low = reports[:, 0] < mechanism.width
    return high.astype(np.float64) - low


def _ratio(mechanism: Mechanism) -> Ratio | None:
    """Return the function log P(moved | high) − log P(moved | low), or None for an unknown mechanism.

    The function sums over coordinates.
    """
    if isinstance(mechanism, CentralGaussian | LocalGaussian):
        variance = (mechanism.noise_ratio * 2 * mechanism.bound) ** 2 * mechanism.coordinates
        return lambda moved: 2 * mechanism.bound / variance * moved.sum(axis=1)
    if isinstance(mechanism, LocalList):
        return lambda moved: _list_ratio(mechanism, moved)
    if isinstance(mechanism, LocalBand):
        return lambda moved: _band_ratio(mechanism, moved)
    if isinstance(mechanism, NoisyLattice) and isinstance(mechanism.law, BallNormLaw):
        return lambda moved: _ball_norm_ratio(mechanism, moved)
    if mechanism.shape == "ball":  # discrete Gaussian: the ratio increases with the diagonal part
        return lambda moved: moved.sum(axis=1)
    if isinstance(mechanism, NoisyLattice) and isinstance(mechanism.law, BoxNormLaw):
        return lambda moved: _box_norm_ratio(moved, mechanism.levels, mechanism.scale)
    event = mechanism.event
    # The exact event differs in the far tail only, which does not matter for a score.
    event = event.event if isinstance(event, Approximated) else event
    if isinstance(mechanism, ShuffledBits | NoisyLattice) and isinstance(event, IntegerSum):
        return IntegerRatio(event)
    return None


def _box_norm_ratio(moved: FloatArray, levels: int, scale: float) -> FloatArray:
    """Return the ratio for P(z) ∝ exp(−‖z‖∞/scale), jointly over the coordinates."""
    return np.asarray((np.abs(moved).max(axis=1) - np.abs(moved - levels).max(axis=1)) / scale)


def _ball_norm_ratio(mechanism: NoisyLattice, moved: FloatArray) -> FloatArray:
    """Return the ratio for a density ∝ exp(−‖y‖₂/scale), nearly that of the rounded noise."""
    half, s = mechanism.levels / 2, mechanism.coordinates
    corner = half / math.sqrt(s) if mechanism.shape == "ball" else half
    low, high = (np.linalg.norm(moved - half - side, axis=1) for side in (-corner, corner))
    return np.asarray((low - high) / mechanism.scale, dtype=np.float64)


class IntegerRatio:
    """The ratio for independent coordinates, from a table of the accountant's log-weights.

    Outcomes that are impossible in both worlds score +∞ above the middle and −∞ below it.
    """

    def __init__(self, event: IntegerSum) -> None:
        noise, ends = event.noise, event.encoded_ends
        lowest, highest = ends.low[0][0], ends.high[-1][0]
        reach = noise.reach(_LOG_TAIL)
        first = math.floor(noise.centre - reach) + lowest
        places = math.ceil(noise.centre + reach) + highest - first + 1
        weights = noise.log_weights(first - highest, first + places - 1 - lowest).values
        high, low = (mixture(weights, law, highest, highest + places) for law in (ends.high, ends.low))
        self._middle = noise.centre + lowest + (highest - lowest) / 2
        self._before = first - 1
        with np.errstate(invalid="ignore"):  # −∞ − (−∞): impossible in both worlds
            inside = _decided(high - low, np.arange(first, first + places, dtype=np.float64) - self._middle)
        self._table = np.concatenate(([-np.inf], inside, [np.inf]))

    def __call__(self, moved: FloatArray) -> FloatArray:
        """Return the ratio, summed over coordinates."""
        places = np.clip(np.rint(moved) - self._before, 0, len(self._table) - 1).astype(np.int64)
        with np.errstate(invalid="ignore"):  # one coordinate impossible in one world, another in the other
            total = self._table[places].sum(axis=1)
        return _decided(total, (moved - self._middle).sum(axis=1))


def _decided(ratio: FloatArray, side: FloatArray) -> FloatArray:
    """Replace undefined ratios by ±∞ according to the side of the middle."""
    return np.where(np.isnan(ratio), np.copysign(np.inf, side), ratio)
