"""The size of a confirmation: how many clients it asks and how often they play, before a study begins.

It follows from the width that the intervals of the confirmation are predicted to have.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue, PrivacyError
from dpbandits.privacy import Mechanism, SimulatedNoise
from dpbandits.privacy.tails import Tail, tail_of_bounded, tail_of_people
from dpbandits.protocol._clipping import clipping_factor
from dpbandits.protocol._confirmation import (
    CLIPPING_SHARE,
    MOST_FINALISTS,
    Confirmation,
    confirmation_evidence,
    confirmation_radii,
    left_after_clipping,
    planned,
    study_of_finalists,
    tabular_evidence,
    to_current,
)
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol._study import Study
from dpbandits.protocol.assignment import CohortErrors
from dpbandits.protocol.model import LinearFit, fitted

_SHARE = 0.2  # of the participants, if no width is asked for
_MOST = 0.5  # of the participants, for a width that is asked for
_LEVEL = 0.95  # with this probability all intervals cover the truth
_WORTH = 0.5  # of the bound: a wider interval is not worth the participants
_PLAYS = 32  # plays of each option, if the horizon allows it
_MOST_ROUNDS = 0.05  # the largest part of the horizon that is played for a confirmation
# How a width is predicted: the quantiles or draws of the noise, and the search for the radius.
_QUANTILES, _DRAWS, _HALVINGS, _FARTHEST, _CAUTION = 400, 4000, 30, 12.0, 1.01


def usual_plays(study: Study, *, finalists: int = 3) -> int:
    """Return how often each option is played by default.

    Args:
        study: The study.
        finalists: How many options are compared with the current one.

    Returns:
        32, or fewer if the plays of all options together would exceed a twentieth of the horizon, but at
        least 1.
    """
    return max(1, min(_PLAYS, math.floor(_MOST_ROUNDS * study.horizon / (finalists + 1))))


def reserved(
    study: Study,
    participants: int,
    *,
    current: int,
    assumes: str = "spread",
    finalists: int = 3,
    width: float | None = None,
) -> Confirmation | None:
    """Return the confirmation of a study with a budget of participants, or None if it is not worth it.

    Without a `width`, a fifth of the participants is reserved. If the interval of a difference to the current
    option would then be wider than half the bound on each side, nothing is reserved.

    Args:
        study: The study; its schedule is not used.
        participants: How many clients the study asks in total.
        current: The index of the current option.
        assumes: See `Confirmation.assumes`.
        finalists: See `Confirmation.finalists`.
        width: The wanted half width of the interval of a difference at level 95 %, on the study's scale of
            rewards. The smallest cohort that is predicted to reach it is reserved.

    Raises:
        InvalidValue: Half of the participants do not suffice for the width.
    """
    count = study.actions.count
    if count < 2 or not study.assignment_rule.one_cohort:
        return None
    finalists = min(whole(1, MOST_FINALISTS, finalists=finalists), count - 1)
    plays = usual_plays(study, finalists=finalists) if assumes == "spread" else 1

    def sized(cohort: int) -> Confirmation:
        return Confirmation(current=current, cohort=cohort, plays=plays, finalists=finalists, assumes=assumes)

    if width is None:
        found = sized(max(1, int(_SHARE * participants)))
        return found if predicted_width(study, found) <= _WORTH * study.bound else None
    low, high = 0, max(1, int(_MOST * participants))
    if predicted_width(study, sized(high)) > width:
        expected = f"more than {predicted_width(study, sized(high)):.3g}, or more participants"
        raise InvalidValue("confirmation width", f"{width:.3g}", expected)
    while high - low > 1:
        middle = (low + high) // 2
        if predicted_width(study, sized(middle)) <= width:
            high = middle
        else:
            low = middle
    return sized(high)


def predicted_width(study: Study, confirmation: Confirmation) -> float:
    """Return the half width of the intervals at level 95 % of a confirmation in which everybody reports.

    Args:
        study: The study.
        confirmation: The confirmation.

    Returns:
        The width for the largest number of finalists, on the study's scale of rewards; infinite if no
        mechanism can be calibrated for the cohort. It is a prediction for independent clients, and usually
        slightly too large.
    """
    others = [place for place in range(study.actions.count) if place != confirmation.current]
    options = (*others[: confirmation.finalists], confirmation.current)
    try:
        confirmed = replace(study, confirmation=confirmation, schedule=Schedule(cohorts=(1,)))
        plan = replace(planned(study_of_finalists(confirmed, options)), support=options)
    except PrivacyError:  # no mechanism for this number of clients
        return math.inf
    evidence = confirmation_evidence(confirmed, plan, confirmation.cohort)
    return _expected_radius(confirmed, evidence, left_after_clipping(1 - _LEVEL))


def _expected_radius(study: Study, evidence: PhaseEvidence, failure: float) -> float:
    """Return the predicted radius of the interval of each difference to the current option.

    `failure` is the probability with which any of these intervals may miss. `dpbandits.answers` computes the
    real radius from draws of the noise for all differences at once. This prediction gives each difference an
    equal share of `failure`, and takes normal quantiles for the noise if it is sub-Gaussian.
    """
    tabular, own = tabular_evidence(study, evidence)
    fit, reports, mechanism = fitted(tabular, own), own.reports, own.plan.asked_mechanism
    others = len(own.plan.support) - 1
    direction, chance = to_current(others)[:1], (1 - CLIPPING_SHARE) * failure / (2 * others)
    assert isinstance(fit, LinearFit)
    assert isinstance(fit.errors, CohortErrors)
    noise = _noise(mechanism, direction @ fit.map, reports)
    if study.reward_variance is not None or noise is None:
        return float(confirmation_radii(study, evidence, direction, chance)[0])
    tail = _people(study, fit, direction)
    low, high = 0.0, _FARTHEST * float(np.hypot(tail.units[0], np.abs(noise).max()))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        missed = float(np.mean(tail((middle - noise[:, None]) / tail.units)))
        low, high = (low, middle) if missed <= chance else (middle, high)
    each = CLIPPING_SHARE * failure / max(1, len(own.clipping_bias))
    pull = float(fit.errors.pull(direction @ fit.map)[0])
    return _CAUTION * (high + pull * clipping_factor(reports, tabular.bound_failure, each))


def _noise(mechanism: Mechanism, coefficients: FloatArray, reports: int) -> FloatArray | None:
    """Return values of the noise of one difference that are equally likely; None if it cannot be drawn."""
    from scipy.special import ndtri

    deviation = mechanism.error_deviation(reports) * float(np.linalg.norm(coefficients))
    count = 1 if mechanism.sub_gaussian else _DRAWS
    drawn = mechanism.noise_draws(count, reports, SimulatedNoise(np.random.default_rng(0)))
    if drawn is None:
        return None
    if not mechanism.sub_gaussian:
        return np.asarray(drawn @ coefficients[0])
    return np.asarray(deviation * ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES))


def _people(study: Study, fit: LinearFit, direction: FloatArray) -> Tail:
    """Return the tail of what independent clients contribute to the error of one difference."""
    assert study.confirmation is not None
    assert isinstance(fit.errors, CohortErrors)
    reports = fit.evidence.reports
    if study.confirmation.assumes == "spread":
        return tail_of_people(fit.errors.sampling_variances(direction @ fit.map, direction), reports)
    reach = study.bound * np.abs(fit.on_averages(direction)).sum(axis=1, keepdims=True)
    return tail_of_bounded(reach, np.array([float(reports)]), np.zeros(1))
