"""The privacy that a study requests (`PrivacyRequest`) and the privacy that it has (`Guarantee`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dpbandits._checks import at_least_zero_below_one, between, convert_to_floats, one_of, positive
from dpbandits.errors import InvalidValue, NotAvailable
from dpbandits.privacy._mechanism import Mechanism, honest_clients
from dpbandits.privacy._registry import TRUST_MODELS
from dpbandits.privacy._trust_model import TrustModel

PRESETS = ("tight", "paper")
NEIGHBOURING = "replace-one"


@dataclass(frozen=True, kw_only=True)
class PrivacyRequest:
    """The requested trust model, (ε, δ) and noise, and how the noise is calibrated.

    Attributes:
        trust: The name of a trust model: none, central, local, shuffle, or one that a plugin adds.
        epsilon: The requested ε, above 0.
        delta: The requested δ, in [0, 1). 0 requests pure differential privacy.
        preset: "tight" for exact calibration, "paper" for the paper's constants as printed.
        noise: The noise distribution, or the `kind` of a mechanism that can be requested by name. None takes
            the default of the trust model.
        minimum_share: The share of a cohort that must report, between 0.01 and 1. With fewer reports nothing
            is released. Where clients share the noise, the reports of this share alone carry enough noise.
        silent_share: The share of the reporting clients that may add no noise without weakening the
            guarantee, between 0 and 0.99. It matters only where clients share the noise.
        sampled_share: The largest share of the population that is asked in the whole study, between 10⁻⁶ and
            1. If it is below 1, the asked clients must be drawn uniformly and stay secret, and less noise
            suffices (`of_members`). It may be below 1 only in preset tight, and only where the server adds
            the noise. δ must then be below it.

    Raises:
        InvalidValue: If a value is out of range, or the trust model does not have the noise.
        NotAvailable: If δ = 0 is requested, and the noise needs δ > 0 or the trust model has no default noise
            for δ = 0.

    Example:
        >>> import dpbandits as dp
        >>> request = dp.PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6, minimum_share=0.8)
        >>> request.minimum_reports(1000), request.pure
        (800, False)
    """

    trust: str = "none"
    epsilon: float = 1.0
    delta: float = 1e-6
    preset: str = "tight"
    noise: str | None = None
    minimum_share: float = 1.0
    silent_share: float = 0.0
    sampled_share: float = 1.0

    def __post_init__(self) -> None:
        one_of(TRUST_MODELS, trust=self.trust)
        one_of(PRESETS, preset=self.preset)
        positive(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)
        between(0.01, 1, minimum_share=self.minimum_share)
        between(0, 0.99, silent_share=self.silent_share)
        between(1e-6, 1, sampled_share=self.sampled_share)
        convert_to_floats(self)
        if self.sampled_share < 1:
            self._check_sampling(self.trust_model)
        if self.trust_model.private:
            self._check_noise(self.trust_model)

    def _check_sampling(self, model: TrustModel) -> None:
        if model.noise_by != "server" or self.preset != "tight":
            expected = "1, or preset tight and a trust model in which the server adds the noise"
            raise InvalidValue("sampled_share", self.sampled_share, expected)
        if self.delta >= self.sampled_share:
            raise InvalidValue("delta", self.delta, f"less than sampled_share = {self.sampled_share:g}")

    def _check_noise(self, model: TrustModel) -> None:
        if self.noise is not None and not model.offers(self.noise):
            one_of(model.all_noises(), noise=self.noise)
        if self.pure and not model.is_pure(self.mechanism_noise):
            expected = ", ".join((*model.pure_noises, "or delta > 0"))
            raise NotAvailable(f"noise: got {self.mechanism_noise} with delta 0, expected {expected}")

    @property
    def trust_model(self) -> TrustModel:
        """The `TrustModel` with the name `trust`."""
        return TRUST_MODELS[self.trust]

    @property
    def of_members(self) -> PrivacyRequest:
        """The (ε, δ) that suffices for a client who is known to be asked, if who is asked is secret.

        With q = `sampled_share`, it is (log(1 + (e^ε − 1)/q), δ/q); see docs/privacy.md. Example: with
        ε = 1 and q = 0.1 it is ε = 2.9.
        """
        if self.sampled_share == 1:
            return self
        share = self.sampled_share
        epsilon = math.log1p(math.expm1(self.epsilon) / share)
        return replace(self, epsilon=epsilon, delta=self.delta / share, sampled_share=1.0)

    @property
    def pure(self) -> bool:
        """Whether δ = 0 was requested."""
        return self.delta == 0

    @property
    def noises(self) -> tuple[str, ...]:
        """The noises that a mechanism for this request may have: the requested one, or the default ones.

        Raises:
            NotAvailable: If the trust model has no default for this preset and δ.
        """
        if self.noise is not None:
            return (self.noise,)
        defaults = self.trust_model.defaults.get((self.preset, self.pure), ())
        if not defaults and self.preset == "paper":
            raise NotAvailable(
                f"preset: got paper with trust {self.trust} and delta {self.delta:g}, expected tight (the "
                "paper has no such mechanism)"
            )
        if not defaults:
            raise NotAvailable(
                f"noise: got none with trust {self.trust}, preset {self.preset} and delta {self.delta:g}, "
                f"expected one of {', '.join(self.trust_model.all_noises())}"
            )
        return defaults

    @property
    def mechanism_noise(self) -> str:
        """The requested noise, or the first of the trust model's defaults."""
        return self.noises[0]

    @property
    def only_simulated(self) -> bool:
        """Whether the noise uses floating point, which only simulations may use."""
        return self.trust_model.private and self.trust_model.only_simulated(self.mechanism_noise)

    @property
    def smallest_cohort(self) -> int:
        """The smallest cohort in which at least one reporting client is certain to add noise."""
        return math.ceil(math.ceil(1 / (1 - self.silent_share) - 1e-9) / self.minimum_share - 1e-9)

    def minimum_reports(self, cohort: int) -> int:
        """Return the fewest reports of a cohort in a release: `minimum_share` of it, and at least 1.

        Args:
            cohort: The number of clients that are asked.
        """
        return max(1, math.ceil(self.minimum_share * cohort - 1e-9))


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The privacy that holds: if one client is replaced, the untrusted party's view is (epsilon, delta)-DP.

    Attributes:
        trust: The trust model, which says who the untrusted party is.
        epsilon: The requested ε.
        delta: The δ that holds at this ε. In preset paper it can be larger than the requested δ.
        neighbouring: The neighbouring relation, always "replace-one".
        accountant: The method that computed δ.
        preset: "tight" or "paper".
        noise: The noise distributions that were used.
        needs: The assumptions besides the noise: who must follow the protocol, and who must not collude.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.privacy import calibrate, guarantee
        >>> request = dp.PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
        >>> stated = guarantee(request, [calibrate(request, coordinates=5, cohort=100, bound=1)])
        >>> stated.epsilon, stated.delta <= 1e-6, stated.neighbouring
        (1.0, True, 'replace-one')
    """

    trust: str
    epsilon: float
    delta: float
    neighbouring: str
    accountant: str
    preset: str
    noise: str
    needs: str


def weakest(request: PrivacyRequest, mechanisms: Iterable[Mechanism]) -> Mechanism | None:
    """Return the mechanism with the largest δ at the requested ε.

    Args:
        request: The privacy request.
        mechanisms: The mechanisms of all phases.

    Returns:
        The weakest mechanism. None if there is no mechanism, or no privacy was requested.
    """
    if not request.trust_model.private:
        return None
    used, epsilon = dict.fromkeys(mechanisms), request.of_members.epsilon
    return max(used, key=lambda mechanism: mechanism.event.delta(epsilon), default=None)


def _named(words: Iterable[str]) -> str:
    """Join the distinct texts: phases may use different mechanisms."""
    return "; ".join(dict.fromkeys(words))


def _all_needs(mechanisms: Iterable[Mechanism]) -> str:
    """Join the assumptions of all mechanisms. Cohorts that differ only in size share one sentence."""
    shared: dict[str, list[tuple[int, int]]] = {}
    for mechanism in mechanisms:
        noisy = mechanism.noisy_reports
        text, pairs = (mechanism.needs, []) if noisy is None else (mechanism.rests_on, [noisy])
        shared.setdefault(text, []).extend((count, mechanism.minimum_reports) for count in pairs)
    return "; ".join(f"{text}; {honest_clients(pairs)}" if pairs else text for text, pairs in shared.items())


def guarantee(request: PrivacyRequest, mechanisms: Iterable[Mechanism]) -> Guarantee | None:
    """Return the guarantee of a whole study.

    Each client serves in one phase only, so phases compose in parallel: the study is as private as its
    weakest phase.

    Args:
        request: The privacy request of the study.
        mechanisms: The mechanisms of all phases.

    Returns:
        The guarantee. None if there is no mechanism, or no privacy was requested.

    Example:
        >>> from dpbandits.privacy import PrivacyRequest, calibrate, guarantee
        >>> request = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
        >>> mechanism = calibrate(request, coordinates=2, cohort=100, bound=1)
        >>> guarantee(request, [mechanism]).trust
        'central'
    """
    used = list(dict.fromkeys(mechanisms))
    worst = weakest(request, used)
    if worst is None:
        return None
    return Guarantee(
        trust=request.trust,
        epsilon=request.epsilon,
        delta=request.sampled_share * worst.event.delta(request.of_members.epsilon),
        neighbouring=NEIGHBOURING,
        accountant=_named(mechanism.event.accountant for mechanism in used),
        preset=request.preset,
        noise=_named(mechanism.noise_name for mechanism in used),
        needs=_all_needs(used) + _sampling_needs(request),
    )


def _sampling_needs(request: PrivacyRequest) -> str:
    if request.sampled_share == 1:
        return ""
    return (
        f"; the server asks at most {request.sampled_share:.3g} of the clients who are ready, drawn "
        "uniformly at random, and nobody else learns who was asked; clients that tell others do not count "
        "as ready"
    )
