"""What one phase taught: the plan, the released means, and what the estimate's errors depend on."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.protocol._messages import Plan


@dataclass(frozen=True, kw_only=True)
class PhaseEvidence:
    """One phase's release with everything that the reward model needs to fit it.

    Attributes:
        plan: What was played and asked.
        reports: How many clients reported.
        means: The released mean of each reported number.
        counts: How many clients reported on each action, if each action has its own cohort; else empty.
        clipping_bias: A bound on how far clipping moves each released mean or, for clipping to a ball, one
            bound on how far it moves the vector of them. Empty if clipping changes nothing. Only if every
            client reports on all actions.
        clipping_scales: The scale c of what clipping takes off a single reward, P(more than t) ≤ p·exp(−t/c),
            for each action. Empty if rewards are clipped at the bound. Only if each action has its own
            cohort.
        estimate: The parameter that the reward model was fitted with; empty until it is.
    """

    plan: Plan
    reports: int
    means: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    clipping_bias: tuple[float, ...] = ()
    clipping_scales: tuple[float, ...] = ()
    estimate: tuple[float, ...] = ()
