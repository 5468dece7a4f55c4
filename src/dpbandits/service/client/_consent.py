"""What a client agrees to. It checks the study's terms and every plan itself, and refuses whatever it cannot
prove.

The terms are checked before the client enrols, so that no participation is spent on a study it would refuse.
The plan is checked when it arrives. A coordinator that asks for more gets no answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._checks import at_least_zero_below_one, between, one_of, positive, whole
from dpbandits.errors import Refused
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan
from dpbandits.service.wire import MODES, MOST_COHORT, SignedTerms, Terms, proved_delta

LARGEST_REPORT = 1 << 20  # bytes: a plan must not make a client send, or hold in memory, more than this


@dataclass(frozen=True, kw_only=True)
class Consent:
    """Acceptable trust models and shuffler modes, the weakest (ε, δ), and demands on the cohort.

    In the shuffle model the guarantee rests on other clients' noise. A coordinator that invents clients
    takes it away. `minimum_cohort` demands that at least this many reports are in every release,
    `largest_cohort` that one client's own noise is at least this large a part of the whole, and
    `least_silent_share` that the noise suffices even if this share of the reports has none. `biased_bits`
    accepts the paper's Algorithm 2, whose noise bits are not fair coins.

    Example: `Consent(epsilon=1, delta=1e-6, modes=("split",), minimum_cohort=500, least_silent_share=0.5)`.
    """

    trusts: tuple[str, ...] = ("local", "shuffle")
    epsilon: float = 1.0
    delta: float = 1e-6
    modes: tuple[str, ...] = MODES
    minimum_cohort: int = 1
    largest_cohort: int = MOST_COHORT
    least_silent_share: float = 0.0
    biased_bits: bool = False

    def __post_init__(self) -> None:
        for trust in self.trusts:
            one_of(TRUST_MODELS, trust=trust)
        for mode in self.modes:
            one_of(MODES, mode=mode)
        positive(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)
        whole(1, MOST_COHORT, minimum_cohort=self.minimum_cohort)
        whole(self.minimum_cohort, MOST_COHORT, largest_cohort=self.largest_cohort)
        between(0, 0.99, least_silent_share=self.least_silent_share)

    def check_terms(self, terms: Terms) -> None:
        """Refuse terms that promise less than was agreed to."""
        _demand(
            terms.trust in self.trusts, f"trust model {terms.trust} is not among {', '.join(self.trusts)}"
        )
        _demand(
            terms.minimum_reports >= self.minimum_cohort,
            f"releases may have {terms.minimum_reports:,} reports",
        )
        _demand(
            terms.largest_cohort <= self.largest_cohort, f"a cohort may have {terms.largest_cohort:,} clients"
        )
        if terms.trust_model.shuffler:
            _demand(terms.mode in self.modes, f"mode {terms.mode} is not among {', '.join(self.modes)}")
        if terms.trust_model.shares_noise:
            _demand(
                terms.silent_share >= self.least_silent_share, f"silent_share is only {terms.silent_share:g}"
            )
        if terms.trust_model.private:
            promised = terms.epsilon <= self.epsilon and terms.delta <= self.delta
            _demand(
                promised, f"the terms promise ({terms.epsilon:g}, {terms.delta:g})-DP, which is too little"
            )

    def check(self, plan: Plan, terms: Terms, signed: SignedTerms) -> None:
        """Refuse a plan outside the terms, or whose noise does not give (ε, δ): computed, not believed."""
        mechanism = terms.check(plan, signed.digest)
        _demand(not mechanism.simulated_only, "floating-point noise must not leave a machine")
        fair = getattr(mechanism, "noise_probability", 0.5) == 0.5
        _demand(fair or self.biased_bits, "noise bits are not fair coins")
        size = mechanism.message.size
        _demand(size <= LARGEST_REPORT, f"a report has {size:,} bytes, above the {LARGEST_REPORT:,} allowed")
        if mechanism.trust_model.private:
            enough = proved_delta(mechanism, self.epsilon) <= self.delta
            _demand(enough, f"the plan's noise does not give ({self.epsilon:g}, {self.delta:g})-DP")


def _demand(met: bool, otherwise: str) -> None:
    if not met:
        raise Refused("no-consent", otherwise)
