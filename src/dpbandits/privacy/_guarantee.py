"""What is asked of a Privatizer, and the statement that every result carries."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dpbandits._checks import at_least_zero_below_one, between, one_of, positive
from dpbandits.errors import NotAvailable
from dpbandits.privacy._mechanism import Mechanism, by_name, honest_clients

TRUST_MODELS = ("none", "central", "local", "shuffle")
PRESETS = ("tight", "paper")
NEIGHBOURING = "replace-one"

_SINGLE_PARTY = ("gaussian", "discrete-gaussian", "laplace", "k-norm")
NOISES: dict[str, tuple[str, ...]] = {
    "none": (),
    "central": _SINGLE_PARTY,
    "local": _SINGLE_PARTY,
    "shuffle": ("binomial", "skellam", "discrete-gaussian", "polya"),
}
PURE_NOISES = ("laplace", "k-norm", "polya")

# The default noise, by preset, whether δ > 0, and trust model.
_DEFAULTS = {
    ("tight", True): {"central": "discrete-gaussian", "local": "discrete-gaussian", "shuffle": "binomial"},
    ("tight", False): {"central": "k-norm", "local": "k-norm", "shuffle": "polya"},
    ("paper", True): {"central": "gaussian", "local": "gaussian", "shuffle": "binomial"},
    ("paper", False): {"central": "laplace", "local": "laplace"},
}


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
        if self.noise is not None and self.trust != "none":
            one_of((*NOISES[self.trust], *by_name(self.trust)), noise=self.noise)
        if self.trust != "none" and self.pure and not self._has_pure_noise:
            pure = ", ".join(n for n in PURE_NOISES if n in NOISES[self.trust])
            raise NotAvailable(
                f"noise: got {self.mechanism_noise} with delta 0, expected {pure}, or delta > 0"
            )

    @property
    def pure(self) -> bool:
        """Whether δ = 0 was asked for."""
        return self.delta == 0

    @property
    def _has_pure_noise(self) -> bool:
        named = by_name(self.trust).get(self.mechanism_noise)
        return self.mechanism_noise in PURE_NOISES if named is None else named.pure

    @property
    def mechanism_noise(self) -> str:
        """The noise that was asked for, or the trust model's default."""
        if self.noise is not None:
            return self.noise
        defaults = _DEFAULTS[self.preset, not self.pure]
        if self.trust not in defaults:
            raise NotAvailable(
                f"preset: got paper with trust {self.trust} and delta 0, expected tight (the paper has no "
                "such mechanism)"
            )
        return defaults[self.trust]

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
    if request.trust == "none":
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
        text, pairs = (mechanism.needs, []) if noisy is None else (mechanism.parties, [noisy])
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
