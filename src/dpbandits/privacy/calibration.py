"""From a request to a mechanism: how much noise, in which trust model, for which cohort.

`paper` takes the constants as printed; what they really give is told by the mechanism's `delta`.
`tight` takes the least noise for which the stated (ε, δ) is proved.
"""

from __future__ import annotations

from collections.abc import Callable

from dpbandits.errors import NotAvailable
from dpbandits.privacy.accounting.gaussian import classical_noise_ratio, gaussian_noise_ratio
from dpbandits.privacy.central import CentralGaussian
from dpbandits.privacy.guarantee import PrivacyRequest
from dpbandits.privacy.local import LocalGaussian
from dpbandits.privacy.mechanism import Mechanism
from dpbandits.privacy.none import NoPrivacy
from dpbandits.privacy.shuffle import algorithm_2

Calibration = Callable[[PrivacyRequest, int, int, float], Mechanism]


def calibrate(request: PrivacyRequest, *, support: int, cohort: int, bound: float) -> Mechanism:
    """The mechanism for `cohort` clients that each report `support` averages in [−bound, bound]."""
    return CALIBRATIONS[request.trust](request, support, cohort, bound)


def _noise_ratio(request: PrivacyRequest) -> float:
    formula = classical_noise_ratio if request.preset == "paper" else gaussian_noise_ratio
    return formula(request.epsilon, request.delta)


def _none(request: PrivacyRequest, support: int, cohort: int, bound: float) -> Mechanism:  # noqa: ARG001
    return NoPrivacy(support=support, cohort=cohort, bound=bound)


def _central(request: PrivacyRequest, support: int, cohort: int, bound: float) -> Mechanism:
    ratio = _noise_ratio(request)
    return CentralGaussian.calibrated(noise_ratio=ratio, support=support, cohort=cohort, bound=bound)


def _local(request: PrivacyRequest, support: int, cohort: int, bound: float) -> Mechanism:
    ratio = _noise_ratio(request)
    return LocalGaussian.calibrated(noise_ratio=ratio, support=support, cohort=cohort, bound=bound)


def _shuffle(request: PrivacyRequest, support: int, cohort: int, bound: float) -> Mechanism:
    if request.preset == "tight":
        raise NotAvailable(
            "preset: got tight with trust shuffle, expected paper (the exact accounting that the tight "
            "shuffle needs is not part of this version)"
        )
    return algorithm_2(
        epsilon=request.epsilon, delta=request.delta, support=support, cohort=cohort, bound=bound
    )


CALIBRATIONS: dict[str, Calibration] = {
    "none": _none,
    "central": _central,
    "local": _local,
    "shuffle": _shuffle,
}
