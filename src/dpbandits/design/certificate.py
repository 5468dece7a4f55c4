"""What a design achieves, recomputed from the actions alone.

Nothing here is shared with the search that finds designs: scale and span are found again, by singular values
where the search pivots, and all leverages are computed anew. The rank is the number of singular values above
1e-10 of the largest, after each column was divided by its largest entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits.checks import finite_matrix
from dpbandits.design.bounds import allowed_support

_NOISE = 1e-10  # of the largest singular value: less than this in a direction is not a dimension
_CLEAR = 1e-8  # a ratio of eigenvalues of X'X that rounding cannot have produced
_THIN = 1e-12  # of the largest row: supported rows thinner than this in a direction do not span it
_SUM_SLACK = 1e-9  # by which the weights' sum may differ from one


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was found; `problems` says what is wrong, one sentence each, and is empty if nothing is."""

    g: float
    """The largest leverage x' V⁺ x over all actions x; infinite if it is not defined."""
    rank: int
    """The dimension of the span of all actions."""
    support_size: int
    support_limit: int
    tolerance: float
    spans: bool
    """Whether the supported actions span all others."""
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the design keeps every promise."""
        return not self.problems

    @property
    def g_limit(self) -> float:
        """The largest g that is allowed."""
        return self.tolerance * self.rank

    @property
    def slack(self) -> float:
        """How far g lies below its limit."""
        return self.g_limit - self.g


def certify(
    actions: NDArray[np.float64],
    support: ArrayLike,
    weights: ArrayLike,
    *,
    tolerance: float = 2.0,
    max_support: int | None = None,
) -> Certificate:
    """Examine a design given as indices of rows and their weights. Flaws are reported, not raised."""
    actions = finite_matrix(actions=actions)
    indices, shares = np.asarray(support), np.asarray(weights, dtype=np.float64)
    problems = _flaws_of_form(indices, shares, len(actions))
    rank, g, spans = (0, math.inf, False) if problems else _measure(actions, indices, shares)
    limit = allowed_support(rank, tolerance, max_support)
    if not problems:
        problems = _broken_promises(rank, g, spans, indices.size, tolerance, limit)
    return Certificate(
        g=g,
        rank=rank,
        support_size=int(indices.size),
        support_limit=limit,
        tolerance=tolerance,
        spans=spans,
        problems=tuple(problems),
    )


def _flaws_of_form(indices: NDArray[np.int64], shares: NDArray[np.float64], row_count: int) -> list[str]:
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


def _measure(
    actions: NDArray[np.float64], indices: NDArray[np.int64], shares: NDArray[np.float64]
) -> tuple[int, float, bool]:
    """Return the rank of all rows, the largest leverage, and whether the supported rows span the others."""
    rows = _in_span(_in_common_units(actions))
    rank = rows.shape[1]
    if rank == 0:
        return 0, 0.0, True
    largest = math.sqrt(np.einsum("ij,ij->i", rows, rows).max())
    lengths = np.linalg.svd(rows[indices], compute_uv=False)
    if lengths.size < rank or lengths[-1] <= _THIN * largest:
        return rank, math.inf, False
    return rank, _largest_leverage(rows, indices, shares), True


def _in_common_units(actions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide each column by its largest entry, unless that is noise compared with the other columns'."""
    largest = np.abs(actions).max()
    if largest == 0:
        return np.zeros_like(actions)
    rows: NDArray[np.float64] = actions / largest
    heights = np.abs(rows).max(axis=0)
    rows /= np.where(heights > _NOISE, heights, 1.0)
    return rows


def _in_span(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn rows into coordinates of their span, as many as they have dimensions.

    Forming X'X squares the condition number, so its eigenvalues decide only where there is no doubt.
    """
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows)
    if eigenvalues[0] > _CLEAR * eigenvalues[-1]:
        return rows
    _, lengths, directions = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=False)
    coordinates: NDArray[np.float64] = rows @ directions[lengths > _NOISE * lengths[0]].T
    return coordinates


def _largest_leverage(
    rows: NDArray[np.float64], indices: NDArray[np.int64], shares: NDArray[np.float64]
) -> float:
    """Compute max x' V⁻¹ x: with √π X = U S W', V⁻¹ = W S⁻² W', so it is the largest ‖x W S⁻¹‖²."""
    weighted = np.sqrt(shares)[:, np.newaxis] * rows[indices]
    _, lengths, directions = np.linalg.svd(weighted, full_matrices=False)
    if lengths[-1] == 0:
        return math.inf
    whitened = rows @ (directions.T / lengths)
    return float(np.einsum("ij,ij->i", whitened, whitened).max())


def _broken_promises(rank: int, g: float, spans: bool, size: int, tolerance: float, limit: int) -> list[str]:
    problems = []
    if not spans:
        problems.append("an action lies outside the span of the supported actions")
    elif not g <= tolerance * rank:
        problems.append(f"g = {g:.6g} exceeds {tolerance:g} · rank = {tolerance * rank:.6g}")
    if size > limit:
        problems.append(f"{size} supported actions exceed the limit of {limit}")
    return problems
