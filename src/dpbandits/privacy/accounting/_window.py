"""The choice of the window, the grid and the tilt with which the composed loss is computed.

These choices affect how tight a bound is. They do not affect whether the bound holds.
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

# The share of the tilted sum that may lie outside the window on either side is e^{−_OUTSIDE}.
_OUTSIDE = 45.0
# The Chernoff exponents that are tried, in units of 1/(standard deviation).
_DEVIATIONS = np.array([1.0, 2.0, 4.0, 6.0, 8.0, 9.5, 11.0, 13.0])
# The window is chosen from a sample of at most about this many outcomes per pair.
_SAMPLE = 4096

# The tilted masses of a part differ by a factor of at most e^{_STEEPEST}; its grid has at most _FINEST
# points.
_STEEPEST = 5000.0
_FINEST = 1 << 21
# A window has at least 2^SHORTEST points.
SHORTEST = 14

Split = tuple[int, ...]


class _Sketch:
    """A sample of the losses and log-masses of the outcomes that are possible under both distributions."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._parts: list[tuple[FloatArray, FloatArray]] = []
        for pair in pairs:
            losses, log_mass = pair.finite
            if len(losses) > _SAMPLE:  # either end may hold much of the mass, so both are kept
                step = len(losses) // _SAMPLE
                kept = np.r_[0, np.arange(1, len(losses) - 1, step), len(losses) - 1]
                losses, log_mass = losses[kept], log_mass[kept]
                log_mass[1:-1] += math.log(step)
            self._parts.append((losses, log_mass))

    def log_mgf(self, split: Split, exponent: float) -> float:
        """Return log E e^{exponent·loss} of the composed loss."""
        parts = zip(self._parts, split, strict=True)
        return sum(n * float(logsumexp(exponent * x + m)) for (x, m), n in parts if n)

    def moments(self, split: Split, tilt: float) -> tuple[float, float]:
        """Return the mean and the variance of the composed loss under the tilt."""
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
        """Return the least and the greatest composed loss."""
        parts = list(zip(self._parts, split, strict=True))
        lowest = sum(n * float(losses.min()) for (losses, _), n in parts)
        return lowest, sum(n * float(losses.max()) for (losses, _), n in parts)

    def widest(self) -> float:
        """Return the greatest difference between two losses of a part."""
        return max(1e-9, *(float(np.ptp(losses)) for losses, _ in self._parts))


def _saddle(sketch: _Sketch, split: Split, epsilon: float) -> tuple[float, float]:
    """Return the tilt that moves the mean to ε, and the standard deviation under it.

    The tilt is at least 0, and 0 if the mean is above ε. Newton's method on the increasing function tilt ↦
    mean, whose derivative is the variance, with bisection as the fallback.
    """
    tilt, low, high = 0.0, 0.0, _STEEPEST / sketch.widest()
    mean, variance = sketch.moments(split, tilt)
    for _ in range(60):
        off = epsilon - mean
        if abs(off) <= 0.02 * math.sqrt(variance) or (off < 0 and tilt == 0.0) or high - low <= 1e-6 * high:
            break
        low, high = (tilt, high) if off > 0 else (low, tilt)
        # The derivative of the mean with respect to the tilt is the variance.
        newton = tilt + off / variance if variance > 0 else high
        tilt = newton if low < newton < high else (low + high) / 2
        mean, variance = sketch.moments(split, tilt)
    return tilt, math.sqrt(variance)


def _stretch(sketch: _Sketch, split: Split, tilt: float, reaches: Sequence[float]) -> tuple[float, ...]:
    """Return (top, exponent, bottom, exponent) such that Chernoff leaves e^{−_OUTSIDE} on either side."""
    origin = sketch.log_mgf(split, tilt)
    top, rise = min(((sketch.log_mgf(split, tilt + t) - origin + _OUTSIDE) / t, t) for t in reaches)
    bottom, fall = max(((origin - sketch.log_mgf(split, tilt - t) - _OUTSIDE) / t, t) for t in reaches)
    lowest, highest = sketch.ends(split)
    return min(top, highest), rise, max(bottom, lowest), fall


def plan_window(pairs: Sequence[Pair], splits: Sequence[Split], epsilon: float) -> Window | None:
    """Return a window for the sum of split[i] losses of each pair i, or None if a pair has no finite loss.

    The window is shorter if all splits together would need more points than `MOST_POINTS`.
    """
    if not all(len(pair.finite[0]) for pair in pairs):
        return None
    sketch = _Sketch(pairs)
    # One window serves all splits: the tilt suits the middle one, and the first and the last one, which
    # differ most, decide how far it reaches.
    tilt, deviation = _saddle(sketch, splits[len(splits) // 2], epsilon)
    reaches = [float(t) for t in _DEVIATIONS / max(deviation, 1e-9)]
    stretches = [_stretch(sketch, split, tilt, reaches) for split in {splits[0], splits[-1]}]
    top, rise = max(stretch[:2] for stretch in stretches)
    bottom, fall = min(stretch[2:] for stretch in stretches)
    # The window is about 20 standard deviations wide. The number of grid points per standard deviation of one
    # coordinate falls with √coordinates, so the length grows with it.
    doublings = max(0, math.ceil(math.log2(max(sum(splits[0]), 1) / 128) / 2))
    affordable = MOST_POINTS // (len(splits) + 4 * len(pairs))
    length = min(1 << (16 + min(doublings, 5)), 1 << max(SHORTEST, affordable.bit_length() - 1))
    width = max(top - bottom, 1e-6 * (abs(top) + abs(bottom)), 1e-12)
    # The window is 3 % longer than this stretch, as a margin at both ends.
    spacing = max(width / (0.97 * length), sketch.widest() / _FINEST)
    first = math.floor((bottom + top) / 2 / spacing) - length // 2
    return Window(spacing=spacing, tilt=tilt, first=first, length=length, rise=rise, fall=fall)
