"""Recentring: where clients clip their residuals, and an upper bound on the bias that clipping adds.

A residual is a client's average of action x minus the public offset ⟨θ̂, x⟩ from the last estimate. If the
confidence bounds of the previous phase hold, its mean m satisfies |m| ≤ W(x), and it is sub-Gaussian around m
with variance v = σ²‖x‖² + 1/T(x). Clients clip it at R. With z = (R − W)/√v, the excess e = (|residual| − R)₊
of one client satisfies P(e > s) ≤ p·exp(−s·z/√v), p = 2·exp(−z²/2). So E exp(λe) ≤ 1 + pλ/(z/√v − λ), and
with λ = z/(2√v) the mean excess of n clients exceeds

    2√v·(log(1/β) + n·p)/(n·z)

with probability at most β (docs/theory.md). If n·p ≤ β, no client is clipped at all with probability 1 − β,
and the bound is zero. Privacy depends only on R, which the client enforces, and not on these assumptions
about rewards.
"""

from __future__ import annotations

import math

import numpy as np

from dpbandits._arrays import FloatArray

# Offsets and clip radii are rounded to multiples of 1/GRID, so that machines whose floating-point results
# differ in the last bits still compute the same plan, with the same digest.
GRID = 2.0**20
# The number of standard deviations between the largest mean of a residual and the clip radius. A smaller
# margin needs less noise; a larger margin clips fewer residuals.
MARGIN = 3.7
_SLACK = 1e-6  # of a step: a value that is a multiple of the step up to rounding is not rounded up


def on_grid(
    values: FloatArray | float, *, step: FloatArray | float = 1 / GRID, up: bool = False
) -> FloatArray:
    """Round to the nearest multiple of `step`, a power of two, or with `up` to the next multiple above.

    With `up`, a value at most a millionth of a step above a multiple is rounded down to that multiple:
    another processor may compute the value as slightly less.

    Example: `on_grid(0.3, step=0.25)` is 0.25, and with `up` it is 0.5.
    """
    steps = np.divide(values, step)
    rounded = np.ceil(steps - _SLACK) if up else np.round(steps)
    return np.asarray(rounded * step + 0.0, dtype=np.float64)  # + 0.0 turns -0.0 into 0.0


def residual_deviations(rows: FloatArray, plays: FloatArray, heterogeneity: float) -> FloatArray:
    """Return √v for each action, where v is the variance proxy of one client's average."""
    return np.asarray(
        np.sqrt(heterogeneity**2 * np.einsum("ij,ij->i", rows, rows) + 1 / plays), dtype=np.float64
    )


def clip_radius(widths: FloatArray, deviations: FloatArray, margin: float = MARGIN) -> float:
    """Return one clip radius R for all reported numbers.

    If the last estimate is within its widths, only residuals that are more than `margin` standard deviations
    from their mean lie outside R.
    """
    return float(np.max(widths + margin * deviations))


def excess_slopes(
    radius: FloatArray | float, widths: FloatArray, deviations: FloatArray, clients: int, confidence: float
) -> FloatArray:
    """Return 2√v/(n·z), the factor of log(1/β) + n·p in `mean_excess`; zero where nobody is clipped."""
    margins = (radius - widths) / deviations
    nobody = clients * 2 * np.exp(-(margins**2) / 2) <= confidence
    return np.where(nobody, 0.0, 2 * deviations / (clients * margins))


def mean_excess(
    radius: FloatArray | float, widths: FloatArray, deviations: FloatArray, clients: int, confidence: float
) -> FloatArray:
    """Return, for each action, an upper bound on the clients' mean excess with probability 1 − β."""
    margins = (radius - widths) / deviations
    chances = 2 * np.exp(-(margins**2) / 2)
    slopes = excess_slopes(radius, widths, deviations, clients, confidence)
    return np.asarray(slopes * (math.log(1 / confidence) + clients * chances), dtype=np.float64)


def clipping_factor(clients: int, stated: float, allowed: float) -> float:
    """Return the factor by which a bound on clipping shrinks if it may fail with a larger probability.

    The bound is proportional to log(1/β) + n·p, where p is at most 2·exp(−z²/2) for the least margin z. The
    quotient of two such bounds increases in p, so the largest p is safe.

    Args:
        clients: The number n of clients.
        stated: The failure probability of the bound.
        allowed: The allowed failure probability.
    """
    if allowed <= stated:
        return 1.0
    clipped = clients * 2 * math.exp(-(MARGIN**2) / 2)
    return (math.log(1 / allowed) + clipped) / (math.log(1 / stated) + clipped)
