"""Cohorts apart: each answers for one action, through a mechanism of its own (paper, Algorithms 3 and 4).

The assignment of clients to actions is public and does not look at their data. A replaced client changes
one cohort's sum only, so the cohorts compose in parallel, as phases do: what all of them reveal together
costs a client no more than its own cohort's mechanism does (docs/privacy.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.errors import OutsideTheorem
from dpbandits.privacy._calibration import calibrate, may_use_ball
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.privacy.accounting import gaussian_noise_ratio
from dpbandits.privacy.noise import CumulantLaw
from dpbandits.privacy.tails import joint_radius, sub_gaussian_radius
from dpbandits.privacy.trust import ShuffledBits

# Noise that clients share suffices for the cohort's size cut to so many leading binary digits, so that eight
# calibrations serve all sizes between two powers of two; it has at most an eighth more variance than needed.
_DIGITS = 4


def calibrate_per_action(
    request: PrivacyRequest, *, cohorts: Sequence[int], bounds: Sequence[float]
) -> tuple[Mechanism, ...]:
    """For each cohort a mechanism for one reward of each of its clients, clipped to [−bound, bound]."""
    if request.trust != "none":
        request = replace(request, noise=_noise(request))
    if request.trust == "shuffle":
        return tuple(_shared(request, cohort, bound) for cohort, bound in zip(cohorts, bounds, strict=True))
    # A single party's noise does not depend on the cohort, nor, in units of its grid, on the bound.
    base: Any = calibrate(request, coordinates=1, cohort=max(cohorts), bound=max(bounds))
    apart = [replace(base, cohort=cohort, bound=bound) for cohort, bound in zip(cohorts, bounds, strict=True)]
    return cast("tuple[Mechanism, ...]", tuple(apart))


def _noise(request: PrivacyRequest) -> str:
    """What was asked for; unless it was, `tight` takes the noise that is least for a single value.

    That is nearly always Laplace noise: √2/ε in units of the sensitivity, and no δ is spent; the Gaussian
    has 4.2 at (1, 10⁻⁶). Clients that share the noise add Pólya variables, which sum to it. In one dimension
    K-norm noise is the same law.
    """
    if request.mechanism_noise == "k-norm":
        return "laplace"
    if request.noise is not None or request.preset == "paper":
        return request.mechanism_noise
    laplace = "polya" if request.trust == "shuffle" else "laplace"
    if request.pure or math.sqrt(2) / request.epsilon < gaussian_noise_ratio(request.epsilon, request.delta):
        return laplace
    return "discrete-gaussian"


def _shared(request: PrivacyRequest, cohort: int, bound: float) -> Mechanism:
    least = request.minimum_reports(cohort)
    if request.preset == "paper" and request.mechanism_noise == "binomial":
        return algorithm_4(request, cohort=cohort, bound=bound, least=least)
    # With more reports than these there is more noise, which cannot hurt.
    return calibrate(
        request,
        coordinates=1,
        cohort=cohort,
        bound=bound,
        shape="ball" if may_use_ball(request) else "box",
        minimum_reports=_rounded_down(least),
    )


def _rounded_down(count: int) -> int:
    spare = max(0, count.bit_length() - _DIGITS)
    return count >> spare << spare


def algorithm_4(request: PrivacyRequest, *, cohort: int, bound: float, least: int) -> ShuffledBits:
    """The paper's scalar shuffle sum (g, b, p as printed), with g rounded up to an integer.

    Its lemma gives ε̂(2/g + 1) with ε = 2ε̂, which is at most ε from g = 2 on; the printed g ≥ 2B√n
    allows that.
    """
    epsilon, delta = request.epsilon, request.delta
    if epsilon >= 30:
        raise OutsideTheorem(f"epsilon: got {epsilon:g}, expected < 30 (the paper's scalar shuffle theorem)")
    if delta >= 0.5:
        raise OutsideTheorem(f"delta: got {delta:g}, expected < 0.5 (the paper's scalar shuffle theorem)")
    levels = max(2, math.ceil(2 * bound * math.sqrt(cohort) * (1 - 1e-12)))
    ones = 90 * levels**2 * math.log(2 / delta) / ((epsilon / 2) ** 2 * cohort)
    noise_bits = math.ceil(2 * ones)
    return ShuffledBits(
        coordinates=1,
        cohort=cohort,
        bound=bound,
        reach=bound,
        levels=levels,
        noise_bits=noise_bits,
        noise_probability=ones / noise_bits,
        least_reports=least,
        silent_share=request.silent_share,
    )


def per_action_deviations(mechanisms: Sequence[Mechanism], reports: Sequence[int]) -> FloatArray:
    """The deviation, at most, of the error of each cohort's mean."""
    return _deviations(tuple(mechanisms), tuple(reports))


@lru_cache(maxsize=64)
def _deviations(mechanisms: tuple[Mechanism, ...], reports: tuple[int, ...]) -> FloatArray:
    """A phase's are asked for many times."""
    found = np.array([one.error_deviation(n) for one, n in zip(mechanisms, reports, strict=True)])
    found.flags.writeable = False
    return found


def per_action_radius(
    mechanisms: Sequence[Mechanism],
    coefficients: FloatArray,
    other_variance: FloatArray,
    confidence: float,
    reports: Sequence[int],
) -> FloatArray:
    """`Mechanism.error_radius` for errors that are independent over cohorts: a column for each."""
    laws = [_tail_law(mechanism) for mechanism in mechanisms]
    if any(law is None for law in laws):
        deviations = per_action_deviations(mechanisms, reports)
        return sub_gaussian_radius(other_variance + coefficients**2 @ deviations**2, confidence)
    lattices = cast("Sequence[NoisyLattice]", mechanisms)
    rounding = np.array([own.lattice.rounding_variance(n) for own, n in zip(lattices, reports, strict=True)])
    return joint_radius(
        coefficients * np.array([own.lattice.step / n for own, n in zip(lattices, reports, strict=True)]),
        other_variance + coefficients**2 @ rounding,
        confidence,
        laws=cast("Sequence[CumulantLaw]", laws),
        shares=[own.shares_added(n) for own, n in zip(lattices, reports, strict=True)],
    )


def _tail_law(mechanism: Mechanism) -> CumulantLaw | None:
    """The law whose tail is heavier than a normal one's, if the mechanism has such noise."""
    law = mechanism.law if isinstance(mechanism, NoisyLattice) else None
    return law if isinstance(law, CumulantLaw) else None
