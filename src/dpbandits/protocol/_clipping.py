"""Recentring: how far clients clip what is left after the last public estimate, and what that may cost.

A client's average of action x, less the public offset ⟨θ̂, x⟩, has mean m with |m| ≤ W(x) on the good
event of the phase before, and is sub-Gaussian around it with variance v = σ²‖x‖² + 1/T(x). It is clipped at
R. With z = (R − W)/√v, the excess e = (|residual| − R)₊ of one client has P(e > s) ≤ p·exp(−s·z/√v),
p = 2·exp(−z²/2). So E exp(λe) ≤ 1 + pλ/(z/√v − λ), and with λ = z/(2√v) the mean excess of n clients exceeds

    2√v·(log(1/β) + n·p)/(n·z)

with probability at most β (docs/theory.md). Privacy rests on R, which is enforced, and on none of this.
"""

from __future__ import annotations

import math

import numpy as np

from dpbandits._arrays import FloatArray

# Offsets and clip radii are multiples of 1/GRID, so that another machine's rounding gives the same plan.
GRID = 2.0**20
# Deviations between a residual's mean and the clip: few enough for little noise, so many that few are cut.
MARGIN = 3.7


def on_grid(
    values: FloatArray | float, *, step: FloatArray | float = 1 / GRID, up: bool = False
) -> FloatArray:
    """Round to the nearest multiple of `step`, a power of two, or with `up` to the next one above.

    Example: `on_grid(0.3, step=0.25)` is 0.25, and with `up` it is 0.5.
    """
    rounding = np.ceil if up else np.round
    return np.asarray(rounding(np.divide(values, step)) * step, dtype=np.float64)


def residual_deviations(rows: FloatArray, plays: FloatArray, heterogeneity: float) -> FloatArray:
    """√v of one client's average of each action."""
    return np.asarray(
        np.sqrt(heterogeneity**2 * np.einsum("ij,ij->i", rows, rows) + 1 / plays), dtype=np.float64
    )


def clip_radius(widths: FloatArray, deviations: FloatArray, margin: float = MARGIN) -> float:
    """One R for all numbers: beyond it lie only residuals `margin` deviations off, or a failed estimate."""
    return float(np.max(widths + margin * deviations))


def mean_excess(
    radius: float, widths: FloatArray, deviations: FloatArray, clients: int, confidence: float
) -> FloatArray:
    """What the mean of the clients' excesses stays below, for each action, with probability 1 − β."""
    margins = (radius - widths) / deviations
    chances = 2 * np.exp(-(margins**2) / 2)
    bound: FloatArray = 2 * deviations * (math.log(1 / confidence) + clients * chances) / (clients * margins)
    return bound
