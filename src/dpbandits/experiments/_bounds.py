"""The paper's upper bounds on expected regret and communication, with the constants of its proofs.

S is the bound on a support, h₁ the nominal length of the first phase, β = 1/(kT), and L = log₂(2T/h₁) is an
upper bound on the number of phases. The proof for DPE ends with

    2(h₁ + S) + 8C₀√(2d h₁^α T^(1−α) log(kT)) + 20S√((2d/h₁) log(kT))
    + 16σ√(2h₁^α log(kT))·T^(1−α/2) + 4C₁σS√(2 log(kT)) + 4L,
    C₀ = √q/(√q − 1), q = 2^(1−α), C₁ = Σ 2^(−αl/2), C₂ = Σ 2^(−αl) over l ≥ 1.

With σ₀ = 2B√(2 ln(1.25/δ))/ε, and σ₀ = B√(360 ln(4S/δ))/ε̂ in the shuffle model (the paper does not state its
constant; this is the variance of Algorithm 2), privacy adds

    central, shuffle:  8σ₀S√(2d log(kT))·(q·h₁^α T^(1−α)/(q − 1) + C₂S)
    local:             8σ₀S√(2d log(kT))·(4h₁^(α/2) T^(1−α/2) + C₁S)

In the paper, the factor q of the first term is missing: the paper bounds the sum over phases by its last term
divided by q − 1, which is too small by this factor. With privacy a phase fails with probability 3β instead
of 2β, so the last term becomes 6L.

DP-PE (Table 3) has h₁ = S and

    2(h₁ + S) + 32√(2dT log(kT)) + 24S√((2d/h₁) log(kT)) + 4L
    central, shuffle:  + 16dσ₀√(2S log(kT))·(log₂(T/h₁) + S/h₁)
    local:             + 16dσ₀√(2S log(kT))·(4√T + 3S/√h₁)

where the shuffle model has σ₀² = B²·720 ln(2/δ)/ε² + ½ (Algorithm 4 with g = 2B√n; the paper does not state
this constant either).
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpbandits._checks import probability
from dpbandits.design import support_bound
from dpbandits.privacy import TRUST_MODELS, calibrate
from dpbandits.simulation import Setting

FIRST_LENGTH = 2  # h₁ of DP-DPE

Terms = dict[str, float]


def dpe_regret(setting: Setting) -> Terms:
    """Return the terms of the bound of Table 1; their sum bounds the expected regret."""
    alpha, horizon = probability(alpha=setting.cohorts.alpha), setting.horizon
    dimension = setting.problem.dimension
    support, log = support_bound(dimension), math.log(setting.problem.actions * horizon)
    q, first, sigma = 2 ** (1 - alpha), FIRST_LENGTH, setting.problem.heterogeneity
    rewards = 8 * math.sqrt(q) / (math.sqrt(q) - 1)
    rewards *= math.sqrt(2 * dimension * first**alpha * horizon ** (1 - alpha) * log)
    clients = 16 * sigma * math.sqrt(2 * first**alpha * log) * horizon ** (1 - alpha / 2)
    rounding = 2 * (first + support) + 20 * support * math.sqrt(2 * dimension / first * log)
    rounding += 4 * _geometric(alpha / 2) * sigma * support * math.sqrt(2 * log)
    return {
        "rewards": rewards,
        "clients": clients,
        "rounding": rounding,
        "failure": (6 if setting.private else 4) * _phases(horizon, first),
        "privacy": _dpe_privacy(setting, support, log),
    }


def _dpe_privacy(setting: Setting, support: float, log: float) -> float:
    """Return what privacy adds to the bound of Table 1."""
    alpha, first, horizon = setting.cohorts.alpha, FIRST_LENGTH, setting.horizon
    scale = 8 * _dpe_noise(setting, support) * support * math.sqrt(2 * setting.problem.dimension * log)
    if setting.privacy.trust_model.noise_per_client:
        growth = 4 * math.pow(first, alpha / 2) * math.pow(horizon, 1 - alpha / 2)
        return scale * (growth + _geometric(alpha / 2) * support)
    q = math.pow(2, 1 - alpha)
    growth = q / (q - 1) * math.pow(first, alpha) * math.pow(horizon, 1 - alpha)
    return scale * (growth + _geometric(alpha) * support)


def pe_regret(setting: Setting) -> Terms:
    """Return the terms of the bound of Table 3."""
    dimension, horizon = setting.problem.dimension, setting.horizon
    support, log = support_bound(dimension), math.log(setting.problem.actions * horizon)
    first = support
    scale = 16 * dimension * _pe_noise(setting) * math.sqrt(2 * support * log)
    growth = (
        4 * math.sqrt(horizon) + 3 * support / math.sqrt(first)
        if setting.privacy.trust_model.noise_per_client
        else math.log2(max(1.0, horizon / first)) + support / first
    )
    return {
        "rewards": 32 * math.sqrt(2 * dimension * horizon * log),
        "rounding": 2 * (first + support) + 24 * support * math.sqrt(2 * dimension / first * log),
        "failure": 4 * _phases(horizon, first),
        "privacy": scale * growth,
    }


def _dpe_noise(setting: Setting, support: float) -> float:
    """Return σ₀ of DP-DPE."""
    if not setting.privacy.trust_model.shuffler:
        return _gaussian_noise(setting)
    epsilon, delta = setting.privacy.epsilon, setting.privacy.delta
    scaled = epsilon / (18 * math.sqrt(math.log(2 / delta)))  # ε̂ of Algorithm 2
    return setting.bound * math.sqrt(360 * math.log(4 * support / delta)) / scaled


def _pe_noise(setting: Setting) -> float:
    """Return σ₀ of DP-PE."""
    if not setting.privacy.trust_model.shuffler:
        return _gaussian_noise(setting)
    epsilon, delta = setting.privacy.epsilon, setting.privacy.delta
    return math.sqrt(setting.bound**2 * 720 * math.log(2 / delta) / epsilon**2 + 0.5)


def _gaussian_noise(setting: Setting) -> float:
    """Return σ₀ of the classical Gaussian mechanism, or 0 without privacy."""
    if not setting.private:
        return 0.0
    return 2 * setting.bound * math.sqrt(2 * math.log(1.25 / setting.privacy.delta)) / setting.privacy.epsilon


def _geometric(exponent: float) -> float:
    """Return Σ 2^(−exponent·l) over l ≥ 1."""
    return 1 / (2**exponent - 1)


def _phases(horizon: int, first: float) -> float:
    """Return L, an upper bound on the number of phases."""
    return math.log2(2 * max(1.0, horizon / first))


def dpe_communication(setting: Setting) -> float:
    """Return the bound on communication: Σ S·|U_l| numbers over the phases that report.

    In the shuffle model, phase l adds S·(g + b)·|U_l| bits instead, by Algorithm 2.
    """
    schedule, support = setting.exponential(), support_bound(setting.problem.dimension)
    phases = range(1, schedule.reporting_phases(setting.horizon) + 1)
    cohorts = [schedule.cohort(phase) for phase in phases]
    if not setting.privacy.trust_model.shuffler:
        return support * sum(cohorts)
    request, whole = replace(setting.privacy, preset="paper"), math.floor(support)
    mechanisms = [calibrate(request, coordinates=whole, cohort=size, bound=setting.bound) for size in cohorts]
    return float(sum(own.cohort * own.message_size for own in mechanisms))


def growth_of_regret(alpha: float) -> float:
    """Return the largest power of T in Table 1: 1 − α/2, from the differences between clients.

    Privacy adds no larger power in any trust model.
    """
    return 1 - alpha / 2


def growth_of_communication(trust: str, alpha: float) -> float:
    """Return the power of T in the communication of Table 1."""
    return 1.5 * alpha if TRUST_MODELS[trust].shuffler else alpha
