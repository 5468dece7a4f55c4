"""Confidence widths: how far ⟨θ̃, x⟩ may lie from ⟨θ*, x⟩ (paper, Eq. W_l and Table 4; docs/theory.md).

`paper_width` is one number for all actions, with the constants as printed. `tight_widths` takes the
variance of the noise that was really added, in the direction of each action; it never exceeds what the
theory needs and is proved in docs/theory.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbandits.design import support_bound
from dpbandits.privacy import Mechanism
from dpbandits.protocol.estimation import LeastSquares

FloatArray = NDArray[np.float64]


def paper_width(
    *, rank: int, length: int, mechanism: Mechanism, heterogeneity: float, confidence: float
) -> float:
    """W_l = (√(2d/(|U|h)) + σ/√|U| + σ_n)·√(2 log(1/β)), with the rank of the span for d."""
    clients = mechanism.cohort
    action_related = math.sqrt(2 * rank / (clients * length))
    client_related = heterogeneity / math.sqrt(clients)
    # Table 4: σ_n = 2σ_nc√(Sd), 2σ_nl√(Sd/|U|), 2σ_ns√(Sd); each is the mean's error times 2√(Sd).
    privacy_noise = 2 * mechanism.error_proxy * math.sqrt(support_bound(rank) * rank)
    return (action_related + client_related + privacy_noise) * _quantile(confidence)


def tight_widths(
    directions: FloatArray,
    *,
    estimator: LeastSquares,
    plays: FloatArray,
    mechanism: Mechanism,
    heterogeneity: float,
    confidence: float,
) -> FloatArray:
    """√(2·v'Cv·log(1/β)) for each row v, C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I."""
    clients = mechanism.cohort
    variances = 1 / (clients * plays) + mechanism.error_proxy**2
    # C's first term is F·F' with F = A·diag(√variances); F' = Q·R turns v'FF'v into ‖R·v‖².
    factor: FloatArray = np.linalg.qr((estimator.map * np.sqrt(variances)).T).R
    spread = _squared_norms(directions @ factor.T) + heterogeneity**2 / clients * _squared_norms(directions)
    return _quantile(confidence) * np.sqrt(spread)


def _squared_norms(rows: FloatArray) -> FloatArray:
    squared: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return squared


def _quantile(confidence: float) -> float:
    """A σ-sub-Gaussian variable exceeds σ times this with probability at most `confidence`."""
    return math.sqrt(2 * math.log(1 / confidence))
