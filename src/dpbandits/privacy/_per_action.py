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
from dpbandits.privacy._calibration import calibrate
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.privacy.accounting import gaussian_noise_ratio
from dpbandits.privacy.noise import CumulantLaw
from dpbandits.privacy.tails import joint_radius, sub_gaussian_radius


def calibrate_per_action(
    request: PrivacyRequest, *, cohorts: Sequence[int], bounds: Sequence[float]
) -> tuple[Mechanism, ...]:
    """Return one mechanism per cohort, each for one reward per client.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        cohorts: The clients of each cohort.
        bounds: Each cohort's clients clip their reward to [−bound, bound].

    Returns:
        The mechanisms, in the order of the cohorts.
    """
    model, pairs = request.trust_model, list(zip(cohorts, bounds, strict=True))
    if model.private:
        request = replace(request, noise=_noise(request))
    if model.calibrate_one_value is not None:
        return tuple(
            model.calibrate_one_value(request, cohort=cohort, bound=bound) for cohort, bound in pairs
        )
    if model.shares_noise:
        return tuple(calibrate(request, coordinates=1, cohort=cohort, bound=bound) for cohort, bound in pairs)
    # A single party's noise does not depend on the cohort, nor, in units of its grid, on the bound.
    base: Any = calibrate(request, coordinates=1, cohort=max(cohorts), bound=max(bounds))
    found = [replace(base, cohort=cohort, bound=bound) for cohort, bound in pairs]
    return cast("tuple[Mechanism, ...]", tuple(found))


def _noise(request: PrivacyRequest) -> str:
    """The requested noise; if there is none, `tight` takes the noise that is least for a single value.

    That is nearly always Laplace noise: √2/ε in units of the sensitivity, and no δ is spent; the Gaussian
    has 4.2 at (1, 10⁻⁶). Clients that share the noise add Pólya variables, which sum to it. In one dimension
    K-norm noise is the same law.
    """
    model = request.trust_model
    if request.mechanism_noise == "k-norm" and model.laplace_noise is not None:
        return model.laplace_noise
    if request.noise is not None or request.preset == "paper":
        return request.mechanism_noise
    if model.laplace_noise is None or model.gaussian_noise is None:
        return request.mechanism_noise
    ratio = math.sqrt(2) / request.epsilon
    if request.pure or ratio < gaussian_noise_ratio(request.epsilon, request.delta):
        return model.laplace_noise
    return model.gaussian_noise


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
