"""What a client agrees to. It checks every plan itself: a coordinator that asks for more gets no answer."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.checks import at_least_zero_below_one, one_of, positive
from dpbandits.errors import Refused
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Trust models that are acceptable, and the weakest (ε, δ) in them.

    In the shuffle model the guarantee rests on the cohort being of real clients and, in split mode, on two
    parties that do not collude: no client can check either.
    """

    trusts: tuple[str, ...] = ("local", "shuffle")
    epsilon: float = 1.0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for trust in self.trusts:
            one_of(TRUST_MODELS, trust=trust)
        positive(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)

    def check(self, plan: Plan) -> None:
        """Refuse a plan whose mechanism protects less; computed by the accountant, not believed."""
        mechanism = plan.mechanism
        if mechanism is None:
            raise Refused("no-consent", "this plan asks nobody")
        if mechanism.trust not in self.trusts:
            raise Refused(
                "no-consent", f"trust model {mechanism.trust} is not among {', '.join(self.trusts)}"
            )
        if mechanism.trust != "none" and mechanism.event.delta(self.epsilon) > self.delta:
            raise Refused(
                "no-consent", f"the plan's noise does not give ({self.epsilon:g}, {self.delta:g})-DP"
            )
