"""A client's consent: the terms and plans that it accepts.

The client checks the terms and every plan itself, and refuses a plan whose privacy it cannot prove. It checks
the terms before it enrols, so that it spends no participation on a study it would refuse. It checks a plan
when the plan arrives. If a plan asks for more than the consent allows, the client sends no report.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._checks import at_least_zero_below_one, between, one_of, positive, whole
from dpbandits.errors import Refused
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan
from dpbandits.service.wire import MODES, MOST_COHORT, SignedTerms, Terms, proved_delta

LARGEST_REPORT = 1 << 20  # bytes; limits what a plan can make a client send or keep in memory


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The trust models, shuffler modes, (ε, δ) and cohort sizes that a client accepts.

    In the shuffle model the guarantee depends on the noise of other clients. A coordinator that invents
    clients removes that noise. `minimum_cohort`, `largest_cohort` and `least_silent_share` limit this attack.

    Example: `Consent(epsilon=1, delta=1e-6, modes=("split",), minimum_cohort=500, least_silent_share=0.5)`.

    Attributes:
        trusts: The accepted trust models.
        epsilon: The largest accepted ε.
        delta: The largest accepted δ.
        modes: The accepted modes of the shuffler.
        minimum_cohort: The least number of reports in every release.
        largest_cohort: The largest cohort. A client's own noise is a smaller part of the total in a larger
            cohort.
        least_silent_share: The least accepted `silent_share` of a study. That is the share of reports that
            may contain no noise while the noise of the other reports still suffices.
        biased_bits: Whether to accept the paper's Algorithm 2, in which noise bits are not fair coins.
        conformance: Whether the client is being tested. If so, it takes part in conformance tests only.
            Otherwise it never takes part in a conformance test.

    Example:
        >>> from dpbandits.service.client import Consent
        >>> consent = Consent(trusts=("shuffle",), epsilon=1, modes=("verified",), minimum_cohort=500)
        >>> consent.epsilon, consent.least_silent_share
        (1, 0.0)
    """

    trusts: tuple[str, ...] = ("local", "shuffle")
    epsilon: float = 1.0
    delta: float = 1e-6
    modes: tuple[str, ...] = MODES
    minimum_cohort: int = 1
    largest_cohort: int = MOST_COHORT
    least_silent_share: float = 0.0
    biased_bits: bool = False
    conformance: bool = False

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
        """Check that the terms promise at least what this consent requires.

        Args:
            terms: The study's terms.

        Raises:
            Refused: The terms promise less; the message names the first field that does.
        """
        model, trusts, modes = terms.trust_model, ", ".join(self.trusts), ", ".join(self.modes)
        reports, cohort, silent = terms.minimum_reports, terms.largest_cohort, terms.silent_share
        least, most, share = self.minimum_cohort, self.largest_cohort, self.least_silent_share
        version, expected = terms.version, "another version: a study is not a conformance test"
        _demand(terms.conformance == self.conformance, f"version: got {version}, expected {expected}")
        _demand(terms.trust in self.trusts, f"trust: got {terms.trust}, expected one of {trusts}")
        _demand(reports >= least, f"minimum_reports: got {reports:,}, expected at least {least:,}")
        _demand(cohort <= most, f"largest_cohort: got {cohort:,}, expected at most {most:,}")
        if model.shuffler:
            _demand(terms.mode in self.modes, f"mode: got {terms.mode}, expected one of {modes}")
        if model.shares_noise:
            _demand(silent >= share, f"silent_share: got {silent:g}, expected at least {share:g}")
        if model.private:
            promised = f"({terms.epsilon:g}, {terms.delta:g})-DP"
            expected = f"({self.epsilon:g}, {self.delta:g})-DP or stronger"
            enough = terms.epsilon <= self.epsilon and terms.delta <= self.delta
            _demand(enough, f"privacy: got {promised}, expected {expected}")

    def check(self, plan: Plan, terms: Terms, signed: SignedTerms) -> None:
        """Check that a plan keeps the terms and that its noise gives this consent's (ε, δ).

        The client computes the privacy of the plan with its own accountant.

        Args:
            plan: The plan that the coordinator sent.
            terms: The terms that the client agreed to.
            signed: The text of these terms; the plan must name its digest.

        Raises:
            Refused: The plan is outside the terms or this consent.
        """
        mechanism = terms.check(plan, signed.digest)
        real = not mechanism.simulated_only
        _demand(real, "the plan uses floating-point noise, which is for simulation only")
        fair = getattr(mechanism, "noise_probability", 0.5) == 0.5
        _demand(fair or self.biased_bits, "the plan's noise bits are not fair coins (see biased_bits)")
        size, most = mechanism.message.size, LARGEST_REPORT
        _demand(size <= most, f"report size: got {size:,} bytes, expected at most {most:,}")
        if mechanism.trust_model.private:
            enough = proved_delta(mechanism, self.epsilon) <= self.delta
            _demand(enough, f"the plan's noise does not give ({self.epsilon:g}, {self.delta:g})-DP")


def _demand(met: bool, otherwise: str) -> None:
    if not met:
        raise Refused("no-consent", otherwise)
