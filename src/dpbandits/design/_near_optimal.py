"""The search for near-G-optimal designs: the public function, and the search over few actions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix, positive, whole
from dpbandits.design._bounds import allowed_support
from dpbandits.design._certificate import certify
from dpbandits.design._exchange import Exchange
from dpbandits.design._large import ATTEMPTS, MARGIN, Request, search_large
from dpbandits.design._pruning import within, without_tiny_weights
from dpbandits.design._result import Design
from dpbandits.design._rows import Selection, as_rows
from dpbandits.design._span import Span, find_span
from dpbandits.design._start import WeightedSupport, checked_start, warm_weights
from dpbandits.errors import DesignError, InvalidValue

_MANY_ROWS = 4096  # above this, most rows are read only once
_SEED = 0  # of the samples, if no generator is given


def near_g_optimal(
    actions: FloatArray | Selection,
    *,
    tolerance: float = 2.0,
    max_support: int | None = None,
    warm_start: WeightedSupport | None = None,
    rng: np.random.Generator | None = None,
) -> Design:
    """Weight a few rows so that every row x has leverage x' V⁺ x ≤ tolerance · rank.

    V = Σ πᵢ xᵢ xᵢ' is the weighted sum over the supported rows. The first design that meets both bounds is
    returned; a smaller tolerance gives smaller leverages with more supported rows. Many rows are read about
    once, in blocks, and never copied as a whole.

    Args:
        actions: One action per row. It may be a memory-mapped array that does not fit into memory, or a
            `Selection` of rows of one.
        tolerance: The largest leverage, as a multiple of the rank; above 1.
        max_support: The largest number of supported rows. If None, it is `support_bound(rank)`. For a
            tolerance below 2 it is then at least rank · (rank + 1) / 2.
        warm_start: An earlier design whose `support` indexes these rows.
        rng: Draws the samples of rows with which a search over many rows starts. If None, the samples are the
            same in every call.

    Returns:
        The design, with its certificate.

    Raises:
        DesignError: If no design within the bounds was found.
        InvalidValue: If an argument is out of range or an action is not finite.

    Example:
        >>> import dpbandits as dp
        >>> actions = dp.Actions.generate("sphere", count=100, dimension=3, rng=1)
        >>> design = dp.near_g_optimal(actions.matrix, tolerance=1.5)
        >>> design.certificate.g <= 1.5 * design.rank
        True
    """
    rows = as_rows(actions)
    _check_options(tolerance, max_support, rng)
    # A sample of rows is useful only if it is much smaller than all rows and larger than the dimension.
    if len(rows) > max(_MANY_ROWS, 8 * rows.shape[1]):
        start = None if warm_start is None else checked_start(warm_start, len(rows))
        request = Request(actions=rows, tolerance=tolerance, max_support=max_support, start=start)
        design = search_large(request, np.random.default_rng(_SEED) if rng is None else rng)
    else:
        design = _search_small(finite_matrix(actions=np.asarray(rows)), tolerance, max_support, warm_start)
    if not design.certificate.holds:
        raise DesignError(
            f"no design within the bounds was found for {len(rows):,} actions of rank {design.rank}: "
            + "; ".join(design.certificate.problems)
        )
    return design


def _search_small(
    actions: FloatArray, tolerance: float, max_support: int | None, warm_start: WeightedSupport | None
) -> Design:
    """Search over rows that fit into memory."""
    span = find_span(actions, untied=True)
    design = _search(actions, span, tolerance, max_support, warm_start)
    if design.certificate.rank != span.rank:  # a singular value is at the threshold, so rounding decides
        span = find_span(actions, rank=design.certificate.rank, untied=True)
        design = _search(actions, span, tolerance, max_support, warm_start)
    return design


def _check_options(tolerance: float, max_support: int | None, rng: np.random.Generator | None) -> None:
    """Raise an error for the first option that is not accepted."""
    if positive(tolerance=tolerance) <= 1:
        raise InvalidValue("tolerance", tolerance, "a number > 1 (no design is below the rank)")
    if max_support is not None:
        whole(1, max_support=max_support)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InvalidValue("rng", type(rng).__name__, "a numpy.random.Generator or None")


def _search(
    actions: FloatArray,
    span: Span,
    tolerance: float,
    max_support: int | None,
    warm_start: WeightedSupport | None,
) -> Design:
    """Return the first design that the certificate accepts, otherwise the one with the smallest g."""
    limit = allowed_support(span.rank, tolerance, max_support)
    tried: list[Design] = []
    for weights in _attempts(span, tolerance, limit, warm_start):
        support = np.flatnonzero(weights).astype(np.int64)
        shares = weights[support] / weights[support].sum()
        certificate = certify(actions, support, shares, tolerance=tolerance, max_support=max_support)
        tried.append(
            Design(support=support, weights=shares, rank=span.rank, basis=span.basis, certificate=certificate)
        )
        if certificate.holds:
            return tried[-1]
    return min(tried, key=lambda design: design.certificate.g)


def _attempts(
    span: Span, tolerance: float, limit: int, warm_start: WeightedSupport | None
) -> Iterator[FloatArray]:
    """Yield weights that should meet the bounds, each attempt with a lower aim."""
    if span.rank == 0:  # all actions are zero, so any one of them suffices
        yield np.eye(1, len(span.coordinates))[0]
        return
    # The pivots are a good start: few rows that span, chosen greedily for large volume.
    starts = [Exchange.on_pivots(span.coordinates, span.pivots)]
    if warm_start is not None:
        starts.insert(0, Exchange(span.coordinates, warm_weights(span, warm_start, limit)))
    for start in starts:
        exchange = start
        for attempt in range(ATTEMPTS):
            # Pruning to the support limit may raise leverages above the aim. So each attempt halves the
            # excess over the rank that it aims at.
            excess = (tolerance - 1) / 2**attempt
            aim = span.rank * (1 + excess * (1 - MARGIN))
            exchange.run(aim, max_steps=1000 + int(40 * span.rank / excess))
            exchange = without_tiny_weights(exchange, aim)
            yield within(exchange, limit)
