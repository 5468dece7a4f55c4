"""Per-action cohorts: one cohort and one mechanism per action (paper, Algorithms 3 and 4).

Each client reports its reward of one action. The assignment of clients to actions is public and does not
depend on their data. Replacing one client changes the sum of one cohort only, so the cohorts compose in
parallel, as phases do: all releases together cost a client no more privacy than the mechanism of its own
cohort (docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy._calibration import calibrate, least_noise
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._mechanism import Mechanism
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

    Raises:
        InvalidValue: If a value is out of range.
        NotAvailable: If the trust model has no noise for this preset and δ.
        OutsideTheorem: If preset paper is requested and its theorem does not hold for this ε or δ.
    """
    model, pairs = request.trust_model, list(zip(cohorts, bounds, strict=True))
    if model.private:
        request = replace(request, noise=_noise(request, max(cohorts)))
    if (one_value := model.calibrate_one_value) is not None:
        return tuple(one_value(request, cohort=cohort, bound=bound) for cohort, bound in pairs)
    if model.shares_noise:
        return tuple(calibrate(request, coordinates=1, cohort=cohort, bound=bound) for cohort, bound in pairs)
    # Noise that one party adds does not depend on the cohort. In units of the grid it does not depend on the
    # bound either. So one calibration serves all cohorts.
    base: Any = calibrate(request, coordinates=1, cohort=max(cohorts), bound=max(bounds))
    return tuple(replace(base, cohort=cohort, bound=bound) for cohort, bound in pairs)


def _noise(request: PrivacyRequest, clients: int) -> str:
    """Return the noise for one value per client.

    In one dimension K-norm noise has the distribution of Laplace noise, whose tail is simpler.
    """
    noise = least_noise(request, coordinates=1, clients=clients)
    laplace = request.trust_model.laplace_noise
    return laplace if noise in ("k-norm", "ball-norm") and laplace is not None else noise


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
    pairs = list(zip(mechanisms, reports, strict=True))
    summed = [own.summed_errors(count) for own, count in pairs]
    known = [errors for errors in summed if errors is not None]
    if len(known) == len(summed):
        return joint_radius(coefficients, other_variance, confidence, errors=known)
    if all(own.sub_gaussian for own in mechanisms):
        deviations = per_action_deviations(mechanisms, reports)
        return sub_gaussian_radius(other_variance + coefficients**2 @ deviations**2, confidence)
    # Each cohort has its own bound, and each bound its part of the failure probability.
    part, nothing = confidence / (len(pairs) + 1), np.zeros(len(coefficients))
    columns = [
        own.error_radius(coefficients[:, [place]], nothing, part, count)
        for place, (own, count) in enumerate(pairs)
    ]
    return np.asarray(sub_gaussian_radius(other_variance, part) + np.sum(columns, axis=0), dtype=np.float64)
