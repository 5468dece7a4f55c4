"""The certificate of a design: what it achieves, recomputed from the actions alone.

The certificate (this file, _verifier.py, _leverage.py and _frame.py) shares only the reading of rows
(_rows.py) and the limit of the support (_bounds.py) with the search. It computes scale, span and all
leverages again. It finds the span by singular values, while the search chooses pivots. The rank is the number
of singular values above 1e-10 of the largest, after each column is divided by its largest entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._bounds import allowed_support
from dpbandits.design._verifier import Verifier

_SUM_SLACK = 1e-9  # by which the sum of the weights may differ from one


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a design achieves.

    Attributes:
        g: The largest leverage x' V⁺ x over all actions x, or an upper bound (see `g_is_exact`). It is
            infinite if the supported actions do not span, or if the design is malformed.
        rank: The dimension of the span of all actions.
        support_size: The number of supported actions.
        support_limit: The largest allowed number of supported actions.
        tolerance: The largest allowed g, as a multiple of the rank.
        spans: Whether the supported actions span all others.
        problems: One sentence per violation; empty if there is none.
        g_is_exact: Whether g is the largest leverage itself, up to 64-bit rounding, and not an upper bound.
        passes: How often each row was read, on average.

    Example:
        >>> import numpy as np
        >>> from dpbandits.design import certify
        >>> certificate = certify(np.eye(3), [0, 1, 2], [1 / 3, 1 / 3, 1 / 3])
        >>> certificate.rank, certificate.problems
        (3, ())
    """

    g: float
    rank: int
    support_size: int
    support_limit: int
    tolerance: float
    spans: bool
    problems: tuple[str, ...]
    g_is_exact: bool = field(default=True, compare=False)
    passes: float = field(default=1.0, compare=False)

    @property
    def holds(self) -> bool:
        """Whether the design meets every bound."""
        return not self.problems

    @property
    def g_limit(self) -> float:
        """The largest allowed g."""
        return self.tolerance * self.rank

    @property
    def slack(self) -> float:
        """The difference between the limit and g."""
        return self.g_limit - self.g


def certify(
    actions: FloatArray,
    support: ArrayLike,
    weights: ArrayLike,
    *,
    tolerance: float = 2.0,
    max_support: int | None = None,
) -> Certificate:
    """Examine a design. Problems are reported in the result, not raised.

    The rows are read in blocks and never copied as a whole. Every entry is checked to be finite, unless the
    support or the weights are malformed: then the rows are not read.

    Args:
        actions: One action per row.
        support: The indices of the supported rows.
        weights: Their weights, which must be positive and sum to one.
        tolerance: The largest allowed leverage, as a multiple of the rank.
        max_support: The largest allowed number of supported rows. If None, it is `support_bound(rank)`. For a
            tolerance below 2 it is then at least rank · (rank + 1) / 2.

    Returns:
        The certificate. Its `problems` are empty if the design meets every bound.

    Raises:
        InvalidValue: If the actions are not a matrix of finite numbers.

    Example:
        >>> import numpy as np
        >>> from dpbandits.design import certify
        >>> certificate = certify(np.eye(3), [0, 1, 2], [1 / 3, 1 / 3, 1 / 3])
        >>> certificate.holds, round(certificate.g, 6)
        (True, 3.0)
    """
    return examine(Verifier(actions), support, weights, tolerance=tolerance, max_support=max_support)


def examine(
    verifier: Verifier,
    support: ArrayLike,
    weights: ArrayLike,
    *,
    tolerance: float,
    max_support: int | None,
    thorough: bool = True,
) -> Certificate:
    """Examine a design with a verifier that may have measured other designs of the same actions.

    Unless `thorough`, g is computed only as precisely as needed to compare it with the limit.
    """
    indices, shares = np.asarray(support), np.asarray(weights, dtype=np.float64)
    problems = _flaws_of_form(indices, shares, len(verifier.actions))
    rank, g, spans = 0, math.inf, False
    if not problems:
        rank, g, spans = _measured(verifier, indices, shares, 0.0 if thorough else tolerance)
    allowed = allowed_support(rank, tolerance, max_support)
    if not problems:
        problems = _broken_promises(rank, g, spans, indices.size, tolerance, allowed)
    return Certificate(
        g=g,
        rank=rank,
        support_size=int(indices.size),
        support_limit=allowed,
        tolerance=tolerance,
        spans=spans,
        problems=tuple(problems),
        g_is_exact=verifier.exact,
        passes=verifier.passes,
    )


def _measured(
    verifier: Verifier, indices: IntArray, shares: FloatArray, tolerance: float
) -> tuple[int, float, bool]:
    """Return the rank of all rows, the largest leverage, and whether the supported rows span the others."""
    spans = verifier.measure(indices, shares, tolerance=tolerance)
    # The supported rows alone did not prove the rank: read all rows and measure again.
    if not verifier.settled:
        verifier.read_all()
        spans = verifier.measure(indices, shares, tolerance=tolerance)
    return verifier.rank, verifier.g, spans


def _flaws_of_form(indices: IntArray, shares: FloatArray, row_count: int) -> list[str]:
    """Return the problems that can be seen without the actions."""
    if indices.ndim != 1 or indices.size == 0 or not np.issubdtype(indices.dtype, np.integer):
        return ["the support is not a list of row indices"]
    if shares.shape != indices.shape:
        return [f"{shares.size} weights for {indices.size} supported rows"]
    problems = []
    if indices.min() < 0 or indices.max() >= row_count:
        problems.append(f"the support names a row outside 0 ... {row_count - 1}")
    if np.unique(indices).size < indices.size:
        problems.append("the support names a row twice")
    if not (np.isfinite(shares).all() and (shares > 0).all()):
        problems.append("a weight is not a number > 0")
    elif abs(math.fsum(shares) - 1) > _SUM_SLACK:
        problems.append(f"the weights sum to {math.fsum(shares)!r}, not to 1")
    return problems


def _broken_promises(rank: int, g: float, spans: bool, size: int, tolerance: float, limit: int) -> list[str]:
    """Return the bounds that the design exceeds."""
    problems = []
    if not spans:
        problems.append("an action lies outside the span of the supported actions")
    elif not g <= tolerance * rank:
        problems.append(f"g = {g:.6g} exceeds {tolerance:g} · rank = {tolerance * rank:.6g}")
    if size > limit:
        problems.append(f"{size} supported actions exceed the limit of {limit}")
    return problems
