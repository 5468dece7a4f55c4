"""How far one lying client can move a result, for the output of `account` and `plan`."""

from __future__ import annotations

import math

from dpbandits.privacy import TRUST_MODELS, Mechanism


def reach_of(mechanism: Mechanism) -> dict[str, float | None]:
    """`Mechanism.reach_of_one` as a dictionary, with None for infinity.

    If clients share the noise, it is computed for the fewest reports of a release, otherwise for the cohort.
    """
    reports = mechanism.minimum_reports if mechanism.noisy_reports is not None else mechanism.cohort
    found = mechanism.reach_of_one(reports)
    return {
        "reports": reports,
        "mean": bounded(found.mean),
        "honest": found.honest,
        "factor": bounded(found.factor),
        "length": None if found.length is None else bounded(found.length),
    }


def bounded(value: float) -> float | None:
    """The value, or None if it is infinite."""
    return value if math.isfinite(value) else None


def shown_reach(reach: dict[str, float | None], trust: str) -> str:
    """The reach as one line of text."""
    if reach["mean"] is None:
        return "one lying client can move a mean without any bound"
    split = "; in split mode without any bound" if TRUST_MODELS[trust].shuffler else ""
    return (
        f"one lying client moves a mean by at most {reach['mean']:.4g}, {reach['factor']:.4g} × the largest "
        f"effect of an honest client{split}"
    )
