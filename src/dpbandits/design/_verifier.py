"""The leverages of all actions under a sequence of designs, in about one pass over the rows in total.

This is part of the certificate. The search submits supports and weights, and receives the actions whose
leverages are too high. The trusted code (this file, _leverage.py and _frame.py) uses only actions, support
and weights:

- The first design is measured on every row. If 32-bit numbers are safe, they are used, and every result is
  raised by a bound on all of their rounding errors.
- A later design is measured only on rows that the bounds of the previous design leave open (`_carry_over`).
- The rows that may be the worst are measured in 64-bit numbers, so g is never a 32-bit result.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._frame import Frame, exact_frame, support_frame
from dpbandits.design._leverage import ROUNDED_UP, Factor, NarrowScan, Sieve, WideScan, factorise, raised_32
from dpbandits.design._rows import as_rows, block_rows, blocks, check_finite, picked

_MANY_ROWS = 4096  # up to this number, everything is 64-bit and all rows are read
_PROBES = 1024  # rows measured in 64-bit numbers to find a lower bound on g
_FEW = 32  # if no more rows than this are too high, others may be hidden by stale bounds
_ROUGH = 1e7  # with a larger condition number, 64-bit rounding errors would affect the growth
_USELESS = 1e6  # a growth above which the bounds are useless
_MOST = 0.25  # if more than this share of rows is in doubt, reading all rows again is faster
_WORTH_KNOWING = 0.02  # the share of rows that may be read again to find g itself, not an upper bound


class Verifier:
    """Upper bounds of all leverages under the design that was measured last."""

    def __init__(self, actions: FloatArray) -> None:
        self.actions = as_rows(actions)
        self.passes = 0.0
        self.g = math.inf
        self.exact = True
        self._reads_all = len(self.actions) <= _MANY_ROWS  # scale and span are computed from all rows
        self._frame: Frame | None = None
        self._factor: Factor | None = None
        self._bounds: NDArray[np.float32] | None = None
        self._measured: list[IntArray] = []  # in 64-bit numbers, for the current design

    @property
    def rank(self) -> int:
        """The rank in the frame of the last measurement."""
        return 0 if self._frame is None else self._frame.rank

    @property
    def settled(self) -> bool:
        """Whether that rank is proved."""
        return self._frame is not None and self._frame.is_settled(self.g, len(self.actions))

    def measure(self, support: IntArray, weights: FloatArray, *, tolerance: float = 0.0) -> bool:
        """Find g; return False if the supported rows do not span all others (g is then infinite).

        With a `tolerance`, the work stops once it is known whether g exceeds tolerance · rank. If it does, g
        is the largest leverage found. If not, g may be an upper bound; `exact` tells which.
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
        """Return at most `count` rows known to exceed `above`, those with the largest leverages."""
        if self._bounds is None:
            return np.empty(0, dtype=np.int64)
        known = np.unique(np.concatenate(self._measured)) if self._measured else np.arange(self._bounds.size)
        return self._highest(known[self._bounds[known] > above], count)

    def read_all(self) -> None:
        """From now on, compute scale and span from all rows."""
        self._reads_all = True
        self._forget(None)

    def _forget(self, frame: Frame | None) -> None:
        """Discard the bounds of the previous design."""
        self._frame, self._factor, self._bounds = frame, None, None

    def _choose_frame(self, supported: FloatArray) -> Frame:
        """Return the frame for this support; read all rows if the supported ones do not suffice."""
        # The exact frame depends on the actions only, so it is computed once.
        if self._reads_all and self._frame is not None:
            return self._frame
        frame = None if self._reads_all else support_frame(supported)
        if frame is None:
            self.read_all()
            frame = exact_frame(self.actions)
            self.passes += frame.passes
            self._frame = frame
        return frame

    def _scan(self, frame: Frame, factor: Factor) -> None:
        """Measure every row: find upper bounds and, if they are 64-bit results, also g."""
        count, dimension = self.actions.shape
        bounds = np.empty(count, dtype=np.float32)
        raised = None if self._reads_all else raised_32(dimension, factor)
        scan = WideScan(frame, factor) if raised is None else Sieve(frame, factor)
        largest = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for here, block in blocks(self.actions):
                highest = scan(block, bounds[here])
                largest = max(largest, highest)
                if not math.isfinite(highest):  # an entry is not finite, or the result is too large
                    check_finite(block, range(here.start, here.stop))
                    bounds[here][np.isnan(bounds[here])] = np.inf
                    largest = math.inf
            bounds *= np.float32(ROUNDED_UP if raised is None else raised)
        self._bounds = bounds
        self.passes += 1
        if raised is None:
            self.g = largest

    def _carry_over(self, frame: Frame, factor: Factor) -> None:
        """Derive bounds on the new leverages from the old ones.

        Let y = (x / u) W, and y_before the same for the previous design. Then y = y_before G for G =
        W_before⁻¹ diag(u_before / u) W, so ‖y‖² ≤ ‖G‖² ‖y_before‖² for every row. (The exact frame is the
        same for both designs.)
        """
        assert self._bounds is not None
        assert self._frame is not None
        assert self._factor is not None
        units = 1.0 if frame is self._frame else (self._frame.units / frame.units)[:, np.newaxis]
        growth = float(np.linalg.norm(self._factor.inverse @ (units * factor.whitening), 2)) ** 2
        # Bounds that grew too much, or that are inexact by rounding, are replaced by a new scan.
        if growth > _USELESS or max(factor.condition, self._factor.condition) > _ROUGH:
            self._scan(frame, factor)
        else:
            self._bounds *= np.float32(growth * ROUNDED_UP)

    def _settle(self, limit: float, fresh: bool) -> None:
        """Find g from bounds: measure in 64-bit numbers the rows that could exceed a proved lower bound."""
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
        # `probes` are the rows with the largest bounds; their leverages give a lower bound on g. If it
        # exceeds the limit, the design has failed and nothing more is needed, unless the bounds are so stale
        # that they hide which rows are the worst.
        self.g = self._remeasure(probes)
        stale = not fresh and doubtful.size > _MOST * self._bounds.size
        if self.g > limit > 0 and not (stale and np.count_nonzero(self._bounds[probes] > limit) < _FEW):
            return
        if stale:
            self._rescan(limit)
            return
        # Now the bounds are not stale, and g does not exceed the limit, unless the limit is 0. Measure all
        # rows that could exceed both the limit and g. Then, if they are few, also measure those that could
        # exceed the new g, so that g becomes exact.
        self.g = max(self.g, self._remeasure(np.flatnonzero(self._bounds > max(limit, self.g))))
        doubtful = np.flatnonzero(self._bounds > self.g)
        self.exact = self.g > limit or doubtful.size <= worth_knowing
        self.g = max(self.g, self._remeasure(doubtful)) if self.exact else float(self._bounds.max())

    def _refine(self, indices: IntArray) -> None:
        """Replace the bounds of some rows by 32-bit results, if these are accurate enough."""
        assert self._bounds is not None
        assert self._frame is not None
        assert self._factor is not None
        raised = None if self._reads_all else raised_32(self.actions.shape[1], self._factor)
        if raised is None:
            return
        scan = NarrowScan(self._frame, self._factor)
        self.passes += indices.size / len(self.actions)
        size = block_rows(self.actions)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, indices.size, size):
                chosen = indices[first : first + size]
                found = np.empty(chosen.size, dtype=np.float32)
                scan(np.asarray(self.actions[chosen], dtype=np.float64), found)
                found[np.isnan(found)] = np.inf
                self._bounds[chosen] = found * np.float32(raised)

    def _rescan(self, limit: float) -> None:
        """Measure every row again, because too many bounds are stale."""
        assert self._frame is not None
        assert self._factor is not None
        self.g, self._measured = math.inf, []
        self._scan(self._frame, self._factor)
        if not math.isfinite(self.g):
            self._settle(limit, True)

    def _highest(self, indices: IntArray, count: int) -> IntArray:
        """Return at most `count` of the rows, those with the largest bounds."""
        assert self._bounds is not None
        if indices.size <= count:
            return indices
        return indices[np.argpartition(-self._bounds[indices], count)[:count]]

    def _remeasure(self, indices: IntArray) -> float:
        """Replace the bounds of some rows by 64-bit results; return the largest."""
        assert self._bounds is not None
        assert self._frame is not None
        assert self._factor is not None
        self.passes += indices.size / len(self.actions)
        self._measured.append(indices)
        largest = 0.0
        size = block_rows(self.actions)
        for first in range(0, indices.size, size):
            chosen = indices[first : first + size]
            whitened = self._frame.coordinates(picked(self.actions, chosen)) @ self._factor.whitening
            leverages = np.einsum("ij,ij->i", whitened, whitened)
            self._bounds[chosen] = leverages * ROUNDED_UP
            largest = max(largest, float(leverages.max()))
        return largest
