"""Compare the noise of a mechanism with other noises, and with the least error in the local model."""

from __future__ import annotations

import math

from dpbandits.privacy import Mechanism, PrivacyRequest, noise_widths
from dpbandits.privacy.trust import LocalList


def compared_noises(request: PrivacyRequest, mechanism: Mechanism, **confidence: float) -> dict[str, float]:
    """The predicted error of each noise that a request allows.

    It is empty if the request allows a single noise, or if its preset is not tight. The keyword `confidence`
    is passed on to `noise_widths`.
    """
    if len(request.noises) == 1 or request.preset != "tight":
        return {}
    return noise_widths(
        request,
        coordinates=mechanism.coordinates,
        clients=mechanism.cohort,
        bound=mechanism.bound,
        shape=mechanism.shape,
        **confidence,
    )


def shown_noises(compared: dict[str, float], chosen: str) -> str:
    """The chosen noise, and the others with their predicted error as multiples of its own."""
    others = sorted((width, noise) for noise, width in compared.items() if noise != chosen)
    shown = ", ".join(f"{noise} {width / compared[chosen]:.3g} ×" for width, noise in others)
    return f"{chosen} has the least predicted error; {shown or 'no other noise fits'}"


def above_least_local(mechanism: Mechanism) -> float | None:
    """The variance, divided by the least variance of any unbiased local report; None for other mechanisms."""
    return mechanism.above_least if isinstance(mechanism, LocalList) else None


def least_local_deviation(mechanism: Mechanism) -> float | None:
    """The least standard deviation of a mean of unbiased local reports; None for other mechanisms."""
    ratio = above_least_local(mechanism)
    return None if ratio is None else mechanism.error_deviation(mechanism.cohort) / math.sqrt(ratio)
