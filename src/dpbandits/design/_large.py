"""The search over many actions: solve on a subset, find rows that violate the bound, add them, repeat.

A design has few supported rows, so it is solved on an active set. The active set starts as a random sample.
The worst rows of increasingly large samples are added, and finally the worst of all rows. The certificate
does the last scan itself: its verifier measures each design and returns the rows whose leverages are too
high. So a design that it accepts is already certified, and all rows are read about once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._active import ActiveSet, Doubtful
from dpbandits.design._bounds import allowed_support
from dpbandits.design._certificate import examine
from dpbandits.design._pruning import within, without_light_weights, without_tiny_weights
from dpbandits.design._result import Design
from dpbandits.design._rows import picked
from dpbandits.design._span import find_span, heights
from dpbandits.design._streaming import Chart, find_chart, spanning_rows
from dpbandits.design._verifier import Verifier

MARGIN = 1e-7  # the search stops this much below the tolerance, so that rounding cannot lift g above it
ATTEMPTS = 5  # each attempt aims at half the excess over the rank of the one before

# Shares of the allowed excess over the rank:
_AIM = 0.8  # for active rows, because rows outside the active set will be higher
_LOW_AIM = 0.5  # the same if leverages differ so much that a design needs few rows anyway
_HIGH_AIM = 0.9  # the same if no row is far above the limit
_CEILING = 0.9  # for pruning
_LAG = 0.25  # of the excess still seen elsewhere: a lower aim would be wasted
_COARSE = 0.5  # samples say nothing about all rows below this excess

_THICK = 1e-4  # relative to the largest entry: a sample this thick in every direction needs no further rows
_FIRST = 6  # rows of the first sample per dimension
_GROWTH = 8  # factor between the sizes of successive samples
_LAST = 1 / 14  # the largest sample, as a share of all rows
_ADDED = 4  # rows per dimension that are added at a time
_ROUNDS = 60  # iterations per attempt
_NEAR = 0.75  # of the limit: lower rows of a sample are not looked at again
_NEARLY = 1.1  # times the limit: no row is far above it
_HUGE = 4.0  # times the limit: restarting is then faster than moving the weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """The arguments of a search."""

    actions: FloatArray
    tolerance: float
    max_support: int | None
    start: tuple[IntArray, FloatArray] | None
    """Rows and weights of an earlier design, or None."""


def search_large(request: Request, rng: np.random.Generator) -> Design:
    """Return the first design that the certificate accepts, otherwise the one with the smallest g."""
    verifier = Verifier(request.actions)
    try:
        return _LargeSearch(request, verifier, rng, None).run()
    except Doubtful:
        chart = find_chart(request.actions)
    verifier.passes += 2
    found = _LargeSearch(request, verifier, rng, chart).run()
    if found.certificate.rank != found.rank:  # a singular value is at the threshold, so rounding decides
        chart = find_chart(request.actions, rank=found.certificate.rank)
        verifier.passes += 2
        found = _LargeSearch(request, verifier, rng, chart).run()
    return found


class _LargeSearch:
    """One search; the span is known from `chart`, or is expected to be all columns."""

    def __init__(
        self, request: Request, verifier: Verifier, rng: np.random.Generator, chart: Chart | None
    ) -> None:
        self.request, self.verifier, self.chart = request, verifier, chart
        count, dimension = request.actions.shape
        self.samples = _nested_samples(rng, count, dimension)
        self.rank = dimension if chart is None else chart.rank
        self.excess = request.tolerance - 1
        self.share = _AIM
        self.seen = np.inf

    def run(self) -> Design:
        """Lower the aim until a design within all bounds is found."""
        if self.rank == 0:  # all actions are zero, so any one of them suffices
            return self._examined(np.zeros(1, dtype=np.int64), np.ones(1))
        self.active = self._begin()
        if self.chart is None:
            self._learn_from_samples()
        tried = []
        for attempt in range(ATTEMPTS):
            self.excess = (self.request.tolerance - 1) / 2**attempt
            for found in self._learn_from_all():
                # The certificate finds the rank independently; if it disagrees, the sample did not show all
                # dimensions.
                agreed = found.certificate.rank == self.rank and found.certificate.spans
                if self.chart is None and not agreed:  # for example, if the sample has only tiny rows
                    raise Doubtful
                if found.certificate.rank != self.rank or found.certificate.holds:
                    return found
                tried.append(found)
            self.seen = float(self.rank)  # no rows are left to add; only the support limit is exceeded
        return min(tried, key=lambda design: design.certificate.g)

    def _begin(self) -> ActiveSet:
        """Return the first sample, with rows that span and those of an earlier design."""
        parts = [self.samples[0]]
        if self.chart is not None and not self._is_spanned(self.chart, parts[0]):
            parts.append(spanning_rows(self.request.actions, self.chart))
            self.verifier.passes += 1
        if self.request.start is not None:
            parts.append(self.request.start[0])
        active = ActiveSet(self.request.actions, np.concatenate(parts), self.chart)
        if self.request.start is not None:
            active.take_over(*self.request.start)
        return active

    def _is_spanned(self, chart: Chart, sample: IntArray) -> bool:
        """Return whether a sample clearly spans every dimension."""
        rows = chart.coordinates(picked(self.request.actions, sample))
        return bool(heights(rows).min(initial=1.0) > _THICK) and find_span(rows).clear

    def _solve(self) -> None:
        """Reduce the active leverages, but not further than is useful while other rows are higher."""
        # Precision beyond a quarter of the excess that other rows still have would be lost when they are
        # added.
        seen = min(_LAG * (self.seen / self.rank - 1), self.share)
        excess = max(self.share * self.excess, seen)
        self.active.exchange.run(self.rank * (1 + excess), max_steps=1000 + int(40 * self.rank / excess))

    def _learn_from_samples(self) -> None:
        """Solve for increasingly large samples."""
        self.excess = max(self.excess, _COARSE)
        self._solve()
        limit = self.rank * (1 + self.excess)
        for sample in self.samples[1:]:
            rows = picked(self.request.actions, sample, self.active.scan_type)
            while sample.size:
                self.verifier.passes += sample.size / len(self.request.actions)
                leverages = self.active.leverages(rows)
                self.seen = float(leverages.max())
                high = _largest(leverages, limit, _ADDED * self.rank)
                if not self.active.add(sample[high], seen=self.seen, anew=self._is_huge(limit)):
                    break
                self._solve()
                near = leverages > _NEAR * limit  # lower rows are unlikely to be too high after the next step
                near[high] = False
                sample, rows = sample[near], rows[near]
        ceiling = self.rank * (1 + _CEILING * self.excess)
        self.active.exchange = without_light_weights(self.active.exchange, ceiling)

    def _learn_from_all(self) -> Iterator[Design]:
        """Yield designs with certificates until there is no row left to add."""
        limit = self.rank * (1 + self.excess * (1 - MARGIN))
        for _ in range(_ROUNDS):
            self._solve()
            yield self._examined(*self._pruned())
            self.seen = self.verifier.g
            self.share = _LOW_AIM if self._is_huge(limit) else _AIM
            if self.seen < _NEARLY * limit:
                self.share = _HIGH_AIM  # the less weight moves now, the fewer rows are in doubt again
            high = self.verifier.worst(limit, _ADDED * self.rank)
            if not self.active.add(high, seen=self.seen, anew=self._is_huge(limit)):
                return

    def _is_huge(self, limit: float) -> bool:
        """Return whether the active set should restart; in one dimension, only one row has to be found."""
        return self.rank == 1 or self.seen > _HUGE * limit

    def _pruned(self) -> tuple[IntArray, FloatArray]:
        """Return rows and weights of the design, within the support limit."""
        exchange = self.active.exchange
        ceiling = self.rank * (1 + _CEILING * self.excess)
        exchange = without_tiny_weights(exchange, ceiling)
        limit = allowed_support(self.rank, self.request.tolerance, self.request.max_support)
        return self.active.supported(within(exchange, limit))

    def _examined(self, support: IntArray, weights: FloatArray) -> Design:
        """Return the design with its certificate."""
        certificate = examine(
            self.verifier,
            support,
            weights,
            tolerance=self.request.tolerance,
            max_support=self.request.max_support,
            thorough=False,
        )
        basis = np.eye(self.rank) if self.chart is None else self.chart.basis
        return Design(support=support, weights=weights, rank=self.rank, basis=basis, certificate=certificate)


def _nested_samples(rng: np.random.Generator, count: int, dimension: int) -> list[IntArray]:
    """Draw samples with repetition; each contains the one before and is up to eight times as large."""
    sizes, last = [_FIRST * dimension], int(_LAST * count)
    while 2 * sizes[-1] <= last:
        sizes.append(min(_GROWTH * sizes[-1], last))
    # Prefixes of one draw, so that rows of a smaller sample are also in each larger one.
    drawn = rng.integers(count, size=sizes[-1])
    return [np.sort(drawn[:size]) for size in sizes]  # reading in order is faster


def _largest(values: FloatArray, above: float, count: int) -> IntArray:
    """Return the positions of the largest values above `above`, at most `count` of them."""
    high = np.flatnonzero(values > above)
    return high if high.size <= count else high[np.argpartition(-values[high], count)[:count]]
