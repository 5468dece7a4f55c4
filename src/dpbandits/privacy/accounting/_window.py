"""Which stretch of the composed loss to compute, on which grid, under which tilt.

Nothing that is chosen here bears on whether a bound holds: it decides how tight the bound is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from dpbandits._arrays import FloatArray
from dpbandits.privacy.accounting._fourier import Window
from dpbandits.privacy.accounting._work_limit import MOST_POINTS
from dpbandits.privacy.accounting._worst_pair import Pair

# What may lie outside the window, relatively to the tilted sum: e^{−_OUTSIDE} on either side.
_OUTSIDE = 45.0
_DEVIATIONS = np.array([1.0, 2.0, 4.0, 6.0, 8.0, 9.5, 11.0, 13.0])
# A plan needs no more outcomes of a pair than this.
_SAMPLE = 4096

# The tilted masses of a part span at most e^{_STEEPEST}, its grid at most _FINEST points.
_STEEPEST = 5000.0
_FINEST = 1 << 21
# A window has at least 2 to this power points.
SHORTEST = 14

Split = tuple[int, ...]


class _Sketch:
    """Losses and log-masses of the outcomes possible under both laws, thinned out."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._parts: list[tuple[FloatArray, FloatArray]] = []
        for pair in pairs:
            losses, log_mass = pair.finite()
            if len(losses) > _SAMPLE:  # either end may have much of the mass, and is kept as it is
                step = len(losses) // _SAMPLE
                kept = np.r_[0, np.arange(1, len(losses) - 1, step), len(losses) - 1]
                losses, log_mass = losses[kept], log_mass[kept]
                log_mass[1:-1] += math.log(step)
            self._parts.append((losses, log_mass))

    def log_mgf(self, split: Split, exponent: float) -> float:
        parts = zip(self._parts, split, strict=True)
        return sum(n * float(logsumexp(exponent * x + m)) for (x, m), n in parts if n)

    def moments(self, split: Split, tilt: float) -> tuple[float, float]:
        mean, variance = 0.0, 0.0
        for (losses, log_mass), count in zip(self._parts, split, strict=True):
            tilted = tilt * losses + log_mass
            weights = np.exp(tilted - tilted.max())
            weights /= weights.sum()
            one = float((weights * losses).sum())
            mean += count * one
            variance += count * float((weights * (losses - one) ** 2).sum())
        return mean, variance

    def ends(self, split: Split) -> tuple[float, float]:
        parts = list(zip(self._parts, split, strict=True))
        lowest = sum(n * float(losses.min()) for (losses, _), n in parts)
        return lowest, sum(n * float(losses.max()) for (losses, _), n in parts)

    def widest(self) -> float:
        """The greatest difference between two losses of a part."""
        return max(1e-9, *(float(np.ptp(losses)) for losses, _ in self._parts))


def _saddle(sketch: _Sketch, split: Split, epsilon: float) -> tuple[float, float]:
    """The tilt ≥ 0 that moves the mean to ε (0 if it is above), and the deviation under it."""
    tilt, low, high = 0.0, 0.0, _STEEPEST / sketch.widest()
    mean, variance = sketch.moments(split, tilt)
    for _ in range(60):
        off = epsilon - mean
        if abs(off) <= 0.02 * math.sqrt(variance) or (off < 0 and tilt == 0.0) or high - low <= 1e-6 * high:
            break
        low, high = (tilt, high) if off > 0 else (low, tilt)
        newton = tilt + off / variance if variance > 0 else high
        tilt = newton if low < newton < high else (low + high) / 2
        mean, variance = sketch.moments(split, tilt)
    return tilt, math.sqrt(variance)


def _stretch(sketch: _Sketch, split: Split, tilt: float, reaches: Sequence[float]) -> tuple[float, ...]:
    """(top, exponent, bottom, exponent): Chernoff leaves e^{−_OUTSIDE} on either side."""
    origin = sketch.log_mgf(split, tilt)
    top, rise = min(((sketch.log_mgf(split, tilt + t) - origin + _OUTSIDE) / t, t) for t in reaches)
    bottom, fall = max(((origin - sketch.log_mgf(split, tilt - t) - _OUTSIDE) / t, t) for t in reaches)
    lowest, highest = sketch.ends(split)
    return min(top, highest), rise, max(bottom, lowest), fall


def plan_window(pairs: Sequence[Pair], splits: Sequence[Split], epsilon: float) -> Window | None:
    """A window for the sum of split[i] losses of each pair i; None if a pair has no finite loss.

    It is shorter where all splits together would need more points than `MOST_POINTS`.
    """
    if not all(len(pair.finite()[0]) for pair in pairs):
        return None
    sketch = _Sketch(pairs)
    tilt, deviation = _saddle(sketch, splits[len(splits) // 2], epsilon)
    reaches = [float(t) for t in _DEVIATIONS / max(deviation, 1e-9)]
    stretches = [_stretch(sketch, split, tilt, reaches) for split in {splits[0], splits[-1]}]
    top, rise = max(stretch[:2] for stretch in stretches)
    bottom, fall = min(stretch[2:] for stretch in stretches)
    # About 20 deviations wide: the number of grid points in a coordinate's deviation falls with
    # √coordinates.
    doublings = max(0, math.ceil(math.log2(max(sum(splits[0]), 1) / 128) / 2))
    affordable = MOST_POINTS // (len(splits) + 4 * len(pairs))
    length = min(1 << (16 + min(doublings, 5)), 1 << max(SHORTEST, affordable.bit_length() - 1))
    width = max(top - bottom, 1e-6 * (abs(top) + abs(bottom)), 1e-12)
    spacing = max(width / (0.97 * length), sketch.widest() / _FINEST)
    first = math.floor((bottom + top) / 2 / spacing) - length // 2
    return Window(spacing=spacing, tilt=tilt, first=first, length=length, rise=rise, fall=fall)
