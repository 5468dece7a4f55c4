"""What is asked of a Privatizer, and the statement that every result carries."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dpbandits._checks import at_least_zero_below_one, between, one_of, positive
from dpbandits.errors import NotAvailable
from dpbandits.privacy._mechanism import Mechanism, honest_clients
from dpbandits.privacy._registry import TRUST_MODELS
from dpbandits.privacy._trust_model import TrustModel

PRESETS = ("tight", "paper")
NEIGHBOURING = "replace-one"


@dataclass(frozen=True, kw_only=True)
class PrivacyRequest:
    """A trust model, (ε, δ), the kind of noise, and how it is calibrated; δ = 0 asks for pure privacy.

    Of a cohort, `minimum_share` must answer for a release to be made. Noise that clients share suffices
    for these, even if `silent_share` of them add none.
    """

    trust: str = "none"
    epsilon: float = 1.0
    delta: float = 1e-6
    preset: str = "tight"
    noise: str | None = None
    minimum_share: float = 1.0
    silent_share: float = 0.0

    def __post_init__(self) -> None:
        one_of(TRUST_MODELS, trust=self.trust)
        one_of(PRESETS, preset=self.preset)
        positive(epsilon=self.epsilon)
        at_least_zero_below_one(delta=self.delta)
        between(0.01, 1, minimum_share=self.minimum_share)
        between(0, 0.99, silent_share=self.silent_share)
        if self.trust_model.private:
            self._check_noise(self.trust_model)

    def _check_noise(self, model: TrustModel) -> None:
        if self.noise is not None and not model.offers(self.noise):
            one_of(model.all_noises(), noise=self.noise)
        if self.pure and not model.is_pure(self.mechanism_noise):
            expected = ", ".join((*model.pure_noises, "or delta > 0"))
            raise NotAvailable(f"noise: got {self.mechanism_noise} with delta 0, expected {expected}")

    @property
    def trust_model(self) -> TrustModel:
        """The trust model, as a value."""
        return TRUST_MODELS[self.trust]

    @property
    def pure(self) -> bool:
        """Whether δ = 0 was requested."""
        return self.delta == 0

    @property
    def mechanism_noise(self) -> str:
        """The requested noise, or the trust model's default.

        Raises:
            NotAvailable: The trust model has no default for this preset and δ.
        """
        if self.noise is not None:
            return self.noise
        default = self.trust_model.defaults.get((self.preset, self.pure))
        if default is None and self.preset == "paper":
            raise NotAvailable(
                f"preset: got paper with trust {self.trust} and delta {self.delta:g}, expected tight (the "
                "paper has no such mechanism)"
            )
        if default is None:
            raise NotAvailable(
                f"noise: got none with trust {self.trust}, preset {self.preset} and delta {self.delta:g}, "
                f"expected one of {', '.join(self.trust_model.all_noises())}"
            )
        return default

    @property
    def only_simulated(self) -> bool:
        """Whether the noise is for simulations only."""
        return self.trust_model.private and self.trust_model.only_simulated(self.mechanism_noise)

    @property
    def smallest_cohort(self) -> int:
        """The smallest cohort in which at least one client adds noise for certain."""
        return math.ceil(math.ceil(1 / (1 - self.silent_share) - 1e-9) / self.minimum_share - 1e-9)

    def minimum_reports(self, cohort: int) -> int:
        """The fewest answers of a cohort that are released."""
        return max(1, math.ceil(self.minimum_share * cohort - 1e-9))


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """For one client replaced, the view of whoever `trust` does not trust is (epsilon, delta)-DP."""

    trust: str
    epsilon: float
    delta: float
    neighbouring: str
    accountant: str
    preset: str
    noise: str
    needs: str


def weakest(request: PrivacyRequest, mechanisms: Iterable[Mechanism]) -> Mechanism | None:
    """That with the largest δ at the ε asked for; None without privacy."""
    if not request.trust_model.private:
        return None
    used = dict.fromkeys(mechanisms)
    return max(used, key=lambda mechanism: mechanism.event.delta(request.epsilon), default=None)


def _named(words: Iterable[str]) -> str:
    """Each once; phases may differ."""
    return "; ".join(dict.fromkeys(words))


def _all_needs(mechanisms: Iterable[Mechanism]) -> str:
    """What all of them need; cohorts that differ in size alone are named by the smallest and the largest."""
    shared: dict[str, list[tuple[int, int]]] = {}
    for mechanism in mechanisms:
        noisy = mechanism.noisy_reports
        text, pairs = (mechanism.needs, []) if noisy is None else (mechanism.rests_on, [noisy])
        shared.setdefault(text, []).extend((count, mechanism.minimum_reports) for count in pairs)
    return "; ".join(f"{text}; {honest_clients(pairs)}" if pairs else text for text, pairs in shared.items())


def guarantee(request: PrivacyRequest, mechanisms: Iterable[Mechanism]) -> Guarantee | None:
    """What holds for a whole study, given the mechanism of each phase; None without privacy.

    Each client serves in one phase only, so phases compose in parallel: the worst phase counts.
    """
    used = list(dict.fromkeys(mechanisms))
    worst = weakest(request, used)
    if worst is None:
        return None
    return Guarantee(
        trust=request.trust,
        epsilon=request.epsilon,
        delta=worst.event.delta(request.epsilon),
        neighbouring=NEIGHBOURING,
        accountant=_named(mechanism.event.accountant for mechanism in used),
        preset=request.preset,
        noise=_named(mechanism.noise_name for mechanism in used),
        needs=_all_needs(used),
    )
