"""Leverages of rows under a design, in 64-bit and in 32-bit numbers; part of the certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray
from dpbandits.design._frame import Frame

_THIN = 1e-12  # relative to the largest entry: in a direction thinner than this, supported rows do not span
_UNIT_32 = 2.0**-24  # the unit roundoff of 32-bit numbers
_TOLERABLE = 0.01  # 32-bit numbers are not used if their error bound exceeds this share
_RANGE_32 = 2.0**100  # the largest entry of the whitening after the division by a unit of at least 2⁻⁶⁰
_SPARE = 1e-9  # a relative margin for rounding errors of 64-bit numbers
_SIEVED = 0.5  # if more than this share of a block remains open, the block is scanned as a whole
_WORSE = 2.0  # the cheaper bound is used if it is at most this many times the better one
_RESTS = 31  # the number of blocks that are then scanned without trying the sieve
ROUNDED_UP = 1 + 8 * _UNIT_32  # covers a few roundings to 32-bit numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Factor:
    """A factor of V⁻¹ in coordinates of a frame: V⁻¹ = `whitening` `whitening`', and its inverse."""

    whitening: FloatArray
    inverse: FloatArray
    condition: float
    """The Frobenius norm of the whitening times the spectral norm of its inverse."""


def factorise(supported: FloatArray, weights: FloatArray) -> Factor | None:
    """Return the factor W S⁻¹ of V⁻¹, from √π X = U S W'; None if the supported rows do not span.

    V⁻¹ = W S⁻² W'. Weights are at most one, so if the weighted rows are not thin in any direction, the
    unweighted rows are not either and need no further check.
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
    """Return whether the supported rows span all coordinates."""
    return bool(np.linalg.svd(supported, compute_uv=False)[-1] > _THIN)


def raised_32(dimension: int, factor: Factor) -> float | None:
    """Return the factor by which an exact leverage may exceed that of a `NarrowScan`.

    It is None if 32-bit numbers are not accurate enough. Let u be the unit roundoff, γₙ = n u / (1 - n u), x
    a row in the units of the frame, W the whitening and y = x W. Rounding the entries of both and summing d
    products in any order gives ŷ with |ŷⱼ - yⱼ| ≤ γ_{d+2} Σᵢ |xᵢ| |Wᵢⱼ|, hence ‖ŷ - y‖ ≤ γ_{d+2} ‖x‖ ‖W‖_F.
    As x = y W⁻¹, that is at most γ_{d+2} κ ‖y‖ with κ = ‖W⁻¹‖ ‖W‖_F, for every row. Squaring and summing adds
    a relative γ_{d+1}. Units lie in 2^±60, and entries of W in the units of the rows are below 2^100. So
    underflow changes leverages of one and more by less than 2⁻⁴⁰, and the two extra roundings in n cover it.
    """
    summed = _gamma(dimension + 4)
    share = summed * factor.condition
    if share > _TOLERABLE or np.abs(factor.whitening).max() > _RANGE_32 / 2.0**60:
        return None
    return ROUNDED_UP / ((1 - share) ** 2 * (1 - summed))


def _gamma(terms: int) -> float:
    """Return γₙ = n u / (1 - n u), the error bound of n roundings."""
    return terms * _UNIT_32 / (1 - terms * _UNIT_32)


class WideScan:
    """Leverages in 64-bit numbers."""

    def __init__(self, frame: Frame, factor: Factor) -> None:
        self._frame, self._whitening = frame, factor.whitening

    def __call__(self, block: FloatArray, out: NDArray[np.float32]) -> float:
        """Write the leverages of a block to `out`; return the largest, before it is rounded to 32 bits."""
        whitened = self._frame.coordinates(block) @ self._whitening
        leverages = np.einsum("ij,ij->i", whitened, whitened)
        out[:] = leverages
        return float(leverages.max())


class NarrowScan:
    """Leverages in 32-bit numbers, in the units of the rows; half the work of 64-bit numbers."""

    def __init__(self, frame: Frame, factor: Factor) -> None:
        self._matrix = (factor.whitening / frame.units[:, np.newaxis]).astype(np.float32)
        self._rows = np.empty((0, frame.units.size), dtype=np.float32)
        self._whitened = np.empty((0, frame.rank), dtype=np.float32)

    def __call__(self, block: FloatArray, out: NDArray[np.float32]) -> float:
        """Write the leverages of a block to `out`; return the largest."""
        # The buffers are kept between blocks, so that they are not allocated each time.
        if len(block) > len(self._rows):
            self._rows = np.empty(block.shape, dtype=np.float32)
            self._whitened = np.empty((len(block), self._matrix.shape[1]), dtype=np.float32)
        rows, whitened = self._rows[: len(block)], self._whitened[: len(block)]
        np.copyto(rows, block, casting="unsafe")
        np.matmul(rows, self._matrix, out=whitened)
        np.einsum("ij,ij->i", whitened, whitened, out=out)
        return float(out.max())


class Sieve:
    """A `NarrowScan` that skips rows whose entries alone show that their leverages are low.

    With A = V⁻¹ in the units of the rows, x'Ax ≤ λ Σⱼ tⱼ xⱼ² for any t > 0, where λ is the largest eigenvalue
    of (Aᵢⱼ / √(tᵢ tⱼ)). The diagonal of A is a good t. If t = 1 is not much worse, it is used instead: it
    costs a twelfth of a matrix product, not a seventh. Some leverage is at least the rank, so a row whose
    bound is at most half the rank needs no better bound. If the rows have heavy tails, most are of this kind.
    A block with many other rows is scanned as a whole, and so are some blocks after it.
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
        # Compare the two bounds on average over the support: E xⱼ² under the design is the diagonal of V.
        if plain * spreads.sum() > _WORSE * weighted * (diagonal @ spreads):
            self._weights = weighted * (1 + _SPARE) * diagonal
        self._rests = 0

    def __call__(self, block: FloatArray, out: NDArray[np.float32]) -> float:
        """Write leverages of a block, or upper bounds, to `out`; return the largest."""
        if self._rests:
            self._rests -= 1
            return self._scan(block, out)
        if self._weights is None:
            out[:] = self._factor * np.einsum("ij,ij->i", block, block)
        else:
            out[:] = (block * block) @ self._weights
        open_rows = np.flatnonzero(~(out <= self._low))  # rows with NaN stay open
        if open_rows.size > _SIEVED * len(block):
            self._rests = _RESTS
            return self._scan(block, out)
        found = np.empty(open_rows.size, dtype=np.float32)
        highest = self._scan(block[open_rows], found) if open_rows.size else 0.0
        out[open_rows] = found
        return max(highest, float(out.max()))
