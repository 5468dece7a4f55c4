"""Confidence widths: how far ⟨θ̃, x⟩ may lie from ⟨θ*, x⟩ (paper, Eq. W_l and Table 4; docs/theory.md).

`paper_width` is one number for all actions, with the constants as printed. `tight_widths` takes the
noise that was really added, in the direction of each action.
"""

from __future__ import annotations

import math

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.design import support_bound
from dpbandits.privacy import Mechanism
from dpbandits.privacy.trust import CentralLattice
from dpbandits.protocol._estimation import LeastSquares


def paper_width(
    *,
    rank: int,
    length: int,
    mechanism: Mechanism,
    clients: int,
    heterogeneity: float,
    confidence: float,
) -> float:
    """W_l = (√(2d/(|U|h)) + σ/√|U| + σ_n)·√(2 log(1/β)), with the rank of the span for d.

    With Laplace noise of scale b on the mean, the last term is 2sdb + 2db·log(1/β) instead: the paper
    prints √(2 log(1/β)), but its proof needs log(1/β).
    """
    action_related = math.sqrt(2 * rank / (clients * length))
    client_related = heterogeneity / math.sqrt(clients)
    width = (action_related + client_related) * _quantile(confidence)
    if isinstance(mechanism, CentralLattice) and mechanism.noise == "laplace":
        on_mean = mechanism.scale * mechanism.lattice.step / clients
        return width + 2 * rank * on_mean * (mechanism.coordinates + math.log(1 / confidence))
    # Table 4: σ_n = 2σ_nc√(Sd), 2σ_nl√(Sd/|U|), 2σ_ns√(Sd); each is the mean's error times 2√(Sd).
    privacy_noise = 2 * mechanism.error_deviation(clients) * math.sqrt(support_bound(rank) * rank)
    return width + privacy_noise * _quantile(confidence)


def tight_widths(
    directions: FloatArray,
    *,
    estimator: LeastSquares,
    plays: FloatArray,
    mixing: FloatArray | None = None,
    mechanism: Mechanism,
    clients: int,
    heterogeneity: float,
    confidence: float,
) -> FloatArray:
    """What ⟨θ̃ − θ*, v⟩ exceeds with probability at most β, for each row v.

    With sub-Gaussian noise this is √(2·v'Cv·log(1/β)), C = A·diag(1/(n·T(x)) + s_n²)·A' + (σ²/n)·I.
    """
    coefficients = directions @ estimator.map
    on_averages = coefficients if mixing is None else coefficients @ mixing
    variances = (on_averages**2) @ (1 / (clients * plays))
    variances += heterogeneity**2 / clients * np.einsum("ij,ij->i", directions, directions)
    return mechanism.error_radius(coefficients, variances, confidence, clients)


def _quantile(confidence: float) -> float:
    """A σ-sub-Gaussian variable exceeds σ times this with probability at most `confidence`."""
    return math.sqrt(2 * math.log(1 / confidence))
