"""Leverages of rows under a design: the certificate's arithmetic, in 64-bit and in 32-bit numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray
from dpbandits.design._frame import Frame

_THIN = 1e-12  # of the largest entry: supported rows thinner than this in a direction do not span it
_UNIT_32 = 2.0**-24  # the largest relative error of one rounding to a 32-bit number
_TOLERABLE = 0.01  # a bound of the 32-bit errors above this share is not worth having
_RANGE_32 = 2.0**100  # entries up to here leave room for products with units up to 2⁶⁰
_SPARE = 1e-9  # relative, for roundings of 64-bit numbers
_SIEVED = 0.5  # of a block's rows left open: it is scanned whole
_WORSE = 2.0  # times the better bound: what the cheaper one may be
_RESTS = 31  # blocks that are then scanned without another try
ROUNDED_UP = 1 + 8 * _UNIT_32  # undoes a few roundings to 32-bit numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Factor:
    """V⁻¹ = `whitening` `whitening`' for coordinates of a frame, and the inverse of that factor."""

    whitening: FloatArray
    inverse: FloatArray
    condition: float
    """The Frobenius norm of the whitening times the spectral norm of its inverse."""


def factorise(supported: FloatArray, weights: FloatArray) -> Factor | None:
    """With √π X = U S W', V⁻¹ = W S⁻² W', so W S⁻¹ whitens; None if the supported rows do not span.

    Weights are at most one, so weighted rows that are not thin need no second look.
    """
    if len(supported) < supported.shape[1]:
        return None
    _, lengths, directions = np.linalg.svd(np.sqrt(weights)[:, np.newaxis] * supported, full_matrices=False)
    if lengths[-1] <= _THIN and (lengths[-1] == 0 or not _spans(supported)):
        return None
    return Factor(
        whitening=directions.T / lengths,
        inverse=lengths[:, np.newaxis] * directions,
        condition=float(lengths[0] * np.linalg.norm(1 / lengths)),
    )


def _spans(supported: FloatArray) -> bool:
    return bool(np.linalg.svd(supported, compute_uv=False)[-1] > _THIN)


def raised_32(dimension: int, factor: Factor) -> float | None:
    """By what factor the exact leverage may exceed a `NarrowScan`'s; None if 32-bit numbers will not do.

    Let u be one rounding's relative error, γₙ = n u / (1 - n u), x a row in the frame's units and W the
    whitening, y = x W. Rounding the entries of both and summing d products in any order gives ŷ with
    |ŷⱼ - yⱼ| ≤ γ_{d+2} Σᵢ |xᵢ| |Wᵢⱼ|, hence ‖ŷ - y‖ ≤ γ_{d+2} ‖x‖ ‖W‖_F. As x = y W⁻¹, that is at most
    γ_{d+2} κ ‖y‖ with κ = ‖W⁻¹‖ ‖W‖_F, whatever the row. Squaring and summing adds γ_{d+1}, relatively. Units
    lie in 2^±60 and entries of W in the row's own units below 2^100, so what underflow takes is
    below 2⁻⁴⁰ beside leverages of one and more; the two extra roundings of n cover it.
    """
    summed = _gamma(dimension + 4)
    share = summed * factor.condition
    if share > _TOLERABLE or np.abs(factor.whitening).max() > _RANGE_32 / 2.0**60:
        return None
    return ROUNDED_UP / ((1 - share) ** 2 * (1 - summed))


def _gamma(terms: int) -> float:
    return terms * _UNIT_32 / (1 - terms * _UNIT_32)


class WideScan:
    """Leverages in 64-bit numbers."""

    def __init__(self, frame: Frame, factor: Factor) -> None:
        self._frame, self._whitening = frame, factor.whitening

    def __call__(self, block: FloatArray, out: NDArray[np.float32]) -> float:
        """Write the leverages of a block to `out`; return the largest, before it was rounded."""
        whitened = self._frame.coordinates(block) @ self._whitening
        leverages = np.einsum("ij,ij->i", whitened, whitened)
        out[:] = leverages
        return float(leverages.max())


class NarrowScan:
    """Leverages in 32-bit numbers, in the units of the rows themselves: half the work of 64-bit numbers."""

    def __init__(self, frame: Frame, factor: Factor) -> None:
        self._matrix = (factor.whitening / frame.units[:, np.newaxis]).astype(np.float32)
        self._rows = np.empty((0, frame.units.size), dtype=np.float32)
        self._whitened = np.empty((0, frame.rank), dtype=np.float32)

    def __call__(self, block: FloatArray, out: NDArray[np.float32]) -> float:
        """Write the leverages of a block to `out`; return the largest."""
        if len(block) > len(self._rows):
            self._rows = np.empty(block.shape, dtype=np.float32)
            self._whitened = np.empty((len(block), self._matrix.shape[1]), dtype=np.float32)
        rows, whitened = self._rows[: len(block)], self._whitened[: len(block)]
        np.copyto(rows, block, casting="unsafe")
        np.matmul(rows, self._matrix, out=whitened)
        np.einsum("ij,ij->i", whitened, whitened, out=out)
        return float(out.max())


class Sieve:
    """A `NarrowScan` that spares rows whose entries alone show that their leverages are low.

    With A = V⁻¹ in the rows' own units, x'Ax ≤ λ Σⱼ tⱼ xⱼ² for any t > 0 and the largest eigenvalue λ of
    (Aᵢⱼ / √(tᵢ tⱼ)). The diagonal of A is a good t. If t = 1 is not much worse, it is taken: that costs a
    twelfth of a product, not a seventh. Some leverage is the rank or more, so rows below half of it, which
    most are where tails are heavy, need no better bound. A block in which many rows are higher is
    scanned whole, and so are some blocks after it.
    """

    def __init__(self, frame: Frame, factor: Factor) -> None:
        self._scan, self._low = NarrowScan(frame, factor), frame.rank / 2
        root = factor.whitening / frame.units[:, np.newaxis]
        spreads = np.einsum("ij,ij->j", factor.inverse, factor.inverse) * frame.units**2  # the diagonal of V
        diagonal = np.einsum("ij,ij->i", root, root)
        plain = float(np.linalg.norm(root, 2)) ** 2
        weighted = float(np.linalg.norm(root / np.sqrt(diagonal)[:, np.newaxis], 2)) ** 2
        self._factor = plain * (1 + _SPARE)
        self._weights: FloatArray | None = None
        if plain * spreads.sum() > _WORSE * weighted * (
            diagonal @ spreads
        ):  # both: of the support, on average
            self._weights = weighted * (1 + _SPARE) * diagonal
        self._rests = 0

    def __call__(self, block: FloatArray, out: NDArray[np.float32]) -> float:
        """Write leverages of a block, or bounds of them, to `out`; return the largest."""
        if self._rests:
            self._rests -= 1
            return self._scan(block, out)
        if self._weights is None:
            out[:] = self._factor * np.einsum("ij,ij->i", block, block)
        else:
            out[:] = (block * block) @ self._weights
        open_rows = np.flatnonzero(~(out <= self._low))  # what is not a number stays open
        if open_rows.size > _SIEVED * len(block):
            self._rests = _RESTS
            return self._scan(block, out)
        found = np.empty(open_rows.size, dtype=np.float32)
        highest = self._scan(block[open_rows], found) if open_rows.size else 0.0
        out[open_rows] = found
        return max(highest, float(out.max()))
