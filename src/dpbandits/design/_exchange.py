"""Wolfe–Atwood exchange steps: weight moves to the largest leverage, or away from the smallest one.

The leverage of an action x under weights π is x' V⁻¹ x with V = Σ πᵢ xᵢ xᵢ'. It is the variance of the
estimated value of x, per observation. The largest leverage is at least the rank r, and equals r exactly if
det V is maximal (Kiefer and Wolfowitz). So steps that increase det V also reduce the largest leverage.

V is never inverted. V⁻¹ = C C' is stored as its factor C. C comes from a QR factorisation of the weighted
rows, and rank-one updates maintain it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import qr, solve_triangular

from dpbandits._arrays import FloatArray, IntArray

_SINGULAR = 1e-8  # below this ratio of R's diagonal entries, the weighted rows do not span
_FEW_STEPS = 48  # the rounding errors of this many steps are far below the margin of the search
_STEPS_BETWEEN_REFACTORISATIONS = 64  # so that rounding errors of the updates do not accumulate


class Exchange:
    """Weights on the rows of `coordinates`, and the leverages of all rows under these weights."""

    def __init__(self, coordinates: FloatArray, weights: FloatArray) -> None:
        self.coordinates = coordinates
        self.weights = weights.copy()
        self.rank = int(coordinates.shape[1])
        self.refactorise()

    @classmethod
    def on_pivots(cls, coordinates: FloatArray, pivots: IntArray) -> Exchange:
        """Return equal weights on pivots, whose coordinates are the unit vectors: V = I / r, C = √r I."""
        exchange = cls.__new__(cls)
        exchange.coordinates, exchange.rank = coordinates, int(coordinates.shape[1])
        exchange.weights = np.zeros(len(coordinates))
        exchange.weights[pivots] = 1 / exchange.rank
        exchange.factor = math.sqrt(exchange.rank) * np.eye(exchange.rank)
        exchange.leverages = exchange.rank * np.einsum("ij,ij->i", coordinates, coordinates)
        return exchange

    @property
    def largest_leverage(self) -> float:
        """The largest leverage; for a G-optimal design it equals the rank."""
        return float(self.leverages.max())

    def refactorise(self) -> None:
        """Compute factor and leverages from the weights; leverages are infinite if the rows do not span."""
        self.weights /= self.weights.sum()
        factor = _inverse_factor(self.coordinates, self.weights)
        if factor is None:
            self.leverages = np.full(len(self.coordinates), np.inf)
            return
        self.factor = factor
        whitened = self.coordinates @ factor
        self.leverages = np.einsum("ij,ij->i", whitened, whitened)

    def run(self, aim: float, max_steps: int) -> None:
        """Step until no leverage exceeds `aim`, or until `max_steps` is reached.

        After more than a few steps, a refactorisation confirms the result.
        """
        for step in range(1, max_steps + 1):
            if self.largest_leverage <= aim:
                if step <= _FEW_STEPS:
                    return
                self.refactorise()
                if self.largest_leverage <= aim:
                    return
            self._step()
            if step % _STEPS_BETWEEN_REFACTORISATIONS == 0:
                self.refactorise()
        self.refactorise()

    def _step(self) -> None:
        """Step towards the row with the largest leverage, or away from the supported row with the smallest.

        The step is taken for the row whose leverage differs more from the rank.
        """
        worst = int(self.leverages.argmax())
        support = np.flatnonzero(self.weights)
        best = int(support[self.leverages[support].argmin()])
        if self.leverages[worst] - self.rank >= self.rank - self.leverages[best]:
            self._move(worst, self._best_share(worst))
            return
        # A step away ends at the latest when the row has no weight left: (1 - share) weight + share = 0.
        everything = -self.weights[best] / (1 - self.weights[best])
        share = max(self._best_share(best), everything)
        self._move(best, share)
        if share == everything:
            self.weights[best] = 0.0

    def _best_share(self, row: int) -> float:
        """Return the share s of all weight that, given to row x with leverage h, maximises det V.

        det((1-s) V + s x x') = (1-s)^r det V · (1 + s/(1-s) h). The derivative of its logarithm, -(r-1)/(1-s)
        + (h-1)/(1 + s (h-1)), is zero at s = (h - r) / (r (h - 1)). For h ≤ 1 the derivative is negative
        everywhere, so the row should lose all of its weight.
        """
        leverage = float(self.leverages[row])
        if leverage <= 1:
            return -math.inf
        return (leverage - self.rank) / (self.rank * (leverage - 1))

    def _move(self, row: int, share: float) -> None:
        """Give `share` of all weight to `row`, and update leverages and factor.

        With b = s/(1-s), u = C'x, h = u'u and t = 1 + b h, the Sherman–Morrison formula gives ((1-s) V + s x
        x')⁻¹ = C (I - b/t u u') C' / (1-s). Hence a row y with product p = y'C u has the new leverage (old -
        b/t p²) / (1-s). Moreover I - b/t u u' = (I - e u u')² for e = b / (t + √t), so the new factor is C (I
        - e u u') / √(1-s).
        """
        ratio = share / (1 - share)  # b
        direction = self.coordinates[row] @ self.factor  # u
        image = self.factor @ direction  # C u
        growth = 1 + ratio * float(direction @ direction)  # t
        products = self.coordinates @ image
        products *= products
        products *= ratio / growth
        self.leverages -= products
        self.leverages /= 1 - share
        shrinkage = ratio / (growth + math.sqrt(growth))  # e
        self.factor -= np.outer(image, shrinkage * direction)
        self.factor /= math.sqrt(1 - share)
        self.weights *= 1 - share
        self.weights[row] += share


def spans(coordinates: FloatArray, weights: FloatArray) -> bool:
    """Return whether the rows with positive weight span all coordinates."""
    return _inverse_factor(coordinates, weights) is not None


def _inverse_factor(coordinates: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Return C with C C' = V⁻¹, or None if V is singular.

    The pivoted QR factorisation √π X P = Q R gives V = P R' R P', so C = P R⁻¹.
    """
    support = np.flatnonzero(weights)
    rank = coordinates.shape[1]
    if support.size < rank:
        return None
    weighted = np.sqrt(weights[support])[:, np.newaxis] * coordinates[support]
    triangle, order = qr(weighted, mode="r", pivoting=True, check_finite=False)
    diagonal = np.abs(np.diagonal(triangle))
    # Pivoting sorts the diagonal, so its last entry shows how close the rows are to a hyperplane.
    if diagonal[-1] <= _SINGULAR * diagonal[0]:
        return None
    factor = np.empty((rank, rank))
    factor[order] = solve_triangular(triangle[:rank], np.eye(rank), check_finite=False)
    return factor
