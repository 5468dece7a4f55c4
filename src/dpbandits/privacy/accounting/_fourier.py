"""Sums of many independent losses on a grid, by Fourier transform, with rigorous error bounds.

The distribution of a sum of independent grid losses is needed near one value, where its mass may be 10⁻¹². A
transform of the plain masses has rounding errors near 10⁻¹⁶ everywhere, which are too large there. So the
masses are tilted first: each part's mass is multiplied by e^{tilt·loss} and normalised by its moment
generating function. The tilted sum has most of its mass at the value of interest, and

    mass(k) = exp(Σ count·log_mgf − tilt·k·spacing) · tilted mass(k).

The three error bounds (rounding, wrap-around, mass outside the window) are proved in
docs/accounting-proofs.md, section 6.
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

# Higham, Accuracy and Stability of Numerical Algorithms (2nd ed.), Theorem 24.2: a transform of length 2^t
# has relative ℓ2 error at most t·η/(1 − t·η), where η = μ + γ₄(√2 + μ) < 6.7u for twiddle factors accurate to
# μ ≤ u. The constant is more than twice that, to cover libraries that group the butterflies differently.
_TRANSFORM = 16 * UNIT_ROUNDOFF


@dataclass(frozen=True, kw_only=True)
class GridMass:
    """Probabilities on a grid: `mass[i]` at loss (first + i)·spacing.

    The spacing is stored in the `Window`.
    """

    first: int
    mass: FloatArray


@dataclass(frozen=True, kw_only=True)
class Window:
    """The grid, the tilt, and which `length` consecutive grid points of the sum are computed.

    Attributes:
        spacing: The distance between grid points.
        tilt: The exponent of the tilt.
        first: The index of the first grid point.
        length: The number of grid points, a power of two.
        rise: The exponent of the Chernoff bound on the mass above the window.
        fall: The exponent of the Chernoff bound on the mass below the window.
    """

    spacing: float
    tilt: float
    first: int
    length: int
    rise: float
    fall: float


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The tilted sum on the window, with its error bounds.

    Attributes:
        log_scale: The logarithm of the factor between tilted and plain masses, without −tilt·loss.
        values: The tilted masses; mass outside the window is wrapped around into it.
        error: A bound on the ℓ2 norm of the rounding errors of `values`.
        above: A bound on the tilted mass above the window.
        below: A bound on the tilted mass below the window.
        relative: A bound on the relative error of exponentials and sums.
    """

    log_scale: float
    values: FloatArray
    error: float
    above: float
    below: float
    relative: float


def total(terms: FloatArray) -> float:
    """Return the sum of the terms.

    It uses pairwise summation and, unlike a matrix product, starts no threads.
    """
    return float(terms.sum())


def length(vector: FloatArray) -> float:
    """Return the ℓ2 norm."""
    return math.sqrt(total(vector * vector))


def binned(index: IntArray, mass: FloatArray, size: int) -> FloatArray:
    """Return the total mass at each index below `size`."""
    return np.asarray(np.bincount(index, mass, minlength=size), dtype=np.float64)


def _log_mgf(part: GridMass, spacing: float, exponent: float) -> float:
    """Return the logarithm of the moment generating function, log E e^{exponent·loss}."""
    losses = (part.first + np.arange(len(part.mass))) * spacing
    positive = part.mass > 0
    return float(logsumexp(exponent * losses[positive] + np.log(part.mass[positive])))


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return the power by repeated squaring.

    One complex product has relative error at most √5·u, so the power has at most (exponent − 1)·√5·u.
    """
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


class Spectrum:
    """Tilted transforms of a few parts, from which sums of any number of copies are composed."""

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
            # Tilt in logarithms: tilt·loss alone may overflow. Losses outside the window are folded into it
            # modulo its length, as the circular transform needs.
            index = part.first + np.arange(len(part.mass))
            index, mass = index[part.mass > 0], part.mass[part.mass > 0]
            tilted = np.exp(tilt * spacing * index + np.log(mass) - log_mgf)
            folded = binned(index % window.length, tilted, window.length)
            self._norms.append(length(folded))
            self._transforms.append(rfft(folded))
            ends = max(abs(part.first), abs(part.first + len(part.mass)))
            self._largest = max(self._largest, tilt * spacing * ends + abs(log_mgf))

    def compose(self, counts: Sequence[int]) -> Composed:
        """Return the distribution of the sum of counts[i] independent copies of each part i."""
        window, total = self._window, sum(counts)
        spectrum = np.ones(window.length // 2 + 1, dtype=np.complex128)
        for transform, count in zip(self._transforms, counts, strict=True):
            spectrum = spectrum * _power(transform, count)
        circular = irfft(spectrum, window.length)
        # Index k of the circular result stands for all losses k modulo the length; rotate it so that the
        # first entry is the first grid point of the window.
        values = np.roll(circular, -(window.first % window.length))
        top = (window.first + window.length) * window.spacing
        bottom = (window.first - 1) * window.spacing
        log_scale = _dot(counts, self._log_mgf)
        # Chernoff for the tilted sum: P(S ≥ top) ≤ E e^{rise·(S − top)}, P(S ≤ bottom) ≤ E e^{fall·(bottom −
        # S)}. No mass lies beyond the sum of the ends of the parts.
        above = _dot(counts, self._rising) - log_scale - window.rise * top
        below = _dot(counts, self._falling) - log_scale + window.fall * bottom
        # The largest exponents that occur, for the bound on relative errors: a rounding of x is a relative
        # error of e^x.
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
        """Return a bound on ‖computed − exact‖₂ of the circular tilted sum.

        Forward transform: ‖e_i‖₂ ≤ tη√n‖part_i‖₂, and |F_i| ≤ 1 because the tilted parts sum to one. Product
        of powers: it changes by at most Σ count_i·|e_i|·Π(1 + |e_i|)^count_i, plus a relative √5·u·(Σ count_i
        + 1) from its own computation. Inverse transform: it divides by √n and adds tη of the result.
        """
        points = self._window.length
        transform = 1.01 * math.log2(points) * _TRANSFORM
        moved = transform * _dot(counts, self._norms)
        growth = math.exp(min(math.sqrt(points) * moved, 600.0))
        product = 3 * UNIT_ROUNDOFF * (sum(counts) + len(counts))
        return 1.01 * (moved * growth + (product + transform) * (norm + moved)) + 1e-300


def _dot(counts: Sequence[int], values: Sequence[float]) -> float:
    """Return Σ count·value."""
    return math.fsum(count * value for count, value in zip(counts, values, strict=True))
