"""The leverages of all actions under one design after another, at the cost of about one pass in all.

This is the certificate's own arithmetic: the search hands over supports and weights, and is told which
actions are too high. What is trusted is in this file and in `frame`, and is all derived from actions,
support and weights:

- A first design is measured on every row. Where that is safe in 32-bit numbers, they are used, and
  every result is raised by a bound of all their rounding errors.
- A later design is measured only on rows that the bounds of the design before leave open (`_carry_over`).
- The rows that may be the worst are measured in 64-bit numbers, so g is never a 32-bit result.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._frame import Frame, exact_frame, support_frame
from dpbandits.design._leverage import ROUNDED_UP, Factor, NarrowScan, Sieve, WideScan, factorise, raised_32
from dpbandits.design._rows import BLOCK_BYTES, as_rows, blocks, check_finite, picked

_MANY_ROWS = 4096  # up to here everything is 64-bit and all rows are read
_PROBES = 1024  # rows measured in 64-bit numbers to learn what is surely reached
_FEW = 32  # rows found too high: if there are no more, more may be hidden
_ROUGH = 1e7  # a condition with which 64-bit rounding would show in the growth
_USELESS = 1e6  # a growth by which bounds say nothing any more
_MOST = 0.25  # of all rows in doubt: it is faster to read all again
_WORTH_KNOWING = 0.02  # of all rows may be read once more to know g itself and not a bound


class Verifier:
    """Bounds of all leverages under the design that was measured last."""

    def __init__(self, actions: FloatArray, *, exact: bool | None = None) -> None:
        self.actions = as_rows(actions)
        self.passes = 0.0
        self.g = math.inf
        self.exact = True
        self._exact = len(self.actions) <= _MANY_ROWS if exact is None else exact
        self._frame: Frame | None = None
        self._factor: Factor | None = None
        self._bounds: NDArray[np.float32] | None = None
        self._measured: list[IntArray] = []  # in 64-bit numbers, for the present design

    @property
    def rank(self) -> int:
        """The rank in the frame of the last measurement."""
        return 0 if self._frame is None else self._frame.rank

    @property
    def settled(self) -> bool:
        """Whether that rank is proved."""
        return self._frame is not None and self._frame.is_settled(self.g, len(self.actions))

    def measure(self, support: IntArray, weights: FloatArray, *, tolerance: float = 0.0) -> bool:
        """Find g; False if the supported rows do not span all others, in which case g is infinite.

        With a `tolerance`, no more work is done than to learn whether g exceeds tolerance · rank. If so, g
        is the largest leverage that was met; if not, it may be a bound from above, and `exact` says so.
        """
        self.g, self.exact, self._measured = math.inf, True, []
        supported = picked(self.actions, support)
        frame = self._choose_frame(supported)
        if frame.rank == 0:
            self.g = 0.0
            return True
        factor = factorise(frame.coordinates(supported), weights)
        if factor is None:
            self._forget(frame)
            return False
        fresh = self._bounds is None
        if fresh:
            self._scan(frame, factor)
        else:
            self._carry_over(frame, factor)
        self._frame, self._factor = frame, factor
        if not math.isfinite(self.g):
            self._settle(tolerance * frame.rank, fresh)
        return True

    def worst(self, above: float, count: int) -> IntArray:
        """Name at most `count` of the rows found to exceed `above`, those with the largest leverages."""
        if self._bounds is None:
            return np.empty(0, dtype=np.int64)
        known = np.unique(np.concatenate(self._measured)) if self._measured else np.arange(self._bounds.size)
        return self._highest(known[self._bounds[known] > above], count)

    def read_all(self) -> None:
        """From now on find scale and span from all rows."""
        self._exact = True
        self._forget(None)

    def _forget(self, frame: Frame | None) -> None:
        self._frame, self._factor, self._bounds = frame, None, None

    def _choose_frame(self, supported: FloatArray) -> Frame:
        if self._exact and self._frame is not None:
            return self._frame
        frame = None if self._exact else support_frame(supported)
        if frame is None:
            self.read_all()
            frame = exact_frame(self.actions)
            self.passes += frame.passes
            self._frame = frame
        return frame

    def _scan(self, frame: Frame, factor: Factor) -> None:
        """Measure every row: find bounds from above, and also g if these are 64-bit results."""
        count, dimension = self.actions.shape
        bounds = np.empty(count, dtype=np.float32)
        raised = None if self._exact else raised_32(dimension, factor)
        scan = WideScan(frame, factor) if raised is None else Sieve(frame, factor)
        largest = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for here, block in blocks(self.actions):
                highest = scan(block, bounds[here])
                largest = max(largest, highest)
                if not math.isfinite(highest):  # because an entry is not finite, or the result too large
                    check_finite(block, range(here.start, here.stop))
                    bounds[here][np.isnan(bounds[here])] = np.inf
                    largest = math.inf
            bounds *= np.float32(ROUNDED_UP if raised is None else raised)
        self._bounds = bounds
        self.passes += 1
        if raised is None:
            self.g = largest

    def _carry_over(self, frame: Frame, factor: Factor) -> None:
        """Bound the new leverages by the old.

        With y = (x / u) W and its like before, y = y_before G for G = W_before⁻¹ diag(u_before / u) W, so
        ‖y‖² ≤ ‖G‖² ‖y_before‖² for every row. (Where the frame is the exact one, it is the same for both.)
        """
        assert self._bounds is not None
        assert self._frame is not None
        assert self._factor is not None
        units = 1.0 if frame is self._frame else (self._frame.units / frame.units)[:, np.newaxis]
        growth = float(np.linalg.norm(self._factor.inverse @ (units * factor.whitening), 2)) ** 2
        if growth > _USELESS or max(factor.condition, self._factor.condition) > _ROUGH:
            self._scan(frame, factor)
        else:
            self._bounds *= np.float32(growth * ROUNDED_UP)

    def _settle(self, limit: float, fresh: bool) -> None:
        """Find g from bounds: measure in 64-bit numbers the rows that could exceed what is surely reached."""
        assert self._bounds is not None
        worth_knowing = max(_PROBES, int(_WORTH_KNOWING * self._bounds.size))
        doubtful = np.flatnonzero(self._bounds > limit)
        if not fresh and worth_knowing < doubtful.size <= _MOST * self._bounds.size:
            self._refine(doubtful)
            doubtful = doubtful[self._bounds[doubtful] > limit]
        probes = doubtful
        if not 0 < doubtful.size <= worth_knowing:
            highest = np.array([self._bounds.argmax()])
            probes = self._highest(doubtful if doubtful.size else highest, _PROBES)
        self.g = self._remeasure(probes)
        stale = not fresh and doubtful.size > _MOST * self._bounds.size
        if self.g > limit > 0 and not (stale and np.count_nonzero(self._bounds[probes] > limit) < _FEW):
            return
        if stale:
            self._rescan(limit)
            return
        self.g = max(self.g, self._remeasure(np.flatnonzero(self._bounds > max(limit, self.g))))
        doubtful = np.flatnonzero(self._bounds > self.g)
        self.exact = self.g > limit or doubtful.size <= worth_knowing
        self.g = max(self.g, self._remeasure(doubtful)) if self.exact else float(self._bounds.max())

    def _refine(self, indices: IntArray) -> None:
        """Replace the bounds of some rows by what 32-bit numbers give, if these will do."""
        assert self._bounds is not None
        assert self._frame is not None
        assert self._factor is not None
        raised = None if self._exact else raised_32(self.actions.shape[1], self._factor)
        if raised is None:
            return
        scan = NarrowScan(self._frame, self._factor)
        self.passes += indices.size / len(self.actions)
        size = max(1, BLOCK_BYTES // (8 * self.actions.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, indices.size, size):
                chosen = indices[first : first + size]
                found = np.empty(chosen.size, dtype=np.float32)
                scan(np.asarray(self.actions[chosen], dtype=np.float64), found)
                found[np.isnan(found)] = np.inf
                self._bounds[chosen] = found * np.float32(raised)

    def _rescan(self, limit: float) -> None:
        assert self._frame is not None
        assert self._factor is not None
        self.g, self._measured = math.inf, []
        self._scan(self._frame, self._factor)
        if not math.isfinite(self.g):
            self._settle(limit, True)

    def _highest(self, indices: IntArray, count: int) -> IntArray:
        assert self._bounds is not None
        if indices.size <= count:
            return indices
        return indices[np.argpartition(-self._bounds[indices], count)[:count]]

    def _remeasure(self, indices: IntArray) -> float:
        """Replace the bounds of some rows by what 64-bit numbers give; return the largest."""
        assert self._bounds is not None
        assert self._frame is not None
        assert self._factor is not None
        self.passes += indices.size / len(self.actions)
        self._measured.append(indices)
        largest = 0.0
        size = max(1, BLOCK_BYTES // (8 * self.actions.shape[1]))
        for first in range(0, indices.size, size):
            chosen = indices[first : first + size]
            whitened = self._frame.coordinates(picked(self.actions, chosen)) @ self._factor.whitening
            leverages = np.einsum("ij,ij->i", whitened, whitened)
            self._bounds[chosen] = leverages * ROUNDED_UP
            largest = max(largest, float(leverages.max()))
        return largest
