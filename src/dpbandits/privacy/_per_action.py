"""Per-action cohorts: one cohort and one mechanism per action (paper, Algorithms 3 and 4).

Each client reports its reward of one action. The assignment of clients to actions is public and does not
depend on their data. Replacing one client changes the sum of one cohort only, so the cohorts compose in
parallel, as phases do: all releases together cost a client no more privacy than the mechanism of its own
cohort (docs/privacy.md).
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
    """Return one mechanism per cohort. Each client reports one reward.

    Example: `calibrate_per_action(PrivacyRequest(trust="central"), cohorts=[40, 60], bounds=[1.0, 1.0])`.

    Args:
        request: The trust model, (ε, δ), preset and noise.
        cohorts: The number of clients in each cohort.
        bounds: The clipping bound of each cohort. Its clients clip their reward to [−bound, bound].

    Returns:
        The mechanisms, in the order of the cohorts.
    """
    model, pairs = request.trust_model, list(zip(cohorts, bounds, strict=True))
    if model.private:
        request = replace(request, noise=_noise(request))
    if (one_value := model.calibrate_one_value) is not None:
        return tuple(one_value(request, cohort=cohort, bound=bound) for cohort, bound in pairs)
    if model.shares_noise:
        return tuple(calibrate(request, coordinates=1, cohort=cohort, bound=bound) for cohort, bound in pairs)
    # Noise that one party adds does not depend on the cohort. In units of the grid it does not depend on the
    # bound either. So one calibration serves all cohorts.
    base: Any = calibrate(request, coordinates=1, cohort=max(cohorts), bound=max(bounds))
    return tuple(replace(base, cohort=cohort, bound=bound) for cohort, bound in pairs)


def _noise(request: PrivacyRequest) -> str:
    """Return the requested noise. If the request names none, `tight` takes the best one for a single value.

    That is nearly always Laplace noise. Its standard deviation is √2/ε in units of the sensitivity, and it
    spends no δ. Gaussian noise has 4.2 at (1, 10⁻⁶). Clients that share the noise add Pólya variables, whose
    sum is Laplace noise. In one dimension K-norm noise has the same distribution.
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
    """Return an upper bound on the standard deviation of the error of each cohort's mean.

    Args:
        mechanisms: One mechanism per cohort.
        reports: The number of reports of each cohort.

    Returns:
        One number per cohort.
    """
    return _deviations(tuple(mechanisms), tuple(reports))


@lru_cache(maxsize=64)
def _deviations(mechanisms: tuple[Mechanism, ...], reports: tuple[int, ...]) -> FloatArray:
    """Compute `per_action_deviations`, cached: one phase needs them many times."""
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
    """Return the radii of `Mechanism.error_radius` for cohorts whose errors are independent.

    Args:
        mechanisms: One mechanism per cohort.
        coefficients: One row per radius, with one column per cohort.
        other_variance: The variance proxy of the other, independent sub-Gaussian error of each row.
        confidence: The failure probability of each radius.
        reports: The number of reports of each cohort.

    Returns:
        One radius per row.
    """
    laws = [_tail_law(mechanism) for mechanism in mechanisms]
    if any(law is None for law in laws):
        deviations = per_action_deviations(mechanisms, reports)
        return sub_gaussian_radius(other_variance + coefficients**2 @ deviations**2, confidence)
    cohorts = list(zip(cast("Sequence[NoisyLattice]", mechanisms), reports, strict=True))
    scaled = coefficients * np.array([own.lattice.step / n for own, n in cohorts])
    rounding = np.array([own.lattice.rounding_variance(n) for own, n in cohorts])
    other_variance = other_variance + coefficients**2 @ rounding
    shares = [own.shares_added(n) for own, n in cohorts]
    heavy = cast("Sequence[CumulantLaw]", laws)
    return joint_radius(scaled, other_variance, confidence, laws=heavy, shares=shares)


def _tail_law(mechanism: Mechanism) -> CumulantLaw | None:
    """Return the noise distribution if its tail is heavier than a Gaussian one, else None."""
    law = mechanism.law if isinstance(mechanism, NoisyLattice) else None
    return law if isinstance(law, CumulantLaw) else None
