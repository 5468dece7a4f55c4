"""`PhaseEvidence`: the plan and release of one phase, with bounds on what clipping did to the means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from dpbandits.protocol._messages import Plan


@dataclass(frozen=True, kw_only=True)
class PhaseEvidence:
    """The release of one phase with everything that the reward model needs to fit it.

    Attributes:
        plan: The plan of the phase.
        reports: How many clients reported.
        means: The released mean of each reported number.
        counts: How many clients reported on each action, if each action has its own cohort; else empty.
        clipping_bias: An upper bound on how far clipping moves each released mean or, for clipping to a ball,
            a single upper bound on how far clipping moves the vector of means. Empty if clipping changes
            nothing. Used only if every client reports on all actions.
        clipping_slope: For clipping to a ball, the number c with `clipping_bias` = c·(log(1/β) + n·p), where
            p bounds the probability that a client is clipped; 0 otherwise. Used only if the study pools.
        clipping_scales: For each action the scale c of the amount that clipping cuts off a single reward:
            P(amount > t) ≤ p·exp(−t/c). Empty if rewards are clipped at the bound. Used only if each action
            has its own cohort.
        estimate: The parameter that the reward model estimated; empty before the fit.

    Example:
        >>> from dpbandits import examples
        >>> (evidence,) = examples.after_one_phase(examples.study()).history
        >>> evidence.reports, len(evidence.means) == evidence.plan.numbers
        (20, True)
    """

    plan: Plan
    reports: int
    means: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    clipping_bias: tuple[float, ...] = ()
    clipping_slope: float = 0.0
    clipping_scales: tuple[float, ...] = ()
    estimate: tuple[float, ...] = ()

    @cached_property
    def unfitted(self) -> PhaseEvidence:
        """The evidence as it was before the fit, without the estimate."""
        return replace(self, estimate=())
