"""The distinguishing game, played against the real R, S and A of a mechanism.

In one world, a client is at the low corner of the box; in the other world, it is at the high corner. (In a
ball, the client is at the two ends of the diagonal.) All other clients have the same values in both worlds,
and the adversary knows these values. The adversary sees the view of the untrusted
party:

    central   the release of A                  shuffle   the batch that S forwards
    local     the report that R sends           none      the release of A

The adversary then guesses the world. Privacy bounds how well any adversary can guess: see _evidence.py. An
audit can refute a claim but never prove it. With honest noise, `violated` is true with probability at most 1
− confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import at_least_zero_below_one, non_negative, probability, whole
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy.auditing._evidence import AlarmLimits, AuditEvidence
from dpbandits.privacy.auditing._likelihood_ratios import Scorer, Views, others_value
from dpbandits.privacy.noise import NoiseSource

Reveals = Callable[[Mechanism, FloatArray, NoiseSource], Views]
"""From averages (plays × reports × coordinates; the client is the first report) to one view per play."""

SAMPLES = 20_000
CONFIDENCE = 1 - 1e-6

# Raw averages lie this many bounds from zero, so that a missing clip is detected.
_OUTSIDE = 10.0
# Points on the curve, as shares of the claimed ε, or of the largest ε that the number of plays can refute.
_CURVE = (0.0, 0.25, 0.5, 0.75, 1.0)
_BLOCK_ENTRIES = 1 << 22
_LARGEST_BLOCK = 2000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim that a view is (ε, δ)-private for one client replaced.

    Attributes:
        epsilon: The claimed ε, at least 0.
        delta: The claimed δ, at least 0 and below 1.

    Example:
        >>> from dpbandits.privacy import Claim
        >>> Claim(epsilon=1.0, delta=1e-6)
        Claim(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        non_negative(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A point of the curve that the audit refuted.

    Attributes:
        epsilon: The ε of the point.
        delta: The claimed δ at that ε.
        delta_lower_bound: A lower bound on the true δ at that ε.

    Example:
        >>> from dpbandits.privacy import Violation
        >>> round(Violation(epsilon=1.0, delta=0.1, delta_lower_bound=0.15).excess, 3)
        0.05
    """

    epsilon: float
    delta: float
    delta_lower_bound: float

    @property
    def excess(self) -> float:
        """The lower bound minus the claimed δ."""
        return self.delta_lower_bound - self.delta


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The result of an audit.

    All statements hold together with probability `confidence`.

    Attributes:
        claimed: The audited claim.
        epsilon_lower_bound: A lower bound on the true ε at the claimed δ.
        confidence: The probability with which the statements hold.
        samples: The number of plays in each of the two worlds.
        violation: The refuted point with the largest excess, or None if nothing was refuted.

    Example:
        >>> import numpy as np
        >>> from dpbandits.privacy import PrivacyRequest, SimulatedNoise, audit, calibrate
        >>> request = PrivacyRequest(trust="local", epsilon=1, delta=0)
        >>> mechanism = calibrate(request, coordinates=1, cohort=100, bound=1)
        >>> noise = SimulatedNoise(np.random.default_rng(1))
        >>> result = audit(mechanism, noise, epsilon=1, delta=0, samples=2000)
        >>> result.samples, result.claimed.epsilon
        (2000, 1)
    """

    claimed: Claim
    epsilon_lower_bound: float
    confidence: float
    samples: int
    violation: Violation | None

    @property
    def violated(self) -> bool:
        """Whether the claim, or the mechanism's own curve δ(ε), was refuted."""
        return self.violation is not None


def audit(
    mechanism: Mechanism,
    noise: NoiseSource,
    *,
    epsilon: float,
    delta: float | None = None,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    reveals: Reveals | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditResult:
    """Try to refute that a mechanism is (ε, δ)-private, and its whole curve δ(ε).

    Args:
        mechanism: The mechanism.
        noise: The noise source that the mechanism draws from.
        epsilon: The claimed ε.
        delta: The claimed δ; if None, what the mechanism's event states at `epsilon`.
        samples: The number of plays in each world, at least 100.
        confidence: The probability with which the result holds.
        reveals: Replaces `reveal`, to audit a mechanism that runs elsewhere.
        progress: Called with the number of plays that were just finished.

    Returns:
        The result, with a violation if one was proved.

    Raises:
        InvalidValue: If an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from dpbandits.privacy import PrivacyRequest, SimulatedNoise, audit, calibrate
        >>> request = PrivacyRequest(trust="local", epsilon=1, delta=0)
        >>> mechanism = calibrate(request, coordinates=1, cohort=100, bound=1)
        >>> noise = SimulatedNoise(np.random.default_rng(1))
        >>> result = audit(mechanism, noise, epsilon=1, delta=0, samples=2000)
        >>> result.violated, result.epsilon_lower_bound < 1
        (False, True)
    """
    whole(100, samples=samples)
    probability(confidence=confidence)
    claim = Claim(epsilon=epsilon, delta=mechanism.event.delta(epsilon) if delta is None else delta)
    curve = _curve(mechanism, claim, samples // 2)
    worlds = [_play(mechanism, noise, side, samples, reveals or reveal, progress) for side in (-1.0, 1.0)]
    evidence = _evidence(*worlds, limits=2 * (len(curve) + 1), confidence=confidence)
    bound, violation = _judge(claim, curve, evidence)
    return AuditResult(
        claimed=claim, epsilon_lower_bound=bound, confidence=confidence, samples=samples, violation=violation
    )


def reveal(mechanism: Mechanism, averages: FloatArray, noise: NoiseSource) -> Views:
    """Return the view of the untrusted party, one per play.

    Args:
        mechanism: The mechanism.
        averages: An array of the shape plays × reports × coordinates. The audited client is the first report.
        noise: The noise source that the mechanism draws from.

    Example:
        >>> import numpy as np
        >>> from dpbandits.privacy import PrivacyRequest, SimulatedNoise, calibrate
        >>> from dpbandits.privacy.auditing import reveal
        >>> mechanism = calibrate(PrivacyRequest(trust="local"), coordinates=1, cohort=10, bound=1)
        >>> noise = SimulatedNoise(np.random.default_rng(1))
        >>> reveal(mechanism, np.zeros((5, 1, 1)), noise).shape
        (5, 1)
    """
    plays, reports, coordinates = averages.shape
    view = mechanism.trust_model.view
    if view == "report":
        return mechanism.randomize(averages[:, 0], noise)
    sent = mechanism.randomize(averages.reshape(-1, coordinates), noise)
    forwarded = [mechanism.shuffle(one, noise) for one in sent.reshape(plays, reports, *sent.shape[1:])]
    if view == "batch":
        return np.stack(forwarded)
    return np.stack([mechanism.analyze(batch, reports, noise) for batch in forwarded])


def _reports(mechanism: Mechanism) -> int:
    """Return how many reports a play has.

    Noise that clients share is smallest when the fewest clients report, so the shuffle model is audited at
    its minimum. Local noise is not shared, so one report is enough.
    """
    model = mechanism.trust_model
    if model.view == "report":
        return 1
    return mechanism.minimum_reports if model.shares_noise else mechanism.cohort


def _play(
    mechanism: Mechanism,
    noise: NoiseSource,
    side: float,
    plays: int,
    reveals: Reveals,
    progress: Callable[[int], None] | None,
) -> FloatArray:
    """Play one world and return its scores: one row per kind of score, one column per play."""
    reports = _reports(mechanism)
    # The number of plays at a time is limited by memory and by the resolution of a progress bar.
    block = max(1, min(_LARGEST_BLOCK, _BLOCK_ENTRIES // (reports * mechanism.message_size)))
    scorer = Scorer(mechanism, reports)
    scored = []
    for start in range(0, plays, block):
        shape = (min(block, plays - start), reports, mechanism.coordinates)
        averages = np.full(shape, others_value(mechanism))
        # The mechanism must clip these averages itself, so that a missing clip is detected.
        averages[:, 0] = side * _OUTSIDE * mechanism.bound
        scored.append(np.array(scorer(reveals(mechanism, averages, noise))))
        if progress is not None:
            progress(len(averages))
    return np.concatenate(scored, axis=1)


def _curve(mechanism: Mechanism, claim: Claim, tested: int) -> list[Claim]:
    """Return the mechanism's claims at several ε, no larger than this number of plays can refute."""
    largest = min(claim.epsilon, math.log(tested))
    points = [(share * largest, mechanism.event.delta(share * largest)) for share in _CURVE]
    return [Claim(epsilon=epsilon, delta=delta) for epsilon, delta in points if delta < 1]


def _evidence(low: FloatArray, high: FloatArray, *, limits: int, confidence: float) -> list[AuditEvidence]:
    """Return the evidence for each score and each direction.

    Either world may be the one to be recognised, by any of the scores. The error probabilities add up
    (Bonferroni).
    """
    # Two directions per score, and `limits` limits for each.
    tail = (1 - confidence) / (limits * 2 * len(low))
    sides = [side for one, other in zip(low, high, strict=True) for side in ((other, one), (-one, -other))]
    return [AuditEvidence.of(recognised, other, tail) for recognised, other in sides]


def _judge(claim: Claim, curve: list[Claim], evidence: list[AuditEvidence]) -> tuple[float, Violation | None]:
    """Return the largest ε proved at the claimed δ, and the refuted point with the largest excess."""
    at_claim = [one.about_epsilon(claim.delta) for one in evidence]
    points = [_missed(claim, at_claim)]
    points += [_missed(point, [one.about_delta(point.epsilon) for one in evidence]) for point in curve]
    worst = max(points, key=lambda point: point.excess)
    bound = max(limits.epsilon(claim.delta) for limits in at_claim)
    return bound, worst if worst.excess > 0 else None


def _missed(point: Claim, shown: list[AlarmLimits]) -> Violation:
    """Return the best lower bound on δ at a point; it is a violation only if its excess is positive."""
    delta = max(limits.delta(point.epsilon) for limits in shown)
    return Violation(epsilon=point.epsilon, delta=point.delta, delta_lower_bound=delta)
