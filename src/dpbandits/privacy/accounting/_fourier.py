"""Powers of a distribution on a grid by Fourier transform: tilted first, with every error bounded.

A sum of independent grid losses is wanted near one value, where its mass may be 10⁻¹². A transform
of the plain masses leaves rounding errors near 10⁻¹⁶ everywhere and drowns it. So each part's mass
is multiplied by e^{tilt·loss} and normalised by its moment generating function; the tilted sum has
its bulk at the value of interest, and

    mass(k) = exp(Σ count·log_mgf − tilt·k·spacing) · tilted mass(k).

Proofs of the three bounds (rounding, wrapping round, what lies outside) are in
docs/accounting-proofs.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.special import logsumexp

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.privacy.accounting._noise_pmf import UNIT_ROUNDOFF

# Higham, Accuracy and Stability of Numerical Algorithms (2nd ed.), Theorem 24.2: a transform of
# length 2^t is off by at most t·η/(1 − t·η) in relative ℓ2-norm, η = μ + γ₄(√2 + μ) < 6.7u with
# twiddles good to μ ≤ u. Twice that and more is allowed for, so that other groupings of the same
# butterflies are covered.
_TRANSFORM = 16 * UNIT_ROUNDOFF


@dataclass(frozen=True, kw_only=True)
class GridMass:
    """Mass `mass[i]` at loss (first + i)·spacing; the spacing is kept by the `Window`."""

    first: int
    mass: FloatArray


@dataclass(frozen=True, kw_only=True)
class Window:
    """The grid, the tilt, and which `length` consecutive grid points of the sum are looked at.

    `rise` and `fall` are the exponents of the Chernoff bounds on what lies above and below the
    window.
    """

    spacing: float
    tilt: float
    first: int
    length: int
    rise: float
    fall: float


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The tilted sum on the window: circular values, an ℓ2-bound on their error, the outside."""

    log_scale: float
    values: FloatArray
    error: float
    above: float
    below: float
    relative: float


def total(terms: FloatArray) -> float:
    """The sum, pairwise, which unlike a matrix product starts no threads."""
    return float(terms.sum())


def length(vector: FloatArray) -> float:
    """The ℓ2-norm."""
    return math.sqrt(total(vector * vector))


def binned(index: IntArray, mass: FloatArray, size: int) -> FloatArray:
    """The mass at each index below `size`."""
    return np.asarray(np.bincount(index, mass, minlength=size), dtype=np.float64)


def _log_mgf(part: GridMass, spacing: float, exponent: float) -> float:
    losses = (part.first + np.arange(len(part.mass))) * spacing
    positive = part.mass > 0
    return float(logsumexp(exponent * losses[positive] + np.log(part.mass[positive])))


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Repeated squaring: a product is off by √5·u at most, the power by (exponent − 1)·√5·u."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


class Spectrum:
    """Tilted transforms of a few parts, from which any number of copies of each is composed."""

    def __init__(self, parts: Sequence[GridMass], window: Window) -> None:
        self._window = window
        spacing, tilt = window.spacing, window.tilt
        self._log_mgf = [_log_mgf(part, spacing, tilt) for part in parts]
        self._rising = [_log_mgf(part, spacing, tilt + window.rise) for part in parts]
        self._falling = [_log_mgf(part, spacing, tilt - window.fall) for part in parts]
        self._norms: list[float] = []
        self._transforms: list[NDArray[np.complex128]] = []
        self._largest = 0.0
        self._lowest = [part.first for part in parts]
        self._highest = [part.first + len(part.mass) - 1 for part in parts]
        for part, log_mgf in zip(parts, self._log_mgf, strict=True):
            index = part.first + np.arange(len(part.mass))
            index, mass = index[part.mass > 0], part.mass[part.mass > 0]
            tilted = np.exp(tilt * spacing * index + np.log(mass) - log_mgf)
            folded = binned(index % window.length, tilted, window.length)
            self._norms.append(length(folded))
            self._transforms.append(rfft(folded))
            ends = max(abs(part.first), abs(part.first + len(part.mass)))
            self._largest = max(self._largest, tilt * spacing * ends + abs(log_mgf))

    def compose(self, counts: Sequence[int]) -> Composed:
        """The sum of counts[i] independent copies of each part i."""
        window, total = self._window, sum(counts)
        spectrum = np.ones(window.length // 2 + 1, dtype=np.complex128)
        for transform, count in zip(self._transforms, counts, strict=True):
            spectrum = spectrum * _power(transform, count)
        circular = irfft(spectrum, window.length)
        values = np.roll(circular, -(window.first % window.length))
        top = (window.first + window.length) * window.spacing
        bottom = (window.first - 1) * window.spacing
        log_scale = _dot(counts, self._log_mgf)
        # Chernoff for the tilted sum: P(S ≥ top) ≤ E e^{rise·(S − top)}, P(S ≤ bottom) ≤ E
        # e^{fall·(bottom − S)}. Nothing at all lies beyond the sum of the parts' own ends.
        above = _dot(counts, self._rising) - log_scale - window.rise * top
        below = _dot(counts, self._falling) - log_scale + window.fall * bottom
        exponents = total * self._largest + window.tilt * max(abs(top), abs(bottom)) + abs(log_scale)
        return Composed(
            log_scale=log_scale,
            values=values,
            error=self._rounding(counts, length(values)),
            above=math.exp(min(above, 0.0)) if _dot(counts, self._highest) * window.spacing >= top else 0.0,
            below=math.exp(min(below, 0.0)) if _dot(counts, self._lowest) * window.spacing <= bottom else 0.0,
            relative=UNIT_ROUNDOFF * (8 * exponents + 2 * window.length),
        )

    def _rounding(self, counts: Sequence[int], norm: float) -> float:
        """‖computed − exact‖₂ of the circular tilted sum.

        Forward: ‖e_i‖₂ ≤ tη√n‖part_i‖₂ and, the tilted parts summing to one, |F_i| ≤ 1. A product
        of powers moves by at most Σ count_i·|e_i|·Π(1 + |e_i|)^count_i, and by √5·u·(Σ count_i + 1)
        relatively when it is computed. Backward: dividing by √n, and tη of the result once more.
        """
        points = self._window.length
        transform = 1.01 * math.log2(points) * _TRANSFORM
        moved = transform * _dot(counts, self._norms)
        growth = math.exp(min(math.sqrt(points) * moved, 600.0))
        product = 3 * UNIT_ROUNDOFF * (sum(counts) + len(counts))
        return 1.01 * (moved * growth + (product + transform) * (norm + moved)) + 1e-300


def _dot(counts: Sequence[int], values: Sequence[float]) -> float:
    return math.fsum(count * value for count, value in zip(counts, values, strict=True))
