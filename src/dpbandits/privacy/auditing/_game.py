"""The distinguishing game, played against the real R, S and A of a mechanism.

One client is at the low corner of the box in one world and at the high corner in the other; all others stay
where they are, and the adversary knows where. It sees what whoever is not trusted sees:

    central   what A releases                   shuffle   what S forwards
    local     what R sends for that client      none      what A releases

It then says which world it was. Privacy bounds how well anybody can: see _evidence.py. An audit can refute
a claim, never prove it. With honest noise `violated` comes out true with probability 1 − confidence at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import at_least_zero_below_one, non_negative, probability, whole
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy.auditing._evidence import AuditEvidence, Limits
from dpbandits.privacy.auditing._likelihood_ratios import Scorer, Views, others_value
from dpbandits.privacy.noise import NoiseSource

Reveals = Callable[[Mechanism, FloatArray, NoiseSource], Views]
"""From averages (plays × reports × coordinates; the client is the first report) to a view for each play."""

SAMPLES = 20_000
CONFIDENCE = 1 - 1e-6

# Raw averages lie this many bounds outside, so that a missing clip shows.
_OUTSIDE = 10.0
# Points on the curve, as shares of the claimed ε, or of the largest ε that so many plays can show.
_CURVE = (0.0, 0.25, 0.5, 0.75, 1.0)
_BLOCK_ENTRIES = 1 << 22
_LARGEST_BLOCK = 2000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The view is (epsilon, delta)-private for one client replaced."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        non_negative(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """At `epsilon`, `delta` is claimed, and the true δ was shown to be at least `delta_lower_bound`."""

    epsilon: float
    delta: float
    delta_lower_bound: float

    @property
    def excess(self) -> float:
        """By how much more than was claimed is given away."""
        return self.delta_lower_bound - self.delta


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What `samples` plays in each of the two worlds show about a claim.

    All statements hold together with probability `confidence`: that the true ε at the claimed δ is at
    least `epsilon_lower_bound`, and that `violation`, if there is one, is real.
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
    """Try to refute that the mechanism is (epsilon, delta)-private, and its whole curve δ(ε).

    Without `delta` the claim is what the mechanism's event states at `epsilon`. `reveals` replaces `reveal`
    to audit something that runs elsewhere; `progress` is told how many plays were finished.
    """
    whole(100, samples=samples)
    probability(confidence=confidence)
    claim = Claim(epsilon=epsilon, delta=mechanism.event.delta(epsilon) if delta is None else delta)
    curve = _curve(mechanism, claim, samples // 2)
    worlds = [_play(mechanism, noise, side, samples, reveals or reveal, progress) for side in (-1.0, 1.0)]
    evidence = _evidence(*worlds, limits=2 * (len(curve) + 1), confidence=confidence)
    bound, violation = _judge(claim, curve, evidence)
    return AuditResult(
        claimed=claim,
        epsilon_lower_bound=bound,
        confidence=confidence,
        samples=samples,
        violation=violation,
    )


def reveal(mechanism: Mechanism, averages: FloatArray, noise: NoiseSource) -> Views:
    """What whoever is not trusted sees, play by play."""
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
    """Noise that clients share is least when as few of them answer as may; local noise is not shared."""
    model = mechanism.trust_model
    if model.view == "report":
        return 1
    return mechanism.minimum_reports if model.shares_noise else mechanism.cohort


def _block(mechanism: Mechanism) -> int:
    """As many plays at a time as memory can bear and a progress bar can show."""
    entries = _reports(mechanism) * mechanism.message_size
    return max(1, min(_LARGEST_BLOCK, _BLOCK_ENTRIES // entries))


def _play(
    mechanism: Mechanism,
    noise: NoiseSource,
    side: float,
    plays: int,
    reveals: Reveals,
    progress: Callable[[int], None] | None,
) -> FloatArray:
    """The scores, a row each, of all plays of one world."""
    reports, block = _reports(mechanism), _block(mechanism)
    scorer = Scorer(mechanism, reports)
    scored = []
    for start in range(0, plays, block):
        averages = np.full(
            (min(block, plays - start), reports, mechanism.coordinates), others_value(mechanism)
        )
        averages[:, 0] = side * _OUTSIDE * mechanism.bound
        scored.append(np.array(scorer(reveals(mechanism, averages, noise))))
        if progress is not None:
            progress(len(averages))
    return np.concatenate(scored, axis=1)


def _curve(mechanism: Mechanism, claim: Claim, tested: int) -> list[Claim]:
    """What the mechanism's event states at several ε, no larger than so many tested plays can refute."""
    largest = min(claim.epsilon, math.log(tested))
    points = [(share * largest, mechanism.event.delta(share * largest)) for share in _CURVE]
    return [Claim(epsilon=epsilon, delta=delta) for epsilon, delta in points if delta < 1]


def _evidence(low: FloatArray, high: FloatArray, *, limits: int, confidence: float) -> list[AuditEvidence]:
    """Either world may be the one to be recognised, by any of the scores; all errors add up (Bonferroni)."""
    tail = (1 - confidence) / (limits * 2 * len(low))
    found = []
    for one, other in zip(low, high, strict=True):
        found.append(AuditEvidence.of(other, one, tail))
        found.append(AuditEvidence.of(-one, -other, tail))
    return found


def _judge(claim: Claim, curve: list[Claim], evidence: list[AuditEvidence]) -> tuple[float, Violation | None]:
    """The largest ε that is shown at the claimed δ, and the point that is missed by most, if any is."""
    at_claim = [one.about_epsilon(claim.delta) for one in evidence]
    points = [_missed(claim, at_claim)]
    points += [_missed(point, [one.about_delta(point.epsilon) for one in evidence]) for point in curve]
    worst = max(points, key=lambda point: point.excess)
    bound = max(limits.epsilon(claim.delta) for limits in at_claim)
    return bound, worst if worst.excess > 0 else None


def _missed(point: Claim, shown: list[Limits]) -> Violation:
    """By how much the best of the limits misses the point; it need not."""
    delta = max(limits.delta(point.epsilon) for limits in shown)
    return Violation(epsilon=point.epsilon, delta=point.delta, delta_lower_bound=delta)
